"""Opens files and folders below an open folder, and follows no symbolic link.

Standard library only: the server's init container uses it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class LinkInTheWay(OSError):
    """A component of a path is a symbolic link; `link` is the path up to it."""

    def __init__(self, link: str) -> None:
        super().__init__(errno.ELOOP, os.strerror(errno.ELOOP), link)
        self.link = link


def open_below(root: int, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the regular file at `path` below the folder open as `root`, by way of no link.

    Raises `LinkInTheWay`, and `OSError` for what is no regular file; does not wait for the other end of a pipe.
    """
    folders, _, name = path.rpartition("/")
    with folder_below(root, folders) as folder:
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise LinkInTheWay(path) from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EISDIR, "not a regular file", path)
        return descriptor


@contextlib.contextmanager
def folder_below(root: int, path: str) -> Iterator[int]:
    """The folder at `path` below the one open as `root` ("": `root` itself), by way of no link; closed at the end."""
    folder, way = root, ""
    try:
        for name in path.split("/") if path else ():
            way = f"{way}/{name}" if way else name
            above, folder = folder, _open_folder(folder, name, way)
            if above != root:
                os.close(above)
        yield folder
    finally:
        if folder != root:
            os.close(folder)


@contextlib.contextmanager
def opened(directory: Path) -> Iterator[int]:
    root = _open_folder(None, str(directory), str(directory))
    try:
        yield root
    finally:
        os.close(root)


def _open_folder(folder: int | None, name: str, way: str) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise LinkInTheWay(way) from None
        raise


def cause(error: OSError) -> str:
    if isinstance(error, LinkInTheWay):
        return f"{error.link} is a symbolic link"
    return error.strerror or str(error)


def read_from_disk(descriptor: int) -> None:
    """Make what is read next from `descriptor` come from the disk, and not from what memory holds of it.

    After a write that failed, memory may still hold bytes that the disk never got, marked as if it had
    (https://wiki.postgresql.org/wiki/Fsync_Errors). Raises `OSError` when something cannot be written.
    """
    with contextlib.suppress(PermissionError):
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EINVAL):
                raise
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
