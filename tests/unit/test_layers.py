"""The layers: no import runs up, and no folder has more modules than a reader takes in at once."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from review.checkout import NOT_PLANNED

PROGRAM = Path(__file__).parents[2]
MAY_IMPORT: dict[str, set[str]] = {
    "stager": set(),
    "config": {"stager"},
    "engines": {"config", "stager"},
    "planner": {"engines", "config", "stager"},
    "components": {"planner", "engines", "config", "stager"},
    "promotion": {"config", "stager"},
    "review": {"promotion", "components", "planner", "engines", "config", "stager"},
    "policy": set(),
}
"""What each package may import of the others."""
PROGRAMS = {
    "config/__main__.py": {"review"},
}
"""Command lines that import more: their module runs as a program, and nothing imports it."""
PROJECT = {*MAY_IMPORT, "lab", "tests", "bench", "examples"}
MODULES_AT_MOST = 13
"""In a folder, `__init__.py` and `__main__.py` apart."""
FLAT = {
    "stager": "it travels in a ConfigMap, whose keys have no folders",
}
"""Folders that have more, and why."""


def imported(file: Path) -> Iterator[str]:
    """The first part of each name that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_no_import_runs_up(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    upwards = {
        f"{file.relative_to(PROGRAM)} imports {name}"
        for file in (PROGRAM / package).rglob("*.py")
        for name in imported(file)
        if name in PROJECT - allowed - PROGRAMS.get(str(file.relative_to(PROGRAM)), set())
    }
    assert upwards == set()


def test_what_a_review_leaves_out_of_a_commit_is_nothing_that_its_planner_imports() -> None:
    assert set(NOT_PLANNED) == PROJECT - MAY_IMPORT["planner"] - {"planner", "examples"}


@pytest.mark.parametrize("package", [*MAY_IMPORT, "lab"])
def test_no_folder_has_more_than_a_dozen_modules(package: str) -> None:
    folders = [PROGRAM / package, *(path for path in (PROGRAM / package).rglob("*") if path.is_dir())]
    modules = {
        str(folder.relative_to(PROGRAM)): len([file for file in folder.glob("*.py") if not file.stem.startswith("__")])
        for folder in folders
    }
    assert {folder: count for folder, count in modules.items() if count > MODULES_AT_MOST}.keys() <= FLAT.keys()
