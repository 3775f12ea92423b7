"""Writes the completion manifest: the last act of staging, and the mark without which nothing is served.

`stager.verify` reads it. What it lists is made durable first, and then checked as a server's pod checks it; so a run
never ends well where the server would refuse.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from stager.durable import make_durable
from stager.errors import StagerError
from stager.listing import Listing
from stager.tree import Tree
from stager.verify import MANIFEST, MANIFEST_VERSION, Expected, Manifest, ignore, tree_problems

PROBLEMS_NAMED = 5


def write_manifest(tree: Tree, listing: Listing, files: Sequence[Expected], sources: Sequence[str]) -> None:
    """Record the finished `files` of `listing`, and which `sources` their bytes came from.

    Raises `StagerError` when the tree is not as it must be, and `OSError` when it cannot be made durable.
    """
    make_durable(tree, [file.path for file in files])
    found, files = checked(tree, files)
    if found:
        more = f" and {len(found) - PROBLEMS_NAMED} more" if len(found) > PROBLEMS_NAMED else ""
        raise StagerError(f"{tree.directory}: not to be served: {'; '.join(found[:PROBLEMS_NAMED])}{more}")
    _write(tree, listing, files, ", ".join(sources) or "already on the volume")


def renew_manifest(tree: Tree, manifest: Manifest, files: Sequence[Expected]) -> None:
    """Record `files` as they are now: their hashes are right, their times or inodes are others."""
    make_durable(tree, [file.path for file in files])
    listing = Listing(manifest.repository, manifest.revision, manifest.commit, ())
    source = json.loads(tree.read(MANIFEST)).get("source", "already on the volume")
    _write(tree, listing, files, source)


def withdraw_manifest(tree: Tree) -> None:
    """Remove the manifest, so that no server starts on what is about to change."""
    tree.unlink(MANIFEST)


def checked(
    tree: Tree, files: Sequence[Expected], watch: Callable[[int], None] = ignore
) -> tuple[list[str], tuple[Expected, ...]]:
    """What the check before serving finds wrong with `files`, and the files with the times that they have now.

    `watch` is called with the number of bytes that were hashed since its last call.
    """
    before = tuple(_as_it_is(tree, file) for file in files)
    found = tree_problems(tree.root, files, watch=watch)
    now = tuple(_as_it_is(tree, file) for file in files)
    changed = [f"{one.path}: changed while it was checked" for one, two in zip(before, now, strict=True) if one != two]
    return found + changed, now


def _as_it_is(tree: Tree, file: Expected) -> Expected:
    status = tree.status(file.path)
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
