"""The volume of the weights: free space, and clear messages for its errors.

Kubernetes does not enforce the size of `local` and `host-path` volumes, so this check of free space is the only guard.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from stager.errors import StagerError

# For the manifest, checkpoints, directories and file system metadata.
RESERVED_BYTES = 64 * 1024 * 1024
DIRECTORY_MODE = 0o755
FILE_MODE = 0o644

NO_INODES = "the volume has room for bytes, but none for another file (inodes: df -i); remove files and run again"

_MEANING = {
    errno.ENOSPC: "the volume is full; make room and run again, it goes on where it stopped",
    errno.EDQUOT: "the quota is used up; raise it and run again, it goes on where it stopped",
    errno.EROFS: "the volume is mounted read-only; the stager needs it writable",
    errno.EACCES: "no permission to write; give it to the stager's user, or run as its owner (heavylift:security.user)",
    errno.EPERM: "the volume does not permit this operation",
    errno.EEXIST: "is no directory; move it away",
    errno.ENOTDIR: "lies below something that is no directory",
    errno.ELOOP: "is a symbolic link; weights are staged as real files, remove it",
    errno.EIO: "input/output error; the disk or the network file system is failing",
    errno.ESTALE: "the network file system lost this file; remount it",
}


def volume_error(error: OSError, path: Path) -> StagerError:
    """The error of a file operation as one line that says what to do."""
    if error.errno == errno.ENOSPC and _has_no_inodes(path):
        return StagerError(f"{path}: {NO_INODES}")
    meaning = _MEANING.get(error.errno or 0, os.strerror(error.errno) if error.errno else str(error))
    return StagerError(f"{path}: {meaning}")


def make_directory(path: Path) -> None:
    """Make `path` and missing parents, synced to the disk and readable for a server of another user."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        for folder in missing:
            _sync_folder(folder.parent)
    except OSError as error:
        raise volume_error(error, path) from None


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _has_no_inodes(path: Path) -> bool:
    """Whether the volume has free bytes, but no free inode; some volumes count no inodes."""
    place = next((folder for folder in path.parents if folder.exists()), None)
    if place is None:
        return False
    status = os.statvfs(place)
    return bool(status.f_files) and not status.f_favail


def require_space(directory: Path, missing_bytes: int) -> None:
    """Raise `StagerError` if `missing_bytes` do not fit on the volume of `directory`."""
    if not missing_bytes:
        return
    free = free_bytes(directory)
    needed = missing_bytes + RESERVED_BYTES
    if needed > free:
        raise StagerError(
            f"{directory}: needs {needed:,} more bytes, the volume has {free:,} free: {needed - free:,} too few; "
            "prune old revisions (python -m stager prune) or use a larger volume"
        )


def free_bytes(directory: Path | int) -> int:
    """The bytes that an unprivileged program may still write on the volume of `directory` (path or descriptor)."""
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize


def replace_file(path: Path, content: str) -> None:
    """Write `content` to `path` atomically."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(content, encoding="utf-8")
    fresh.replace(path)
