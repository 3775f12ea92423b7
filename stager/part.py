"""One incomplete file, written by several streams at once, and hashed in order as it grows.

SHA-256 needs the bytes in order. A stream whose bytes are next hashes them from memory as it writes them. Bytes that
other streams wrote ahead are read back from the page cache in their turn. Each stream stays within two blocks ahead of
the hash, which limits the loss after a kill. The file gets its name once its hash is right and its bytes are on the
disk. Bytes of earlier runs are hashed from the disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from stager.checkpoints import Checkpoint, Checkpoints
from stager.content_hash import Buffer, ContentHash
from stager.errors import StagerError, Stopped
from stager.listing import RemoteFile
from stager.manifest import Expected
from stager.nofollow import read_from_disk
from stager.parts import Parts
from stager.stopping import STOPPED
from stager.tree import Tree

BLOCK_BYTES = 32 * 1024 * 1024
READ_BYTES = 1024 * 1024
SMALL_BYTES = 1024 * 1024


class Part:
    """The incomplete `file` in `tree`; one thread opens and finishes it, any number write to it."""

    def __init__(self, tree: Tree, parts: Parts, file: RemoteFile) -> None:
        self.file = file
        self._tree = tree
        self._parts = parts
        self._checkpoints = Checkpoints(tree, parts.notes(file), file, may_exist=parts.left(file))
        self._descriptor = -1
        self._hash = ContentHash(file)
        self._hashed = 0
        self._hashing = False
        self._written: dict[int, int] = {}
        self._lock = threading.Lock()
        self._writing = 0
        self._stopped = False
        self._status: os.stat_result | None = None

    @property
    def path(self) -> Path:
        """The final path of the file."""
        return self._tree.directory / self.file.path

    @property
    def hashed(self) -> int:
        """The length of the written and hashed prefix, in bytes."""
        return self._hashed

    @property
    def bytes_on_disk(self) -> int:
        """The space of this file on the volume, in bytes; an incomplete file may have holes, a hard link is copied."""
        if (status := self._tree.status(self.file.path)) and status.st_nlink == 1:
            return min(status.st_blocks * 512, self.file.size)
        return self._parts.bytes_on_disk(self.file)

    def is_complete(self, watch: Callable[[int], None]) -> bool:
        """Whether the file has its own name and the right content; removes a wrong one, replaces a hard link by a copy.

        `watch` gets the number of bytes hashed since its last call, and may raise to end the check.
        """
        try:
            descriptor = self._open_finished(watch)
        except FileNotFoundError:
            return False
        with os.fdopen(descriptor, "rb", buffering=0):
            status = os.fstat(descriptor)
            content_hash = ContentHash(self.file)
            if status.st_size == self.file.size:
                read_from_disk(descriptor)
                _hash_range(descriptor, content_hash, 0, self.file.size, watch)
                if content_hash.problem() is None:
                    self._hash, self._hashed, self._status = content_hash, self.file.size, status
                    return True
        self._tree.unlink(self.file.path)
        return False

    def _open_finished(self, watch: Callable[[int], None]) -> int:
        """Open the file with its own name; if it has other names too, through which it could change, open a copy."""
        descriptor = self._tree.open(self.file.path)
        if os.fstat(descriptor).st_nlink == 1:
            return descriptor
        os.close(descriptor)
        self._parts.replace_by_copy(self.file, watch)
        return self._tree.open(self.file.path)

    def open(self, watch: Callable[[int], None]) -> None:
        """Open for writing; hashes the bytes of an earlier run and keeps the right prefix."""
        with self._may_write():
            self._tree.make_folder(self.file.path.rpartition("/")[0])
            if self._parts.left(self.file):
                self._parts.take_over(self.file, watch)
            self._descriptor = self._tree.open_own(self._parts.path(self.file), os.O_RDWR)
        has_bytes = os.fstat(self._descriptor).st_size > 0
        if has_bytes:
            self._sync(read_from_disk, self._descriptor)
        kept = self._verified_prefix(watch)
        with self._may_write():
            if has_bytes:
                self._tree.truncate(self._descriptor, self._hashed)
            self._checkpoints.restart(kept)

    def _verified_prefix(self, watch: Callable[[int], None]) -> list[Checkpoint]:
        kept: list[Checkpoint] = []
        for mark in self._checkpoints.read():
            trial = self._hash.copy()
            whole = _hash_range(self._descriptor, trial, self._hashed, mark.offset, watch)
            if not whole or trial.sha256 != mark.sha256:
                break
            self._hash, self._hashed = trial, mark.offset
            kept.append(mark)
        return kept

    def _sync(self, sync: Callable[[int], None], descriptor: int) -> None:
        """Sync to the disk; the kernel reports a failure only once, so these bytes are then not trusted."""
        try:
            sync(descriptor)
        except OSError:
            with contextlib.suppress(OSError, StagerError):
                self._checkpoints.remove()
            raise
        self._tree.require()

    def write(self, offset: int, content: Buffer) -> None:
        """Write `content` at `offset`, and hash the bytes next in order, unless another stream does.

        Raises `Stopped` after `stop_writing`, and `StagerError` if the lease is lost.
        """
        with self._may_write():
            end = self._write_all(memoryview(content), offset)
            self._hash_in_order(offset, end, content)

    def _write_all(self, view: memoryview, end: int) -> int:
        while view:
            self._tree.require()
            count = os.pwrite(self._descriptor, view, end)
            view, end = view[count:], end + count
        return end

    def _hash_in_order(self, offset: int, end: int, content: Buffer) -> None:
        with self._lock:
            self._written[offset] = end
            if self._hashing:
                return
            self._hashing = True
        if offset == self._hashed:
            self._advance(content, end)
        self._catch_up()

    def stop_writing(self) -> bool:
        """Allow no further write. False: one is still running and cannot be interrupted."""
        with self._lock:
            self._stopped = True
            return not self._writing

    @contextlib.contextmanager
    def _may_write(self) -> Iterator[None]:
        with self._lock:
            if self._stopped:
                raise Stopped(STOPPED)
            self._writing += 1
        try:
            yield
        finally:
            with self._lock:
                self._writing -= 1

    def _catch_up(self) -> None:
        """Hash the bytes next in order that other streams wrote, from the page cache."""
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
        """How the content differs from the expected one; valid once all is hashed."""
        return self._hash.problem()

    def restart(self) -> None:
        """Drop all bytes, to fetch them again."""
        with self._may_write():
            self._tree.truncate(self._descriptor, 0)
            self._checkpoints.restart([])
        self._hash, self._hashed, self._written = ContentHash(self.file), 0, {}

    def flush(self) -> None:
        """Sync the bytes so far, so that `finish` takes a moment and not a minute."""
        with self._lock:
            if self._descriptor < 0:
                return
            twin = os.dup(self._descriptor)
        try:
            self._sync(os.fdatasync, twin)
        finally:
            os.close(twin)

    def finish(self) -> None:
        """Sync the bytes and give the file its name; the name is synced before the manifest.

        A small file is synced only then, together with its name: many `fsync` calls take longer than the bytes.
        """
        if self.file.size > SMALL_BYTES:
            self._sync(os.fsync, self._descriptor)
        self._tree.rename(self._parts.path(self.file), self.file.path)
        self._status = os.fstat(self._descriptor)
        self.close()
        self._checkpoints.remove()

    def close(self) -> None:
        """Close the file; its bytes stay for the next run."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    @property
    def finished(self) -> Expected:
        """The finished file as it was when its hash was right."""
        if self._status is None:
            raise ValueError(f"{self.file.path} is not finished")
        status = self._status
        times = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return Expected(self.file.path, self.file.size, self._hash.sha256, *times)


def _hash_range(descriptor: int, content_hash: ContentHash, start: int, end: int, watch: Callable[[int], None]) -> bool:
    """Hash the bytes from `start` to `end` of a file. False: the file is shorter."""
    while start < end:
        chunk = os.pread(descriptor, min(READ_BYTES, end - start), start)
        if not chunk:
            return False
        content_hash.update(chunk)
        watch(len(chunk))
        start += len(chunk)
    return True
