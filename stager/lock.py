"""Makes a weights lock: from the hub's file list at one commit, or from a staged directory.

The hub has no SHA-256 for small files outside of large-file storage. The stager reads them, checks their git blob id
and computes their SHA-256, so a lock has one for every file.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stager.content_hash import ContentHash
from stager.environment import require_usable_environment
from stager.errors import StagerError
from stager.listing import Listing, RemoteFile, select
from stager.lockfile import listing_of, render_lock
from stager.manifest import Unverified, read_manifest
from stager.progress import Progress
from stager.ranges import RangeReader
from stager.retry import RetryPolicy
from stager.source import sources
from stager.source_name import HUB
from stager.source_pool import SourcePool, Unobtainable
from stager.stopping import pause_until
from stager.volume import make_directory, replace_file, volume_error

STREAMS = 8
STALL_SECONDS = 30.0
LOCKS = Path("weights")
"""The default folder of locks, beside the stack files."""
AT_A_TERMINAL = RetryPolicy(waits=(0.3, 1, 3))
"""Short: a person waits, and can run it again."""


def lock_from_hub(
    repository: str, revision: str, include: Sequence[str], progress: Progress, stop_event: threading.Event
) -> Listing:
    """The files of `repository` at `revision` that match `include`, each with its SHA-256."""
    require_usable_environment()
    from stager.hub import listing_from_hub  # slow to import, and fails at a wrong endpoint

    pause = pause_until(stop_event)
    listing = select(
        listing_from_hub(repository, revision, retries=AT_A_TERMINAL, say=progress.say, stop_event=stop_event), include
    )
    reader = RangeReader(streams=STREAMS, stall_seconds=STALL_SECONDS)
    source_pool = SourcePool(sources([HUB], listing, reader), say=progress.say, pause=pause, retries=AT_A_TERMINAL)
    with ThreadPoolExecutor(max_workers=STREAMS) as pool:
        files = tuple(pool.map(lambda file: file if file.sha256 else _with_sha256(file, source_pool), listing.files))
    return dataclasses.replace(listing, files=files)


def lock_from_manifest(directory: Path) -> Listing:
    """The files staged and verified in `directory`."""
    try:
        return listing_of(read_manifest(directory))
    except Unverified as verdict:
        raise StagerError(str(verdict)) from None


def require_place(path: Path) -> None:
    """Refuse a path where no lock can be written, before any request; creates only `LOCKS`."""
    if path.is_dir():
        raise StagerError(f"--output {path}: is a directory, expected a file")
    if path.parent != LOCKS and not path.parent.is_dir():
        raise StagerError(f"--output {path}: there is no directory {path.parent}; make it first")


def write_lock(path: Path, listing: Listing) -> None:
    """Write the lock of `listing` to `path`."""
    make_directory(path.parent)
    try:
        replace_file(path, render_lock(listing))
    except OSError as error:
        raise volume_error(error, path) from None


def _with_sha256(file: RemoteFile, source_pool: SourcePool) -> RemoteFile:
    content_hash = ContentHash(file)
    try:
        for chunk in source_pool.read(file, 0, file.size):
            content_hash.update(chunk)
    except Unobtainable as reason:
        raise StagerError(str(reason)) from None
    if problem := content_hash.problem():
        raise StagerError(f"{file.path}: {problem}")
    return dataclasses.replace(file, sha256=content_hash.sha256)
