"""Stages one repository at one revision into one directory: list, check room, fetch, verify, mark as complete.

If the manifest shows a complete directory, ends at once, without the network. Refuses a revision that is not a full
commit (unless allowed), foreign files in the directory, and all that its modules refuse.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from stager.completion import checked, renew_manifest, withdraw_manifest, write_manifest
from stager.environment import require_usable_environment
from stager.errors import StagerError, WrongUsage
from stager.fetch import new_transfer
from stager.lease import Lease
from stager.listing import FULL_COMMIT, OLD_PART_SUFFIX, Listing, RemoteFile, select
from stager.lockfile import read_lock
from stager.manifest import (
    MANIFEST,
    MANIFEST_VERSION,
    OWN_DIRECTORY,
    Expected,
    Manifest,
    Unverified,
    identity_problems,
    read_manifest,
)
from stager.part import Part
from stager.parts import Parts
from stager.processes import process_count, usable_cores
from stager.progress import Progress
from stager.retry import JOB_RETRIES
from stager.source_name import HUB, require_names
from stager.stage_request import StageRequest
from stager.stopping import unless_stopped
from stager.streams import StreamCount, memory_bytes
from stager.transfer import Transfer
from stager.tree import Tree
from stager.tree_check import foreign_entries
from stager.users import mark
from stager.volume import make_directory, require_space, volume_error

COMMIT_NOTE = f"{OWN_DIRECTORY}/commit"

if TYPE_CHECKING:
    from stager.sharing import Sharing


def stage(request: StageRequest, progress: Progress, stop_event: threading.Event) -> None:
    """Complete the directory; raises `StagerError`. A signal to stop sets `stop_event`."""
    require_names(request.sources)
    if request.native_xet and request.sources[0] != HUB:
        raise WrongUsage(f"--native-xet with --source {request.sources[0]} first: expected {HUB} to be asked first")
    if request.fleet and (request.processes or 1) > 1:
        raise WrongUsage(f"--processes {request.processes} with --peer: expected 1, which serves the other nodes too")
    locked = _locked_listing(request)
    make_directory(request.directory)
    try:
        if _may_only_be_read(request) and not request.fleet and _is_staged(request, locked, progress, stop_event):
            return
        with _sharing(request, locked, progress, stop_event) as sharing:
            with Lease(
                request.directory, say=progress.say, stop_event=stop_event, seconds=request.lease_seconds
            ) as lease:
                _stage_alone(request, locked, lease, sharing, progress, stop_event)
                if request.user:
                    mark(lease.tree, request.user)
            if sharing:
                sharing.linger()
    except OSError as error:
        raise volume_error(error, Path(error.filename or request.directory)) from None


def _may_only_be_read(request: StageRequest) -> bool:
    own = request.directory / OWN_DIRECTORY
    return own.is_dir() and not os.access(own, os.W_OK)


def _is_staged(request: StageRequest, locked: Listing | None, progress: Progress, stop_event: threading.Event) -> bool:
    """Whether all is staged; says so. Without the lease: prune may remove the directory meanwhile."""
    tree = Tree(request.directory)
    try:
        manifest = _manifest_of(request, locked)
        found, _ = _checked(tree, manifest.files, progress, stop_event)
    except Unverified:
        return False
    if found:
        return False
    _say_staged(manifest, progress)
    if request.user:
        progress.say(f"not marked for {request.user}, since the volume may only be read here")
    return True


def _sharing(
    request: StageRequest, locked: Listing | None, progress: Progress, stop_event: threading.Event
) -> AbstractContextManager[Sharing | None]:
    """This stager's part in its fleet. None: no fleet."""
    if request.fleet is None or locked is None:
        return nullcontext()
    from stager.sharing import Sharing  # only here, for the time that it takes to import

    def open_file(file: RemoteFile) -> int:
        return Tree(request.directory).open(file.path)

    return Sharing(
        request.fleet, locked, open_file, stall_seconds=request.stall_seconds, progress=progress, stop_event=stop_event
    )


def _stage_alone(
    request: StageRequest,
    locked: Listing | None,
    lease: Lease,
    sharing: Sharing | None,
    progress: Progress,
    stop_event: threading.Event,
) -> None:
    """Stage as the holder of the lease, unless another stager did it during the wait."""
    tree = lease.tree
    try:
        manifest = _manifest_of(request, locked)
        found, files = _checked(tree, manifest.files, progress, stop_event)
        if not found:
            if manifest.version != MANIFEST_VERSION or files != manifest.files:
                unless_stopped(stop_event, lambda: renew_manifest(tree, manifest, files))
            _say_staged(manifest, progress)
            if sharing:
                sharing.offer_all()
            return
        reason = "; ".join(found)
    except Unverified as verdict:
        reason = str(verdict)
    if tree.status(MANIFEST):
        progress.say(f"staging again: {reason}")
        withdraw_manifest(tree)
    if request.require_credentials:
        from stager.s3 import require_credentials  # only here, for the time that it takes to import

        unless_stopped(stop_event, require_credentials)
    listing = locked or _hub_listing(request, tree, progress, stop_event)
    _refuse_foreign_entries(tree, listing)
    _transfer(request, listing, lease, sharing, progress, stop_event)


def _manifest_of(request: StageRequest, locked: Listing | None) -> Manifest:
    """The manifest; raises `Unverified` if there is none, or it is of other weights."""
    manifest = read_manifest(request.directory)
    found = identity_problems(request.directory, manifest, request.repository, request.revision)
    if locked and not found and _contents(manifest) != {file.path: file.sha256 for file in locked.files}:
        found.append("the manifest lists other files than the lock")
    if found:
        raise Unverified("; ".join(found))
    return manifest


