"""The directory in which a server keeps its compiled kernels, beside the weights: `<mount>/.cache/<user>/<key>/`.

An engine runs the code in it without a check, so only the server's user may write there, and it never lies in a
verified directory. `<user>` is a stack as `stager stage --user` names it, `<key>` names image and user of the server.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

from stager.digest import DIGEST
from stager.errors import StagerError
from stager.nofollow import folder_below
from stager.tree import Tree

CACHES = ".cache"
CACHE_MODE = 0o700


def make_cache(mount: Path, user: str, key: str, owner: int | None) -> Path:
    """Make the directory, for the numeric user `owner` alone. None: for the user of this process.

    Follows no link. Raises `StagerError` if another user owns it and it is not empty.
    """
    tree, path = Tree(mount), f"{CACHES}/{user}/{key}"
    tree.make_folder(path)
    with folder_below(tree.root, path) as folder:
        _give(folder, os.geteuid() if owner is None else owner, mount / path)
    return mount / path


def _give(folder: int, owner: int, path: Path) -> None:
    status = os.fstat(folder)
    if status.st_uid not in (owner, os.geteuid()) or (status.st_uid != owner and os.listdir(folder)):
        raise StagerError(
            f"{path}: belongs to user {status.st_uid}, expected {owner}; the server would run the code in it: find out "
            "who made it, and remove it"
        )
    # The mode first: without CAP_FOWNER, root changes only that of its own directories.
    if status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) != CACHE_MODE:
        os.fchmod(folder, CACHE_MODE)
    if status.st_uid != owner:
        os.fchown(folder, owner, -1)


def prune_caches(mount: Path, user: str, keep: str, *, dry_run: bool, say: Callable[[str], None]) -> list[Path]:
    """Remove all caches of a user but `keep`; returns the removed ones (dry run: to be removed)."""
    tree, above = Tree(mount), f"{CACHES}/{user}"
    others = [name for name in tree.names(above) if DIGEST.fullmatch(name) and name != keep]
    for name in others:
        say(f"{'would remove' if dry_run else 'removing'} cache {above}/{name}")
        if not dry_run:
            with folder_below(tree.root, above) as folder:
                shutil.rmtree(name, dir_fd=folder)
    return [mount / above / name for name in others]
