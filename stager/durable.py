"""Makes sure that what the manifest lists is on the disk before the manifest says so, however the bytes came.

A write that failed is told once, to whoever asks first (`fsync`), and the page cache then forgets that it ever
happened (https://wiki.postgresql.org/wiki/Fsync_Errors). So a failed `fsync` ends the run, what it covered is not
built upon, and a file that is hashed from the volume is read from the disk (`stager.verify.read_from_disk`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from stager.tree import Tree
from stager.verify import OWN_DIRECTORY

# A disk brings many of them to an end together.
AT_ONCE = 16


def make_durable(tree: Tree, paths: Iterable[str]) -> None:
    """Bring the files at `paths` and every folder that leads to them to the disk, and the directory's own name.

    Raises `OSError` when any of it is not there for good. This is the only way to a manifest.
    """
    paths = list(paths)
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        for _ in pool.map(lambda path: _sync_file(tree, path), paths):
            pass
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents} - {"."}
    for folder in (*sorted(folders), OWN_DIRECTORY, ""):
        tree.sync_folder(folder)
    _sync_parent(tree)
    tree.require()


def _sync_file(tree: Tree, path: str) -> None:
    descriptor = tree.open(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_parent(tree: Tree) -> None:
    parent = os.open(tree.directory.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)
