"""Stages one repository at one revision into one directory: list, check room, fetch, verify, mark as complete.

Done already, it sees the manifest and ends at once, without the network. Refuses a revision that is no full commit
unless that is allowed, foreign files in the directory, and everything that the modules it uses refuse.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from stager.ending import pause_until
from stager.environment import require_usable_environment
from stager.errors import StagerError, WrongUsage
from stager.lease import Lease
from stager.listing import FULL_COMMIT, PART_SUFFIX, Listing, RemoteFile, select
from stager.lockfile import read_lock
from stager.manifest import withdraw_manifest, write_manifest
from stager.order import Order
from stager.part import Part
from stager.patience import LONG_PATIENCE
from stager.progress import Progress
from stager.ranges import RangeReader
from stager.source import sources
from stager.source_name import HUB, require_names
from stager.streams import StreamCount
from stager.supply import Supply
from stager.transfer import Transfer
from stager.users import mark
from stager.verify import OWN_DIRECTORY, Manifest, Unverified, foreign_files, manifest_path, problems, read_manifest
from stager.volume import make_directory, replace_file, require_space, volume_error

if TYPE_CHECKING:
    from stager.sharing import Sharing


def stage(order: Order, progress: Progress, ending: threading.Event) -> None:
    """Bring the directory to completion; raises `StagerError`. `ending` is set when the process is told to stop."""
    require_names(order.sources)
    if order.native_xet and order.sources[0] != HUB:
        raise WrongUsage(f"--native-xet with --source {order.sources[0]} first: expected {HUB} to be asked first")
    locked = _locked_listing(order)
    make_directory(order.directory)
    if _needs_no_mark(order) and not order.fleet and _is_staged(order, locked, progress):
        return
    try:
        with _sharing(order, locked, progress, ending) as sharing:
            with Lease(order.directory, say=progress.say, ending=ending, seconds=order.lease_seconds) as lease:
                _stage_alone(order, locked, lease, sharing, progress, ending)
                if order.user:
                    mark(order.directory, order.user)
            if sharing:
                sharing.linger()
    except OSError as error:
        raise volume_error(error, Path(error.filename or order.directory)) from None


def _needs_no_mark(order: Order) -> bool:
    """Whether a complete directory is left as it is: for nobody in particular, or where it may only be read."""
    own = order.directory / OWN_DIRECTORY
    return order.user is None or (not os.access(own, os.W_OK) and own.is_dir())


def _is_staged(order: Order, locked: Listing | None, progress: Progress) -> bool:
    """Whether all is there; says so. Nobody holds the lease: the directory may be removed at this very moment."""
    try:
        if _problems(order, locked):
            return False
        _say_staged(order, progress)
    except Unverified:
        return False
    if order.user:
        progress.say(f"not marked for {order.user}, since the volume may only be read here")
    return True


def _sharing(
    order: Order, locked: Listing | None, progress: Progress, ending: threading.Event
) -> AbstractContextManager[Sharing | None]:
    """This stager's part in its fleet, if it belongs to one."""
    if order.fleet is None or locked is None:
        return nullcontext()
    from stager.sharing import Sharing  # only here, for the time that it takes to import

    def open_file(file: RemoteFile) -> int:
        return os.open(order.directory / file.path, os.O_RDONLY | os.O_NOFOLLOW)

    return Sharing(order.fleet, locked, open_file, stall_seconds=order.stall_seconds, progress=progress, ending=ending)


def _stage_alone(
    order: Order,
    locked: Listing | None,
    lease: Lease,
    sharing: Sharing | None,
    progress: Progress,
    ending: threading.Event,
) -> None:
    """What only the holder of the lease may do; another stager may have done it while we waited."""
    found = _problems(order, locked)
    if not found:
        _say_staged(order, progress)
        if sharing:
            sharing.offer_all()
        return
    if manifest_path(order.directory).exists():
        progress.say(f"staging again: {'; '.join(found)}")
        withdraw_manifest(order.directory)
    listing = locked or _hub_listing(order, progress, ending)
    _refuse_foreign_files(order.directory, listing)
    _transfer(order, listing, lease, sharing, progress, ending)