def _checked(
    tree: Tree, files: Sequence[Expected], progress: Progress, stop_event: threading.Event
) -> tuple[list[str], tuple[Expected, ...]]:
    """The problems of the tree, and its files as they are now; reports progress if it takes long."""
    hashed = 0

    def watch(count: int) -> None:
        nonlocal hashed
        hashed += count
        progress.add_reused(count)

    progress.total = sum(file.size for file in files)
    try:
        return unless_stopped(stop_event, lambda: checked(tree, files, watch))
    finally:
        progress.add_reused(-hashed)
        progress.total = 0


def _locked_listing(request: StageRequest) -> Listing | None:
    """The files of the lock. None: no lock. Refuses a lock of other weights, and an unpinned revision."""
    if request.lock is None:
        if not request.allow_unpinned and not FULL_COMMIT.fullmatch(request.revision):
            raise StagerError(
                f"revision {request.revision!r} is not a full commit (40 hexadecimal digits): give one, or a lock "
                "file, or allow unpinned weights"
            )
        return None
    lock = read_lock(request.lock)
    if lock.repository != request.repository:
        raise StagerError(f"lock {request.lock}: is of {lock.repository}, expected {request.repository}")
    if request.revision not in (lock.revision, lock.commit):
        raise StagerError(
            f"lock {request.lock}: is of revision {lock.revision} (commit {lock.commit}), expected {request.revision}"
        )
    return select(Listing(lock.repository, request.revision, lock.commit, lock.files), request.include)


def _say_staged(manifest: Manifest, progress: Progress) -> None:
    progress.say(
        f"already staged: {len(manifest.files)} files, {manifest.total_bytes:,} bytes of {manifest.repository} "
        f"at {manifest.commit}"
    )


def _contents(manifest: Manifest) -> dict[str, str | None]:
    return {file.path: file.sha256 for file in manifest.files}


def _hub_listing(request: StageRequest, tree: Tree, progress: Progress, stop_event: threading.Event) -> Listing:
    """The requested files of the hub's file list."""
    require_usable_environment()
    from stager.hub import listing_from_hub  # slow to import, and fails at a wrong endpoint

    revision = request.revision if FULL_COMMIT.fullmatch(request.revision) else _commit_begun(tree) or request.revision
    found = listing_from_hub(request.repository, revision, retries=JOB_RETRIES, say=progress.say, stop_event=stop_event)
    tree.replace(COMMIT_NOTE, found.commit + "\n")
    return select(Listing(request.repository, request.revision, found.commit, found.files), request.include)


def _commit_begun(tree: Tree) -> str | None:
    """The commit of an earlier run: a branch that moved since must not mix two commits."""
    try:
        noted = tree.read(COMMIT_NOTE).decode(errors="replace").strip()
    except FileNotFoundError:
        return None
    return noted if FULL_COMMIT.fullmatch(noted) else None


def _refuse_foreign_entries(tree: Tree, listing: Listing) -> None:
    names = {file.path for file in listing.files}
    foreign = foreign_entries(tree.root, names | {name + OLD_PART_SUFFIX for name in names})
    if foreign:
        raise StagerError(
            f"{tree.directory}: holds what {listing.repository} at {listing.commit} does not have, and an engine "
            f"might load it: {', '.join(foreign[:5])}{f' and {len(foreign) - 5} more' if len(foreign) > 5 else ''}; "
            "remove it"
        )


def _transfer(
    request: StageRequest,
    listing: Listing,
    lease: Lease,
    sharing: Sharing | None,
    progress: Progress,
    stop_event: threading.Event,
) -> None:
    """Fetch and verify the files that the volume lacks, and write the manifest."""
    progress.say(
        f"staging {listing.repository} at {listing.commit}: {len(listing.files)} files, {listing.total_bytes:,} bytes"
    )
    tree = lease.tree
    making = Parts(tree, lease.number)
    making.prepare(lease.given_back)
    parts = [Part(tree, making, file) for file in listing.files]
    missing = [part.file.size - part.bytes_on_disk for part in parts]
    require_space(request.directory, sum(missing))
    if request.native_xet:
        from stager.xet import fetch_whole_files  # only here, for the time that it takes to import

        fetch_whole_files(tree, listing, making, say=progress.say, stop_event=stop_event)
    streams = StreamCount(fixed=request.streams)
    processes = _processes(request, listing, missing, sharing)
    if processes > 1:
        from stager.workers import Workers  # only here, for the time that it takes to import

        fetching: Transfer | Workers = Workers(
            request, listing, lease, processes=processes, streams=streams, progress=progress, stop_event=stop_event
        )
    else:
        fetching = new_transfer(
            request,
            listing,
            parts,
            streams=streams,
            progress=progress,
            require_lease=lease.require,
            stop_event=stop_event,
            sharing=sharing,
        )
    try:
        finished = fetching.run()
    finally:
        if not fetching.stop_writing():
            lease.leave()
    unless_stopped(stop_event, lambda: making.clear(listing.files))
    unless_stopped(stop_event, lambda: write_manifest(tree, listing, finished, fetching.sources_used))
    progress.say(progress.summary(len(finished)))


def _processes(request: StageRequest, listing: Listing, missing: Sequence[int], sharing: Sharing | None) -> int:
    """How many processes fetch; in a fleet one, which serves and reads."""
    if sharing:
        return 1
    count = request.processes or process_count(missing, cores=usable_cores(), memory=memory_bytes())
    return min(count, len(listing.files), request.streams or count)
