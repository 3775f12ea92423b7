"""One staged directory, held open: follows no link, and changes nothing without the lease.

Opens every path from the directory itself, one component at a time, each with `O_NOFOLLOW`. So a planted link leads
nowhere, at any moment: a read, write, rename or removal through it is refused. Every change checks the lease right
before it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from stager.nofollow import FOLDER, LinkInTheWay, folder_below, open_below
from stager.volume import DIRECTORY_MODE, FILE_MODE, volume_error


def _needs_no_lease() -> None:
    """For reads, and for the lease itself."""


class Tree:
    """The directory at `directory`; `require` raises when this process may not write there.

    Paths are relative, with `/` between their components. All but `__init__` raise `OSError` with the whole path;
    `ELOOP` means a symbolic link. The descriptor closes with the last reference.
    """

    def __init__(self, directory: Path, require: Callable[[], None] = _needs_no_lease) -> None:
        self.directory = directory
        self.require = require
        self.root = -1
        self._kept = ("", -1)
        try:
            self.root = os.open(directory, FOLDER)
        except OSError as error:
            if directory.is_symlink():
                error.errno = errno.ELOOP
            if error.errno == errno.ENOENT:
                raise
            raise volume_error(error, directory) from None

    def __del__(self) -> None:
        for folder in (self.root, self._kept[1]):
            if folder >= 0:
                os.close(folder)

    def keep_open(self, path: str) -> None:
        """Keep the folder at `path` open, since many operations follow on names in it."""
        with self._naming(path), folder_below(self.root, path) as folder:
            self._kept = (path, os.dup(folder))

    def is_at(self, path: Path) -> bool:
        """Whether this directory is still at `path`."""
        try:
            return os.path.samestat(path.lstat(), os.fstat(self.root))
        except OSError:
            return False

    def open(self, path: str, flags: int = os.O_RDONLY) -> int:
        """A descriptor of the file at `path`; checks the lease if `flags` allow writes."""
        with self._naming(path), self._parent(path) as (folder, name):
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                self.require()
            try:
                return open_below(folder, name, flags, FILE_MODE)
            except LinkInTheWay:
                raise LinkInTheWay(path) from None

    def open_own(self, path: str, flags: int) -> int:
        """A descriptor for writes to the file at `path`, which is created if missing.

        Replaces a hard link by an empty file: a write would change the file under its other names too.
        """
        descriptor = self.open(path, flags | os.O_CREAT)
        if os.fstat(descriptor).st_nlink == 1:
            return descriptor
        os.close(descriptor)
        self.unlink(path)
        return self.open(path, flags | os.O_CREAT | os.O_EXCL)

    def read(self, path: str) -> bytes:
        """The content of the file at `path`."""
        with os.fdopen(self.open(path), "rb") as file:
            return file.read()

    def status(self, path: str) -> os.stat_result | None:
        """The status of `path`, links not followed. None: missing."""
        try:
            with self._naming(path), self._parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self, path: str) -> list[str]:
        """The sorted names in the folder at `path`. Empty as well: no folder."""
        try:
            with self._naming(path), folder_below(self.root, path) as folder:
                return sorted(os.listdir(folder))  # noqa: PTH208 - it is open, and has no path
        except FileNotFoundError:
            return []

    def files(self, path: str = "") -> Iterator[str]:
        """The paths of all that is no folder in the folder at `path` and below it."""
        with (
            contextlib.suppress(FileNotFoundError),
            self._naming(path),
            folder_below(self.root, path) as folder,
            os.scandir(folder) as entries,
        ):
            for entry in entries:
                inside = f"{path}/{entry.name}" if path else entry.name
                if entry.is_dir(follow_symlinks=False):
                    yield from self.files(inside)
                else:
                    yield inside

    def make_folder(self, path: str) -> None:
        """Make the folder at `path` and missing ones above it, readable for other users."""
        parts = path.split("/") if path else []
        for depth in range(1, len(parts) + 1):
            way = "/".join(parts[:depth])
            with self._naming(way), self._parent(way) as (folder, name):
                found = _status(folder, name)
                if found is None:
                    self.require()
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, DIRECTORY_MODE, dir_fd=folder)
                elif not stat.S_ISDIR(found.st_mode):
                    raise OSError(errno.ELOOP if stat.S_ISLNK(found.st_mode) else errno.EEXIST, "no folder")

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the open file `descriptor` to `size` bytes."""
        self.require()
        os.ftruncate(descriptor, size)

    def unlink(self, path: str) -> None:
        """Remove the file or link at `path`, if there is one."""
        with contextlib.suppress(FileNotFoundError), self._naming(path), self._parent(path) as (folder, name):
            self.require()
            os.unlink(name, dir_fd=folder)

    def rename(self, old: str, new: str) -> None:
        """Rename `old` to `new`; replaces a file there."""
        with (
            self._naming(new),
            self._parent(old) as (from_folder, from_name),
            self._parent(new) as (to_folder, to_name),
        ):
            self.require()
            os.rename(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)

    def link(self, path: str, new: str) -> None:
        """Make `new` a hard link to the file at `path`; fails if `new` exists."""
        with (
            self._naming(new),
            self._parent(path) as (from_folder, from_name),
            self._parent(new) as (to_folder, to_name),
        ):
            self.require()
            os.link(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)

    def is_same(self, path: str, other: str) -> bool:
        """Whether two paths are the same file."""
        one, two = self.status(path), self.status(other)
        return one is not None and two is not None and os.path.samestat(one, two)

    def remove_folder(self, path: str) -> None:
        """Remove the folder at `path` with its content, if there is one; follows no link."""
        found = self.status(path)
        if found is None:
            return
        if not stat.S_ISDIR(found.st_mode):
            self.unlink(path)
            return
        for name in self.names(path):
            self.remove_folder(f"{path}/{name}")
        with contextlib.suppress(FileNotFoundError), self._naming(path), self._parent(path) as (folder, name):
            self.require()
            os.rmdir(name, dir_fd=folder)

    def replace(self, path: str, text: str) -> None:
        """Write `text` to `path` atomically, also against a power failure."""
        fresh = path + ".new"
        self.unlink(fresh)
        with os.fdopen(self.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        self.rename(fresh, path)
        self.sync_folder(path.rpartition("/")[0])

    def sync_folder(self, path: str) -> None:
        """Sync the names in the folder at `path` to the disk; "" is the directory itself."""
        with self._naming(path), folder_below(self.root, path) as folder:
            os.fsync(folder)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        """The open folder that holds `path`, and the name there."""
        folders, _, name = path.rpartition("/")
        kept_path, kept = self._kept
        if folders == kept_path and kept >= 0:
            yield kept, name
            return
        with folder_below(self.root, folders) as folder:
            yield folder, name

    @contextlib.contextmanager
    def _naming(self, path: str) -> Iterator[None]:
        """Make errors name the whole path, or the link on the way."""
        try:
            yield
        except LinkInTheWay as error:
            error.filename = str(self.directory / error.link)
            raise
        except OSError as error:
            error.filename = str(self.directory / path)
            raise


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