def _locked_listing(order: Order) -> Listing | None:
    """The files that the lock names, if there is one; refuses a lock of other weights, and an unpinned revision."""
    if order.lock is None:
        if not order.allow_unpinned and not FULL_COMMIT.fullmatch(order.revision):
            raise StagerError(
                f"revision {order.revision!r} is not a full commit (40 hexadecimal digits): give one, or a lock file, "
                "or allow unpinned weights"
            )
        return None
    lock = read_lock(order.lock)
    if lock.repository != order.repository:
        raise StagerError(f"lock {order.lock}: is of {lock.repository}, expected {order.repository}")
    if order.revision not in (lock.revision, lock.commit):
        raise StagerError(
            f"lock {order.lock}: is of revision {lock.revision} (commit {lock.commit}), expected {order.revision}"
        )
    return select(Listing(lock.repository, order.revision, lock.commit, lock.files), order.include)


def _problems(order: Order, locked: Listing | None) -> list[str]:
    """Why the directory is not complete, unchanged and of these weights; empty when it is."""
    found = problems(order.directory, repository=order.repository, revision=order.revision)
    if locked and not found and _contents(read_manifest(order.directory)) != {f.path: f.sha256 for f in locked.files}:
        found.append("the manifest lists other files than the lock")
    return found


def _say_staged(order: Order, progress: Progress) -> None:
    manifest = read_manifest(order.directory)
    progress.say(
        f"already staged: {len(manifest.files)} files, {manifest.total_bytes:,} bytes of {manifest.repository} "
        f"at {manifest.commit}"
    )


def _contents(manifest: Manifest) -> dict[str, str | None]:
    return {file.path: file.sha256 for file in manifest.files}


def _hub_listing(order: Order, progress: Progress, ending: threading.Event) -> Listing:
    """The hub's own file list, of which those that the order wants."""
    require_usable_environment()
    from stager.hub import listing_from_hub  # only here, since it takes long to import, and fails at a wrong endpoint

    revision = order.revision if FULL_COMMIT.fullmatch(order.revision) else _commit_begun(order) or order.revision
    found = listing_from_hub(
        order.repository, revision, patience=LONG_PATIENCE, say=progress.say, pause=pause_until(ending)
    )
    replace_file(_commit_note(order), found.commit + "\n")
    return select(Listing(order.repository, order.revision, found.commit, found.files), order.include)


def _commit_note(order: Order) -> Path:
    return manifest_path(order.directory).with_name("commit")


def _commit_begun(order: Order) -> str | None:
    """The commit at which an earlier run began; a branch that moved meanwhile must not mix two."""
    try:
        noted = _commit_note(order).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    return noted if FULL_COMMIT.fullmatch(noted) else None


def _refuse_foreign_files(directory: Path, listing: Listing) -> None:
    names = {file.path for file in listing.files}
    foreign = foreign_files(directory, names | {name + PART_SUFFIX for name in names})
    if foreign:
        raise StagerError(
            f"{directory}: holds files that {listing.repository} at {listing.commit} does not have, and an engine "
            f"might load them: {', '.join(foreign[:5])}{f' and {len(foreign) - 5} more' if len(foreign) > 5 else ''}; "
            "remove them"
        )


def _transfer(
    order: Order,
    listing: Listing,
    lease: Lease,
    sharing: Sharing | None,
    progress: Progress,
    ending: threading.Event,
) -> None:
    """Fetch and verify what the volume has not yet, and mark the directory as complete."""
    progress.say(
        f"staging {listing.repository} at {listing.commit}: {len(listing.files)} files, {listing.total_bytes:,} bytes"
    )
    streams = StreamCount(fixed=order.streams)
    reader = RangeReader(streams=streams.most, stall_seconds=order.stall_seconds)
    parts = [Part(order.directory, file) for file in listing.files]
    asked, pause = sources(order.sources, listing, reader), pause_until(ending)
    if sharing:
        kept = {part.file.path for part in parts if part.bytes_on_disk}
        supply: Supply = sharing.supply(asked, kept, say=progress.say, pause=pause)
    else:
        supply = Supply(asked, say=progress.say, pause=pause)
    transfer = Transfer(
        parts,
        supply,
        progress=progress,
        require_lease=lease.require,
        ending=ending,
        streams=streams,
    )
    require_space(order.directory, transfer.missing_bytes)
    if order.native_xet:
        from stager.xet import fetch_whole_files  # only here, for the time that it takes to import

        fetch_whole_files(order.directory, listing, say=progress.say, require_lease=lease.require, ending=ending)
    parts = transfer.run()
    lease.require()
    write_manifest(order.directory, listing, parts, supply.used)
    progress.say(progress.summary(len(parts)))
