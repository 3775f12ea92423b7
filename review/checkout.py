"""The two checkouts that a report compares, and the plan of every stack file in each.

The base is extracted from git to a temporary directory; the other side is the working tree. Each is planned in a
process of its own, without the caller's environment, by the planner that it contains.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from review import probe
from stager.errors import StagerError
from stager.listing import Listing
from stager.lockfile import read_lock

_STACK_FILE = re.compile(r"Pulumi\..+\.yaml", re.DOTALL)

SHORT = 7
"""Digits of a commit in a report."""

NOT_PLANNED = ("components", "promotion", "review", "policy", "lab", "tests", "bench")
"""Packages that no planner imports. Their Python is more than half of a commit's files."""

_MOST_SAID = 300
"""Characters of another commit's error."""


class ReviewError(Exception):
    """The report cannot be made. The message says what to do."""


class PlannerError(ReviewError):
    """The planner of a checkout does not run."""


@dataclass(frozen=True)
class StackAt:
    """A stack file in one checkout, with its plan and its lock."""

    sections: Mapping[str, Any]
    """Values of the file without the prefix `heavylift:`, unchecked. Empty: not a file of heavylift."""
    plan: Mapping[str, Any] | None = None
    """With the keys of `python -m planner fit --json`. None: not planned."""
    faults: Sequence[str] = ()
    """Why there is no plan. Without a plan and without a fault, the planner of the checkout does not run."""
    lock: Listing | None = None
    """What its lock file lists. None: no lock, or an invalid one, which is a fault."""

    @property
    def verdict(self) -> str:
        """The plan's verdict, or `invalid`."""
        return str(self.plan["verdict"]) if self.plan else "invalid"


Stacks = Mapping[str, StackAt]
"""Stacks by the path of their file in the checkout."""


@dataclass(frozen=True)
class Base:
    """The commit that the working tree is compared with, extracted to a directory."""

    root: Path
    commit: str
    note: str = ""
    """What a reader must know about the choice of the commit."""


@contextmanager
def extracted_base(target: str, reference: str) -> Iterator[Base]:
    """Extracts the last common commit of `target` and HEAD, of the current directory and below.

    `reference` is the user's name for that commit. Raises ReviewError if git cannot extract it.
    """
    common = _git("merge-base", target, "HEAD", check=False).strip()
    note = "" if common else f"git knows no common commit with {reference}: compared with that commit itself"
    commit = common or target
    with TemporaryDirectory(prefix="heavylift-review-") as folder:
        left_out = [f":(exclude,glob){package}/**/*.py" for package in NOT_PLANNED]
        command = ["git", "archive", "--format=tar", commit, *left_out]
        # The end of the block closes the pipe: git archive would wait forever for a tar that has failed.
        with subprocess.Popen(command, stdout=subprocess.PIPE) as archive:
            unpacked = subprocess.run(["tar", "-xf", "-", "-C", folder], stdin=archive.stdout, check=False)
        if archive.returncode or unpacked.returncode:
            raise ReviewError(f"--base {reference}: git archive cannot extract {commit}")
        yield Base(Path(folder), commit, note)


def commit_of(reference: str) -> str:
    """The full commit of a git reference. Raises ReviewError if git does not know it."""
    _git("rev-parse", "--git-dir")
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{reference}^{{commit}}", check=False)
    if not commit:
        raise ReviewError(
            f"--base {reference}: git knows no such commit: expected a branch, tag or commit; in a shallow clone, "
            "fetch it first"
        )
    return commit.strip()


def reviewed_commit(base: str) -> str:
    """The full commit that is under review: HEAD; if that only merges a branch into the base, the branch's own."""
    parents = _git("rev-parse", "HEAD^@").split()
    return parents[1] if len(parents) == 2 and parents[0] == base else commit_of("HEAD")


def has_changes() -> bool:
    """Whether the working tree differs from its commit."""
    return bool(_git("status", "--porcelain", "--", "."))


def stack_files_of_working_tree() -> list[str]:
    """The stack files of the current directory and below that git does not ignore, sorted."""
    listed = _git("ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*Pulumi.*.yaml")
    return _stack_files(Path(path) for path in listed.split("\0") if path and Path(path).is_file())


def stack_files_below(root: Path) -> list[str]:
    """The stack files of a directory and below, relative to it, sorted."""
    return _stack_files(path.relative_to(root) for path in root.rglob("Pulumi.*.yaml") if path.is_file())


def plan_working_tree() -> Stacks:
    """The stacks of the current directory and below. Raises ReviewError if the planner does not run."""
    if not Path("planner").is_dir():
        raise ReviewError("no planner in this directory: run the command in the program's directory")
    return _planned(Path.cwd(), stack_files_of_working_tree())


def plan_base(root: Path) -> tuple[Stacks, str]:
    """The stacks below the root of the base. If its planner does not run: stacks without a plan, and the reason."""
    files = stack_files_below(root)
    try:
        return _planned(root, files, "-B"), ""
    except PlannerError as error:
        sections = {file: probe.sections_of(root / file) or {} for file in files}
        return {file: StackAt(values) for file, values in sections.items() if values}, str(error)


def read_stacks(root: Path, answers: Mapping[str, Mapping[str, Any]]) -> Stacks:
    """The answers of `review.probe` as stacks, with their locks. Files that are not of heavylift are left out."""
    return {
        file: StackAt(answer["sections"], answer["plan"], tuple(answer["faults"]), _lock(root / file, answer))
        for file, answer in answers.items()
        if answer["sections"] or answer["unreadable"]
    }


def _planned(root: Path, files: Sequence[str], *python_options: str) -> Stacks:
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL")}
    # pydantic looks for plugins in every installed distribution, which takes as long as three plans.
    environment["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    ended = subprocess.run(
        [sys.executable, "-I", *python_options, probe.__file__],
        input=json.dumps({"root": str(root), "files": files}),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["it ended without a message"]
        raise PlannerError(f"the planner does not run: {last[0][:_MOST_SAID]}")
    return read_stacks(root, json.loads(ended.stdout))


def _lock(file: Path, answer: Mapping[str, Any]) -> Listing | None:
    stage = answer["sections"].get("stage")
    name = stage.get("lock") if isinstance(stage, dict) else None
    if not isinstance(name, str):
        return None
    try:
        return read_lock(file.parent / name)
    except (StagerError, ValueError):
        return None


def _stack_files(paths: Iterable[Path]) -> list[str]:
    return sorted({str(path) for path in paths if _STACK_FILE.fullmatch(path.name)})


def _git(*arguments: str, check: bool = True) -> str:
    """What git prints. Raises ReviewError if git is missing, or fails and `check` is true."""
    try:
        ended = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, errors="surrogateescape", check=False
        )
    except FileNotFoundError:
        raise ReviewError("git is not installed: the report compares with a commit") from None
    if check and ended.returncode:
        raise ReviewError(f"git {arguments[0]} fails: {ended.stderr.strip()}")
    return ended.stdout if not ended.returncode else ""
