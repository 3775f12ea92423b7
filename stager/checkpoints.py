"""What is known to be right of a file in the making: the SHA-256 of its prefixes, appended as the hash moves on.

A run that was killed leaves them; the next one hashes the file again and keeps it up to the last prefix that agrees.
So kept bytes are verified before anything is built on them, and nothing depends on the order in which a volume
writes back. Checkpoints of other content (a branch that moved) are ignored.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

from stager.listing import RemoteFile
from stager.verify import OWN_DIRECTORY
from stager.volume import FILE_MODE, make_directory


@dataclass(frozen=True)
class Checkpoint:
    """The first `offset` bytes hash to `sha256`."""

    offset: int
    sha256: str


class Checkpoints:
    """The checkpoints of one file, in `<digest>/.heavylift/checkpoints/`."""

    def __init__(self, directory: Path, file: RemoteFile) -> None:
        name = hashlib.sha256(file.path.encode()).hexdigest()[:32]
        self._path = directory / OWN_DIRECTORY / "checkpoints" / name
        self._identity = f"{file.size} {file.expected_hash} {file.path}"

    def read(self) -> list[Checkpoint]:
        """What an earlier run knew, in order; ends at the first line that was not written wholly."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
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
        make_directory(self._path.parent)
        lines = [self._identity, *map(_render, marks)]
        self._path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    def append(self, mark: Checkpoint) -> None:
        """Add one more; a single write, so that a kill leaves the line or no more than a torn one."""
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
        try:
            os.write(descriptor, f"{_render(mark)}\n".encode())
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """The file is complete; nothing of this is needed any more."""
        self._path.unlink(missing_ok=True)


def _render(mark: Checkpoint) -> str:
    return json.dumps([mark.offset, mark.sha256])


def _parse(line: str) -> Checkpoint | None:
    try:
        offset, sha256 = json.loads(line)
    except (ValueError, TypeError):
        return None
    valid = isinstance(offset, int) and offset > 0 and isinstance(sha256, str)
    return Checkpoint(offset, sha256) if valid else None
