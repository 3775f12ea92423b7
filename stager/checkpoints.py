"""The verified prefixes of an incomplete file: their SHA-256, appended as the hash advances.

A killed run leaves them. The next run hashes the file again, from the disk, and keeps it up to the last prefix that
agrees. So kept bytes are always verified, in whatever order the volume writes back. Checkpoints of other content (a
branch that moved) are ignored.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from stager.listing import RemoteFile
from stager.tree import Tree


@dataclass(frozen=True)
class Checkpoint:
    """`sha256` is the hash of the first `offset` bytes."""

    offset: int
    sha256: str


class Checkpoints:
    """The checkpoints of `file`, at `path` in `tree`."""

    def __init__(self, tree: Tree, path: str, file: RemoteFile, *, may_exist: bool = True) -> None:
        self._tree = tree
        self._path = path
        self._identity = f"{file.size} {file.expected_hash} {file.path}"
        self._exists = may_exist
        """Whether there may be a file at `path`. Files of less than one block never get one."""

    def read(self) -> list[Checkpoint]:
        """The checkpoints of earlier runs, in order, up to the first incomplete line."""
        if not self._exists:
            return []
        try:
            lines = self._tree.read(self._path).decode(errors="replace").splitlines()
        except FileNotFoundError:
            self._exists = False
            return []
        if not lines or lines[0] != self._identity:
            return []
        marks: list[Checkpoint] = []
        for line in lines[1:]:
            mark = _parse(line)
            if mark is None or (marks and mark.offset <= marks[-1].offset):
                break
            marks.append(mark)
        return marks

    def restart(self, marks: list[Checkpoint]) -> None:
        """Keep only `marks`."""
        self.remove()
        if marks:
            self._write(marks)

    def append(self, mark: Checkpoint) -> None:
        """Add one, in a single write: a kill leaves one incomplete line at most."""
        self._write([mark])

    def _write(self, marks: list[Checkpoint]) -> None:
        lines = [_render(mark) for mark in marks]
        text = "".join(f"{line}\n" for line in (lines if self._exists else [self._identity, *lines]))
        self._exists = True
        descriptor = self._tree.open_own(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove all: the file is complete, or they are not reliable."""
        if self._exists:
            self._tree.unlink(self._path)
            self._exists = False


def _render(mark: Checkpoint) -> str:
    return json.dumps([mark.offset, mark.sha256])


def _parse(line: str) -> Checkpoint | None:
    try:
        offset, sha256 = json.loads(line)
    except (ValueError, TypeError):
        return None
    valid = isinstance(offset, int) and offset > 0 and isinstance(sha256, str)
    return Checkpoint(offset, sha256) if valid else None
