"""Writes the completion manifest: the last step of staging; without it, nothing is served.

`stager.verify` reads it. Before it is written, its files are made durable and checked as a server's pod checks them;
so a run succeeds only if the server accepts the files.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from stager.durable import make_durable
from stager.errors import StagerError
from stager.listing import Listing
from stager.manifest import MANIFEST, MANIFEST_VERSION, Expected, Manifest
from stager.tree import Tree
from stager.tree_check import ignore, tree_problems

PROBLEMS_NAMED = 5


def write_manifest(tree: Tree, listing: Listing, files: Sequence[Expected], sources: Sequence[str]) -> None:
    """Record the finished `files` of `listing`, and the `sources` of their bytes.

    Raises `StagerError` if the check of the tree fails, and `OSError` if it cannot be made durable.
    """
    make_durable(tree, [file.path for file in files])
    found, files = checked(tree, files)
    if found:
        more = f" and {len(found) - PROBLEMS_NAMED} more" if len(found) > PROBLEMS_NAMED else ""
        raise StagerError(f"{tree.directory}: not to be served: {'; '.join(found[:PROBLEMS_NAMED])}{more}")
    _write(tree, listing, files, ", ".join(sources) or "already on the volume")


def renew_manifest(tree: Tree, manifest: Manifest, files: Sequence[Expected]) -> None:
    """Record the new times and inodes of `files`, whose hashes are right."""
    make_durable(tree, [file.path for file in files])
    listing = Listing(manifest.repository, manifest.revision, manifest.commit, ())
    source = json.loads(tree.read(MANIFEST)).get("source", "already on the volume")
    _write(tree, listing, files, source)


def withdraw_manifest(tree: Tree) -> None:
    """Remove the manifest, so that no server starts while files change."""
    tree.unlink(MANIFEST)


def checked(
    tree: Tree, files: Sequence[Expected], watch: Callable[[int], None] = ignore
) -> tuple[list[str], tuple[Expected, ...]]:
    """The problems that the check before serving finds in `files`, with hard links, and the files with their times.

    `watch` gets the number of bytes hashed since its last call.
    """
    before = tuple(_as_it_is(file, tree.status(file.path)) for file in files)
    found = tree_problems(tree.root, files, watch=watch)
    statuses = [tree.status(file.path) for file in files]
    now = tuple(_as_it_is(file, status) for file, status in zip(files, statuses, strict=True))
    changed = [f"{one.path}: changed while it was checked" for one, two in zip(before, now, strict=True) if one != two]
    linked = [
        f"{file.path}: has {status.st_nlink} names (hard links), expected 1: it could be changed through the others"
        for file, status in zip(files, statuses, strict=True)
        if status and status.st_nlink > 1
    ]
    return found + changed + linked, now


def _as_it_is(file: Expected, status: os.stat_result | None) -> Expected:
    if status is None:
        return file
    return replace(file, mtime_ns=status.st_mtime_ns, ctime_ns=status.st_ctime_ns, inode=status.st_ino)


def _write(tree: Tree, listing: Listing, files: Sequence[Expected], source: str) -> None:
    manifest = {
        "version": MANIFEST_VERSION,
        "repository": listing.repository,
        "revision": listing.revision,
        "commit": listing.commit,
        "files": [vars(file) for file in sorted(files, key=lambda file: file.path)],
        "total_bytes": sum(file.size for file in files),
        "source": source,
        "completed_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds"),
    }
    tree.replace(MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")
