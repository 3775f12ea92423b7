"""One file in the making: `<file>.part`, written by several streams at once, hashed in order as it grows.

SHA-256 can only be computed in order. So a stream whose bytes are next in order hashes them from memory as it writes
them, and what other streams wrote ahead is read back from the page cache as soon as its turn comes. Streams may run
ahead of the hash by at most two blocks each, which also bounds what a kill can cost. The file takes its own name
only after its hash was right and its bytes are on the disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from stager.checkpoints import Checkpoint, Checkpoints
from stager.content_hash import Buffer, ContentHash
from stager.errors import StagerError
from stager.listing import PART_SUFFIX, RemoteFile
from stager.volume import FILE_MODE, make_directory, sync_directory

BLOCK_BYTES = 32 * 1024 * 1024
READ_BYTES = 1024 * 1024


class Part:
    """The making of `file` below `directory`; one thread opens and finishes it, any number write to it."""

    def __init__(self, directory: Path, file: RemoteFile) -> None:
        self.file = file
        self.path = directory / file.path
        self._directory = directory
        self._part = self.path.with_name(self.path.name + PART_SUFFIX)
        self._checkpoints = Checkpoints(directory, file)
        self._descriptor = -1
        self._hash = ContentHash(file)
        self._hashed = 0
        self._hashing = False
        self._written: dict[int, int] = {}
        self._lock = threading.Lock()

    @property
    def hashed(self) -> int:
        """How many bytes, from the start, are written and hashed."""
        return self._hashed

    @property
    def bytes_on_disk(self) -> int:
        """What the volume already gave to this file, in bytes; a file in the making may have holes."""
        for path in (self.path, self._part):
            if path.is_file() and not path.is_symlink():
                return min(path.stat().st_blocks * 512, self.file.size)
        return 0

    def is_complete(self, watch: Callable[[int], None]) -> bool:
        """Whether the file is there under its own name with the right content; if it is wrong, it is removed.

        `watch` is called with the number of bytes hashed since the last call, and may raise to end it.
        """
        if self.path.is_symlink() or not self.path.is_file():
            return False
        if self.path.stat().st_size == self.file.size:
            content_hash = ContentHash(self.file)
            with self.path.open("rb", buffering=0) as content:
                while chunk := content.read(READ_BYTES):
                    content_hash.update(chunk)
                    watch(len(chunk))
            if content_hash.problem() is None:
                self._hash, self._hashed = content_hash, self.file.size
                return True
        self.path.unlink()
        return False

    def open(self, watch: Callable[[int], None]) -> None:
        """Open for writing; what an earlier run left is hashed again and kept as far as it is right."""
        self._make_real_parents()
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(self._part, flags, FILE_MODE)
        kept = self._verified_prefix(watch)
        os.ftruncate(self._descriptor, self._hashed)
        self._checkpoints.restart(kept)

    def _make_real_parents(self) -> None:
        way = self._directory
        for name in PurePosixPath(self.file.path).parts[:-1]:
            way /= name
            if way.is_symlink():
                raise StagerError(f"{way}: is a symbolic link; weights are staged as real files, remove it")
        make_directory(self.path.parent)

    def _verified_prefix(self, watch: Callable[[int], None]) -> list[Checkpoint]:
        kept: list[Checkpoint] = []
        for mark in self._checkpoints.read():
            trial = self._hash.copy()
            if not self._hash_range(trial, self._hashed, mark.offset, watch) or trial.sha256 != mark.sha256:
                break
            self._hash, self._hashed = trial, mark.offset
            kept.append(mark)
        return kept

    def _hash_range(self, content_hash: ContentHash, start: int, end: int, watch: Callable[[int], None]) -> bool:
        """Feed the bytes from `start` to `end` from the disk; False when the file ends before."""
        while start < end:
            chunk = os.pread(self._descriptor, min(READ_BYTES, end - start), start)
            if not chunk:
                return False
            content_hash.update(chunk)
            watch(len(chunk))
            start += len(chunk)
        return True

    def write(self, offset: int, content: Buffer) -> None:
        """Write `content` at `offset`, and hash whatever is next in order, unless another stream is at it."""
        view = memoryview(content)
        end = offset
        while view:
            count = os.pwrite(self._descriptor, view, end)
            view, end = view[count:], end + count
        with self._lock:
            self._written[offset] = end
            if self._hashing:
                return
            self._hashing = True
        if offset == self._hashed:
            self._advance(content, end)
        self._catch_up()

    def _catch_up(self) -> None:
        """Hash from the page cache what other streams wrote next in order, until there is no more."""
        while True:
            with self._lock:
                end = self._written.get(self._hashed)
                if end is None:
                    self._hashing = False
                    return
            self._advance(os.pread(self._descriptor, end - self._hashed, self._hashed), end)

    def _advance(self, content: Buffer, end: int) -> None:
        self._hash.update(content)
        with self._lock:
            del self._written[self._hashed]
            self._hashed = end
        if end % BLOCK_BYTES == 0 and end < self.file.size:
            self._checkpoints.append(Checkpoint(end, self._hash.sha256))

    def problem(self) -> str | None:
        """How the content differs from what is expected; to be asked when all is hashed."""
        return self._hash.problem()

    def restart(self) -> None:
        """Throw away all bytes, to fetch them again."""
        os.ftruncate(self._descriptor, 0)
        self._checkpoints.restart([])
        self._hash, self._hashed, self._written = ContentHash(self.file), 0, {}

    def flush(self) -> None:
        """Have written to the disk what came so far, so that finishing takes a moment and not a minute."""
        with self._lock:
            if self._descriptor < 0:
                return
            twin = os.dup(self._descriptor)
        try:
            os.fdatasync(twin)
        finally:
            os.close(twin)

    def finish(self) -> None:
        """Give the file its name, for good: bytes first, then the name, both on the disk."""
        os.fsync(self._descriptor)
        self.close()
        self._part.replace(self.path)
        sync_directory(self.path.parent)
        self._checkpoints.remove()

    def close(self) -> None:
        """Let go of the file; what was written stays for the next run."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    @property
    def sha256(self) -> str:
        """SHA-256 of the finished file, in hexadecimal."""
        return self._hash.sha256
