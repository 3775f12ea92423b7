"""Plans the stack files of one checkout with that checkout's own planner. `review.checkout` runs it as a script.

Reads the root of the checkout and a list of files from standard input as JSON, and writes one JSON object for each
file. Uses the planner's command line only, since the checkout may be of another commit than this file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Command = Callable[[list[str]], int]

_INVALID = 2
"""Exit status of `python -m planner fit` for an invalid stack file."""


def planned(root: Path, file: str, command: Command) -> dict[str, Any]:
    """The `sections` of a stack file, whether it is `unreadable`, and its `plan`, or the `faults` that it has."""
    path = root / file
    plan, faults = _plan(path, command)
    sections = sections_of(path)
    return {"sections": sections or {}, "unreadable": sections is None, "plan": plan, "faults": faults}


def _plan(path: Path, command: Command) -> tuple[Any, list[str]]:
    name = path.name.removeprefix("Pulumi.").removesuffix(".yaml")
    printed, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said), contextlib.chdir(path.parent):
        try:
            status = command(["fit", "--json", f"--stack={name}"])
        except SystemExit as ended:
            status = _INVALID
            said.write(str(ended.code or ""))
        except Exception as error:  # of another commit's planner, which may raise anything
            return None, [f"this commit's planner fails: {type(error).__name__}: {error}"]
    if status == _INVALID:
        return None, [line.strip() for line in said.getvalue().removeprefix("planner: ").splitlines()]
    return json.loads(printed.getvalue()), []


def sections_of(path: Path) -> dict[str, Any] | None:
    """The `heavylift:` values without their prefix and without secrets. None: the file is not YAML."""
    try:
        # libyaml's parser: three times as fast.
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return None
    config = document.get("config") if isinstance(document, dict) else None
    values = config if isinstance(config, dict) else {}
    return {
        key.removeprefix("heavylift:"): value
        for key, value in values.items()
        if isinstance(key, str) and key.startswith("heavylift:") and not _is_secret(key, value)
    }


def _is_secret(key: str, value: Any) -> bool:
    return key in ("heavylift:hub_token", "heavylift:api_key") or (isinstance(value, dict) and "secure" in value)


def _main() -> None:
    asked = json.load(sys.stdin)
    root = Path(asked["root"])
    sys.path.insert(0, str(root))
    os.chdir(root)
    from planner.__main__ import main as command

    json.dump({file: planned(root, file, command) for file in asked["files"]}, sys.stdout, default=str)


if __name__ == "__main__":
    _main()
