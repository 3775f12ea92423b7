"""Writes every file that the manifest lists to the disk, before the manifest is written.

The kernel reports a failed write once, to the first `fsync`, and then forgets it
(https://wiki.postgresql.org/wiki/Fsync_Errors). So a failed `fsync` ends the run, and the next run does not trust the
bytes that it covered. Files hashed from the volume are read from the disk (`stager.nofollow.read_from_disk`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from stager.manifest import OWN_DIRECTORY
from stager.tree import Tree

# A disk completes many of them together.
AT_ONCE = 16


def make_durable(tree: Tree, paths: Iterable[str]) -> None:
    """Sync the files at `paths`, every folder above them, and the directory's own name to the disk.

    Raises `OSError` if any sync fails. Every manifest is written after this.
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
