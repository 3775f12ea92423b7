"""The place of incomplete files: `.heavylift/parts/<number>/`, one folder for each holder of the lease.

A frozen holder may still have its files open after another one takes over, and can write to them. So a successor
writes to files of its own. It takes over the folder of a predecessor that released the lease, and copies the files of
any other; on a volume that shares blocks between copies (XFS, Btrfs) that costs nothing. Without room for a copy, the
file is fetched again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable

from stager.listing import OLD_PART_SUFFIX, RemoteFile
from stager.manifest import OWN_DIRECTORY
from stager.tree import Tree
from stager.volume import RESERVED_BYTES, free_bytes

PARTS = f"{OWN_DIRECTORY}/parts"
NOTES_SUFFIX = ".checkpoints"
COPY_SUFFIX = ".copy"
"""Of a copy that is not complete; a run that is killed leaves it."""
COPY_BYTES = 64 * 1024 * 1024
# Earlier stagers kept incomplete files beside the others.
OLD_CHECKPOINTS = f"{OWN_DIRECTORY}/checkpoints"


class Parts:
    """The folder of the holder with the lease's `number` in `tree`.

    `prepare` makes it; a worker process calls `look` instead, once the folder is there.
    """

    def __init__(self, tree: Tree, number: int) -> None:
        self._tree = tree
        self._number = number
        self._folder = f"{PARTS}/{number}"
        self._others: list[str] = []
        self._found: set[str] = set()
        """The names that earlier holders left, so that a run with many small files does not look for each."""
        self._old: set[str] = set()
        """The paths of incomplete files of earlier stagers."""

    def prepare(self, given_back: int | None) -> None:
        """Make the folder; `given_back`: the previous holder's number, if it released the lease."""
        tree = self._tree
        tree.make_folder(PARTS)
        if given_back is not None:
            with contextlib.suppress(FileNotFoundError):
                tree.rename(f"{PARTS}/{given_back}", self._folder)
        tree.make_folder(self._folder)
        self.look()
        for folder in (self._folder, *self._others):
            for name in tree.names(folder):
                if name.endswith(COPY_SUFFIX):
                    tree.unlink(f"{folder}/{name}")

    def look(self) -> None:
        """Find what earlier holders left."""
        tree = self._tree
        tree.keep_open(self._folder)
        others = sorted(int(name) for name in tree.names(PARTS) if name.isdecimal() and int(name) != self._number)
        self._others = [f"{PARTS}/{other}" for other in others]
        self._found = {name for folder in (self._folder, *self._others) for name in tree.names(folder)}
        self._old = {path for path in tree.files() if path.endswith(OLD_PART_SUFFIX)}

    def left(self, file: RemoteFile) -> bool:
        """Whether an earlier holder left bytes of `file`."""
        return _name(file) in self._found or file.path + OLD_PART_SUFFIX in self._old

    def path(self, file: RemoteFile) -> str:
        """The path of the incomplete `file`."""
        return f"{self._folder}/{_name(file)}"

    def notes(self, file: RemoteFile) -> str:
        """The path of its checkpoints."""
        return self.path(file) + NOTES_SUFFIX

    def bytes_on_disk(self, file: RemoteFile) -> int:
        """The space of the incomplete `file` on the volume, in bytes; it may have holes."""
        if not self.left(file):
            return 0
        places = (*(f"{folder}/{_name(file)}" for folder in (self._folder, *self._others)), file.path + OLD_PART_SUFFIX)
        found = [self._tree.status(place) for place in places]
        return max((min(status.st_blocks * 512, file.size) for status in found if status), default=0)

    def take_over(self, file: RemoteFile, watch: Callable[[int], None]) -> None:
        """Move or copy to `path` the bytes that another holder left of `file`, so that only this process writes there.

        `watch` is called repeatedly with 0, and may raise to end it.
        """
        for folder in reversed(self._others):
            theirs = f"{folder}/{_name(file)}"
            if self._tree.status(theirs) is None:
                continue
            if self._tree.status(self.path(file)) is None:
                self._copy(theirs + NOTES_SUFFIX, self.notes(file), watch)
                self._copy(theirs, self.path(file), watch)
            self._tree.unlink(theirs)
            self._tree.unlink(theirs + NOTES_SUFFIX)
        self._take_over_old(file)

    def _take_over_old(self, file: RemoteFile) -> None:
        old, old_notes = file.path + OLD_PART_SUFFIX, f"{OLD_CHECKPOINTS}/{_name(file)}"
        status = self._tree.status(old)
        if status is None:
            return
        if status.st_nlink == 1 and self._tree.status(self.path(file)) is None:
            with contextlib.suppress(FileNotFoundError):
                self._tree.rename(old_notes, self.notes(file))
            self._tree.rename(old, self.path(file))
        else:
            self._tree.unlink(old)

    def replace_by_copy(self, file: RemoteFile, watch: Callable[[int], None]) -> None:
        """Replace the finished `file` by a copy of its own; without room for a copy, remove it.

        `watch` is called repeatedly with 0, and may raise to end it.
        """
        self._tree.unlink(self.path(file))
        self._copy(file.path, self.path(file), watch)
        try:
            self._tree.rename(self.path(file), file.path)
        except FileNotFoundError:
            self._tree.unlink(file.path)

    def _copy(self, source: str, target: str, watch: Callable[[int], None]) -> None:
        """Copy a file as it is on the disk, unless there is no room; `target` appears once it is complete."""
        fresh = target + COPY_SUFFIX
        try:
            theirs = self._tree.open(source)
        except FileNotFoundError:
            return
        try:
            size = os.fstat(theirs).st_size
            if os.fstat(theirs).st_blocks * 512 + RESERVED_BYTES > free_bytes(self._tree.root):
                return
            mine = self._tree.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                _copy_content(theirs, mine, size, watch)
            finally:
                os.close(mine)
            self._tree.rename(fresh, target)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._tree.unlink(fresh)
        finally:
            os.close(theirs)

    def clear(self, files: Iterable[RemoteFile]) -> None:
        """Remove the incomplete files of all holders: all `files` are complete."""
        self._tree.remove_folder(PARTS)
        self._tree.remove_folder(OLD_CHECKPOINTS)
        for path in self._old & {file.path + OLD_PART_SUFFIX for file in files}:
            self._tree.unlink(path)


def _name(file: RemoteFile) -> str:
    return hashlib.sha256(file.path.encode()).hexdigest()[:32]


def _copy_content(source: int, target: int, size: int, watch: Callable[[int], None]) -> None:
    """Copy inside the kernel if it can."""
    copied = 0
    while copied < size:
        watch(0)
        try:
            count = os.copy_file_range(source, target, min(COPY_BYTES, size - copied))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL):
                raise
            count = os.write(target, os.read(source, min(COPY_BYTES, size - copied)))
        if not count:
            return
        copied += count
