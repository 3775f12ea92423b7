"""Whose a staged directory is: one mark for each stack that staged it, in `.heavylift/users/`.

A mark is an empty file named after its user, NAMESPACE/STACK. Its modification time, by the volume's own clock, is
when that stack's staging last ended well, so that what a rollback serves again is the newest. Marks are set and taken
away by the holder of the directory's lease only. Limit: the same name in two clusters that share a volume is one user.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote, unquote

from stager.verify import OWN_DIRECTORY
from stager.volume import make_directory

USER = re.compile(r"[A-Za-z0-9][\w.-]{0,99}/[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def mark(directory: Path, user: str) -> None:
    """Note that `user` needs `directory`, as of now."""
    path = _mark(directory, user)
    make_directory(path.parent)
    path.touch()  # sets the time of one that is there


def unmark(directory: Path, user: str) -> None:
    """Note that `user` needs `directory` no longer."""
    _mark(directory, user).unlink(missing_ok=True)


def marked_ns(directory: Path, user: str) -> int | None:
    """When `user` last marked `directory`, in nanoseconds since the epoch; None: never."""
    try:
        return _mark(directory, user).stat().st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def users(directory: Path) -> list[str]:
    """All who marked `directory`, sorted."""
    try:
        names = [unquote(path.name) for path in _marks(directory).iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(name for name in names if USER.fullmatch(name))


def _marks(directory: Path) -> Path:
    return directory / OWN_DIRECTORY / "users"


def _mark(directory: Path, user: str) -> Path:
    return _marks(directory) / quote(user, safe="")
