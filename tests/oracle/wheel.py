"""Reads an engine's wheels, and keeps what their sources say: a line a release."""

import ast
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from tests.oracle.pairs import write_lines

Sources = dict[str, ast.Module]
"""Parsed files by path within the wheel."""


def download_wheel(project: str, release: str, directory: Path) -> Path:
    """Downloads the wheel of a release."""
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
    subprocess.run([*pip, "download", "--no-deps", "--dest", str(directory), f"{project}=={release}"], check=True)
    return next(directory.glob(f"{project}-{release}-*.whl"))


def read_wheel(wheel: Path, wanted: Sequence[str]) -> Sources:
    """The sources of a wheel whose paths match one of the wanted patterns."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if any(fnmatch(name, pattern) for pattern in wanted)]
        return {name: ast.parse(archive.read(name)) for name in names}


def strings(node: ast.AST) -> list[str]:
    """Texts within an expression, in order."""
    return [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]


def update_facts(
    project: str,
    releases: Sequence[str],
    path: Path,
    about: str,
    wanted: Sequence[str],
    facts: Callable[[str, Sources], dict[str, Any]],
) -> None:
    """Reads the releases, or without any those that the file has, and writes their facts beside the others, oldest
    first."""
    before = json.loads(path.read_text(encoding="utf-8"))["releases"] if path.exists() else []
    known = {entry["release"]: entry for entry in before}
    for release in releases or list(known):
        with tempfile.TemporaryDirectory(prefix=f"{project}-wheel-") as directory:
            known[release] = facts(release, read_wheel(download_wheel(project, release, Path(directory)), wanted))
        print(f"{project} {release}: {len(known[release]['flags'])} flags", file=sys.stderr)
    ordered = sorted(known.values(), key=lambda entry: [int(part) for part in entry["release"].split(".")])
    write_lines(path, {"about": about}, "releases", ordered)
