"""Reading of the data files: each when it is first asked for, with the standard library alone.

A key that a type does not have, or lacks, is refused when the entry is read; what the values are is for a test.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data"

Fields = dict[str, Any]
"""Fields of a published JSON file (`config.json`), as they are."""

_MOST_LISTED = 20
"""Names that a message lists where none is close to what was given."""


class NotInCatalogueError(Exception):
    """A name that the catalogue does not have."""

    def __init__(self, what: str, name: str, known: list[str]) -> None:
        spelled = {each.lower(): each for each in known}
        close = [spelled[each] for each in get_close_matches(name.lower(), spelled, n=3, cutoff=0.5)]
        helpful = close or (known if len(known) <= _MOST_LISTED else [])
        expected = f": expected one of {', '.join(helpful)}" if helpful else ""
        super().__init__(f"{what} {name!r} is not in the catalogue{expected}")
        self.name = name


@cache
def read(name: str) -> Fields:
    """The content of one data file."""
    return load(DATA / name)


def load(path: Path) -> Fields:
    """The content of a JSON file."""
    loaded: Fields = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def frozen(entry: Fields) -> Fields:
    """The fields of an entry with tuples for its lists, at any depth."""
    return {name: _frozen(value) for name, value in entry.items()}


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return frozen(value)
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
