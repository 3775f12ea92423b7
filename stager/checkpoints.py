"""What is known to be right of a file in the making: the SHA-256 of its prefixes, appended as the hash moves on.

A run that was killed leaves them; the next one hashes the file again, from the disk, and keeps it up to the last
prefix that agrees. So kept bytes are verified before anything is built on them, and nothing depends on the order in
which a volume writes back. Checkpoints of other content (a branch that moved) are ignored.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from stager.listing import RemoteFile
from stager.tree import Tree


@dataclass(frozen=True)
class Checkpoint:
    """The first `offset` bytes hash to `sha256`."""

    offset: int
    sha256: str


class Checkpoints:
    """The checkpoints of `file`, at `path` in `tree`."""

    def __init__(self, tree: Tree, path: str, file: RemoteFile) -> None:
        self._tree = tree
        self._path = path
        self._identity = f"{file.size} {file.expected_hash} {file.path}"

    def read(self) -> list[Checkpoint]:
        """What an earlier run knew, in order; ends at the first line that was not written wholly."""
        try:
            lines = self._tree.read(self._path).decode(errors="replace").splitlines()
        except FileNotFoundError:
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
        """Forget all but `marks`."""
        self._tree.unlink(self._path)
        self._write("".join(f"{line}\n" for line in (self._identity, *map(_render, marks))))

    def append(self, mark: Checkpoint) -> None:
        """Add one more; a single write, so that a kill leaves the line or no more than a torn one."""
        self._write(f"{_render(mark)}\n")

    def _write(self, text: str) -> None:
        descriptor = self._tree.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Forget all of them: the file is complete, or what they say cannot be relied upon."""
        self._tree.unlink(self._path)


def _render(mark: Checkpoint) -> str:
    return json.dumps([mark.offset, mark.sha256])


def _parse(line: str) -> Checkpoint | None:
    try:
        offset, sha256 = json.loads(line)
    except (ValueError, TypeError):
        return None
    valid = isinstance(offset, int) and offset > 0 and isinstance(sha256, str)
    return Checkpoint(offset, sha256) if valid else None
