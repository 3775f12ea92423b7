"""The users of a staged directory: one mark for each stack that staged it, in `.heavylift/users/`.

A mark is an empty file named after its user, NAMESPACE/STACK. Its modification time, by the volume's own clock, is the
stack's last successful staging; so after a rollback, the directory served again is the newest. Only the holder of the
lease sets and removes marks. Limit: one name in two clusters that share a volume is one user.
"""

from __future__ import annotations

import os
import re
from urllib.parse import quote, unquote

from stager.manifest import OWN_DIRECTORY
from stager.tree import Tree

MARKS = f"{OWN_DIRECTORY}/users"
USER = re.compile(r"[A-Za-z0-9][\w.-]{0,99}/[A-Za-z0-9][\w.-]{0,99}", re.ASCII)


def mark(tree: Tree, user: str) -> None:
    """Mark the directory as used by `user`, as of now."""
    tree.make_folder(MARKS)
    unmark(tree, user)
    os.close(tree.open(_mark(user), os.O_WRONLY | os.O_CREAT | os.O_EXCL))


def unmark(tree: Tree, user: str) -> None:
    """Remove the mark of `user`."""
    tree.unlink(_mark(user))


def marked_ns(tree: Tree, user: str) -> int | None:
    """When `user` last marked the directory, in nanoseconds since the epoch; None: never."""
    status = tree.status(_mark(user))
    return status.st_mtime_ns if status else None


def users(tree: Tree) -> list[str]:
    """All users of the directory, sorted."""
    names = map(unquote, tree.names(MARKS))
    return sorted(name for name in names if USER.fullmatch(name))


def _mark(user: str) -> str:
    return f"{MARKS}/{quote(user, safe='')}"
