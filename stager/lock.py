"""Makes a weights lock: from the hub's file list at one commit, or from what was staged already.

The hub has no SHA-256 for small files outside of large-file storage. They are read, checked by their git blob id,
and their SHA-256 is computed here, so that a lock has one for every file.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stager.content_hash import ContentHash
from stager.ending import pause_until
from stager.errors import StagerError
from stager.listing import Listing, RemoteFile, select
from stager.lockfile import listing_of, render_lock
from stager.patience import Patience
from stager.progress import Progress
from stager.ranges import RangeReader
from stager.source import HUB, sources
from stager.supply import Supply, Unobtainable
from stager.verify import Unverified, read_manifest
from stager.volume import make_directory, replace_file, volume_error

STREAMS = 8
STALL_SECONDS = 30.0


def lock_from_hub(
    repository: str, revision: str, include: Sequence[str], progress: Progress, ending: threading.Event
) -> Listing:
    """The files of `repository` at `revision` that match `include`, every one with its SHA-256."""
    from stager.hub import listing_from_hub  # only here, since it takes long to import

    pause = pause_until(ending)
    listing = select(
        listing_from_hub(repository, revision, patience=Patience(), say=progress.say, pause=pause), include
    )
    reader = RangeReader(streams=STREAMS, stall_seconds=STALL_SECONDS)
    supply = Supply(sources([HUB], listing, reader), say=progress.say, pause=pause)
    with ThreadPoolExecutor(max_workers=STREAMS) as pool:
        files = tuple(pool.map(lambda file: file if file.sha256 else _with_sha256(file, supply), listing.files))
    return dataclasses.replace(listing, files=files)


def lock_from_manifest(directory: Path) -> Listing:
    """What was staged and verified in `directory`."""
    try:
        return listing_of(read_manifest(directory))
    except Unverified as verdict:
        raise StagerError(str(verdict)) from None


def write_lock(path: Path, listing: Listing) -> None:
    """Write the lock of `listing` to `path`."""
    make_directory(path.parent)
    try:
        replace_file(path, render_lock(listing))
    except OSError as error:
        raise volume_error(error, path) from None


def _with_sha256(file: RemoteFile, supply: Supply) -> RemoteFile:
    content_hash = ContentHash(file)
    try:
        for chunk in supply.read(file, 0, file.size):
            content_hash.update(chunk)
    except Unobtainable as reason:
        raise StagerError(str(reason)) from None
    if problem := content_hash.problem():
        raise StagerError(f"{file.path}: {problem}")
    return dataclasses.replace(file, sha256=content_hash.sha256)
