"""The stager's subcommands: `python -m stager stage | lock | mirror | verify | prune`.

A failure ends with one clear line and a nonzero exit status. In a pod, the line is also the termination message, so
`pulumi up` shows it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from stager import verify
from stager.command_line import membership, parser
from stager.errors import NoCredentials, StagerError, Stopped, Unanswered, WrongUsage
from stager.kept_cache import make_cache, prune_caches
from stager.manifest import Unverified, read_manifest
from stager.order import files_sha256
from stager.progress import Progress
from stager.prune import Pruning, prune
from stager.source_name import HUB
from stager.stage_request import StageRequest
from stager.stopping import unless_stopped
from stager.volume import volume_error

# Subcommands import third-party modules themselves: `prune` and `verify` run without requirements.

READABLE_FOR_ALL = 0o022
USAGE_STATUS = 2
UNANSWERED_STATUS = os.EX_TEMPFAIL
NO_CREDENTIALS_STATUS = os.EX_NOPERM
STOPPED_STATUS = 128 + signal.SIGTERM
GRACE_SECONDS = 1.6
"""The time to release the lease after a signal; then the process ends in any case."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status.

    0: done, 1: refused or failed, 2: wrong usage, 75: unanswered, 77: no credentials in this pod, 143: stopped.
    The stage Job retries 75 and 143 only, and replaces the pod after 77.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["verify"]:
        return verify.main(arguments[1:], program="stager verify")
    options = parser().parse_args(arguments)
    stop_event, stop_signal = threading.Event(), threading.Event()

    def end(*_: object) -> None:
        stop_signal.set()
        stop_event.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    os.umask(READABLE_FOR_ALL)
    subcommands = {"stage": _stage, "lock": _lock, "mirror": _mirror, "prune": _prune}
    try:
        unless_stopped(
            stop_signal, lambda: subcommands[options.subcommand](options, stop_event), grace_seconds=GRACE_SECONDS
        )
    except StagerError as error:
        return _fail(error, options.termination_log)
    except OSError as error:
        return _fail(volume_error(error, Path(error.filename or options.subcommand)), options.termination_log)
    return 0


def _fail(error: StagerError, termination_log: Path) -> int:
    line = " ".join(f"stager: {error}".splitlines())
    print(line, file=sys.stderr, flush=True)
    verify.write_termination_message([line], termination_log)
    match error:
        case Stopped():
            return STOPPED_STATUS
        case Unanswered():
            return UNANSWERED_STATUS
        case NoCredentials():
            return NO_CREDENTIALS_STATUS
        case WrongUsage():
            return USAGE_STATUS
        case _:
            return 1


def _stage(options: argparse.Namespace, stop_event: threading.Event) -> None:
    from stager.stage import stage

    request = StageRequest(
        directory=options.directory,
        repository=options.repository,
        revision=options.revision,
        include=options.include,
        lock=options.lock,
        sources=options.sources or [HUB],
        native_xet=options.native_xet,
        allow_unpinned=options.allow_unpinned,
        user=options.user,
        streams=options.streams,
        processes=options.processes,
        stall_seconds=options.stall_seconds,
        lease_seconds=options.lease_seconds,
        fleet=membership(options),
        require_credentials=options.require_credentials,
    )
    user = _user_of_cache(options)
    with Progress() as progress:
        stage(request, progress, stop_event)
    if user:
        make_cache(request.directory.parent, user, options.cache, options.cache_owner)
    _report_files(request.directory, options.termination_log)


def _user_of_cache(options: argparse.Namespace) -> str | None:
    """The user whose cache the options name. None: they name none."""
    if options.cache and not options.user:
        raise WrongUsage("--cache without --user: expected the stack that the cache belongs to")
    return options.user if options.cache else None


def _report_files(directory: Path, termination_log: Path) -> None:
    """Leave one hash of all files as the termination message; a stack without a lock keeps it."""
    with contextlib.suppress(Unverified):  # a pruning may have removed it meanwhile
        files = read_manifest(directory).files
        sha256 = files_sha256((file.path, file.size, file.sha256) for file in files)
        verify.write_termination_message([f"stager: files_sha256 {sha256}"], termination_log)


def _lock(options: argparse.Namespace, stop_event: threading.Event) -> None:
    from stager.lock import LOCKS, lock_from_hub, lock_from_manifest, require_place, write_lock

    _require_one_origin(options)
    if options.output:
        require_place(options.output)
    if options.from_manifest:
        listing = lock_from_manifest(options.from_manifest)
    else:
        with Progress() as progress:
            listing = lock_from_hub(options.repository, options.revision, options.include, progress, stop_event)
    output = options.output or LOCKS / f"{listing.repository.split('/')[-1].lower()}.lock.json"
    write_lock(output, listing)
    print(f"{output}: {len(listing.files)} files, {listing.total_bytes:,} bytes of {listing.commit}")


def _require_one_origin(options: argparse.Namespace) -> None:
    of_hub = [options.repository, options.revision, options.include]
    if any(of_hub) if options.from_manifest else not (options.repository and options.revision):
        raise WrongUsage("lock: expected REPOSITORY and --revision (and --include), or --from-manifest DIR alone")


def _mirror(options: argparse.Namespace, stop_event: threading.Event) -> None:
    from stager.lockfile import read_lock
    from stager.mirror import mirror

    with Progress() as progress:
        mirror(
            read_lock(options.lock),
            options.target,
            source_names=options.sources or [HUB],
            streams=options.streams,
            stall_seconds=options.stall_seconds,
            progress=progress,
            stop_event=stop_event,
        )


def _prune(options: argparse.Namespace, stop_event: threading.Event) -> None:
    pruning = Pruning(
        mount=options.mount,
        keep_newest=options.keep_newest,
        in_use=options.in_use,
        user=options.user,
        dry_run=options.dry_run,
        lease_seconds=options.lease_seconds,
    )
    user = _user_of_cache(options)
    prune(pruning, say=_say, stop_event=stop_event)
    if user:
        prune_caches(options.mount, user, options.cache, dry_run=options.dry_run, say=_say)


def _say(line: str) -> None:
    print(line, flush=True)


def run() -> NoReturn:
    """Run the command line of this process, and end it."""
    status = main()
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)  # a stream that waits for its server must not delay the exit


if __name__ == "__main__":
    run()
