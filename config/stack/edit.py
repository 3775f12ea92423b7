"""Copies keys from one stack file to another, and leaves every other byte as it is.

Works on the text: an entry is replaced by the text that it has in the other file. Whatever is written is parsed again,
and must differ from the old file in exactly these keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from config.errors import StackError
from config.stack.file import NAMESPACE


@dataclass(frozen=True)
class _Entry:
    """A key with its value, as a part of the file's text."""

    start: int
    end: int
    column: int


@dataclass(frozen=True)
class _Section:
    """An object of the stack file: its entries by key, in their order."""

    entries: dict[str, _Entry]
    is_block: bool
    """Whether each entry begins a line of its own; else the object is in braces, or missing."""


@dataclass(frozen=True)
class _Edit:
    """A part of the text, and what takes its place."""

    start: int
    end: int
    written: str


def with_keys_of(text: str, source: str, paths: Sequence[str]) -> str:
    """The text of a stack file in which the given keys (`engine.image`) are as in the text of another one.

    Raises StackError if this is not possible without a change of anything else.
    """
    edits: list[_Edit] = []
    for name in dict.fromkeys(path.split(".")[0] for path in paths):
        keys = {path.split(".")[1] for path in paths if path.startswith(f"{name}.")}
        edits += _edits(text, source, name, keys)
    changed = text
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    for edit in ordered[::-1]:  # from the last to the first, so that places stay true
        changed = changed[: edit.start] + edit.written + changed[edit.end :]
    if _document(changed) != _expected(text, source, paths):
        raise _refusal(
            paths, "they cannot be replaced without changing other keys, as with anchors, merges and blocks of text"
        )
    return changed


def _edits(text: str, source: str, name: str, keys: set[str]) -> Iterator[_Edit]:
    """The edits of one section, in the order of the other file's keys."""
    ours, theirs = _section(text, name), _section(source, name)
    if not ours.is_block:
        raise _refusal([f"{name}.{key}" for key in sorted(keys)], "expected the section's keys on a line each")
    first = next(iter(ours.entries.values()))
    before: _Entry | None = None
    for key, entry in theirs.entries.items():
        if key in keys:
            written = _indented(source[entry.start : entry.end], entry.column, first.column, _line_end(text))
            yield _set(text, ours.entries.get(key), written, first, before)
        before = ours.entries.get(key, before)
    for key in keys & ours.entries.keys() - theirs.entries.keys():
        start = _line_start(text, ours.entries[key].start)
        yield _Edit(start, _next_line(text, ours.entries[key].end), "")


def _set(text: str, old: _Entry | None, written: str, first: _Entry, before: _Entry | None) -> _Edit:
    """Replaces an entry, or adds one on a line of its own: below `before`, or above the first one of the section."""
    if old is not None:
        return _Edit(old.start, old.end, written)
    line = " " * first.column + written
    place = _next_line(text, before.end) if before else _line_start(text, first.start)
    is_open = text[place - 1] != "\n"  # the file's last line, without a line end
    return _Edit(place, place, _line_end(text) + line if is_open else line + _line_end(text))


def _indented(entry: str, column: int, wanted: int, line_end: str) -> str:
    """An entry of several lines, moved from one column to another."""
    first, *others = entry.splitlines()
    moved = [line if not line.strip() else " " * wanted + line[column:] for line in others]
    return line_end.join([first, *moved])


def _section(text: str, name: str) -> _Section:
    node = _child(_child(yaml.compose(text, Loader=yaml.SafeLoader), "config"), f"{NAMESPACE}{name}")
    if not isinstance(node, yaml.MappingNode):
        return _Section({}, is_block=False)
    entries = {
        key.value: _Entry(key.start_mark.index, _end(value, text, key.end_mark.index), key.start_mark.column)
        for key, value in node.value
        if isinstance(key, yaml.ScalarNode)
    }
    return _Section(entries, is_block=not node.flow_style)


def _child(node: yaml.Node | None, name: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for key, value in node.value if key.value == name), None)


def _end(node: yaml.Node, text: str, at_least: int) -> int:
    """Where a value ends. PyYAML lets a block end where the next entry begins, behind the comments between them."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last, text, at_least)
    return max(at_least, len(text[: node.end_mark.index].rstrip()))


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _next_line(text: str, place: int) -> int:
    """Where the line below a place begins; the end of the text if there is none."""
    return text.find("\n", place) + 1 or len(text)


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _document(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _expected(text: str, source: str, paths: Sequence[str]) -> Any:
    """The old document with the keys of the other one."""
    expected, other = deepcopy(_document(text)), _document(source)
    for path in paths:
        section, key = path.split(".")
        ours = expected["config"][f"{NAMESPACE}{section}"]
        theirs = other["config"].get(f"{NAMESPACE}{section}") or {}
        if key in theirs:
            ours[key] = theirs[key]
        else:
            ours.pop(key, None)
    return expected


def _refusal(paths: Sequence[str], why: str) -> StackError:
    return StackError([f"{NAMESPACE}{path}: {why}; change it by hand" for path in paths])
