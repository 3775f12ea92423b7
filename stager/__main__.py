"""The stager's doors: `python -m stager stage | lock | mirror | verify | prune`.

Whatever fails ends with one clear line, an exit status that is not 0, and in a pod the same line as the termination
message, so that `pulumi up` shows it.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from stager import verify
from stager.command_line import parser
from stager.errors import StagerError, Stopped
from stager.lock import lock_from_hub, lock_from_manifest, write_lock
from stager.lockfile import read_lock
from stager.progress import Progress
from stager.prune import prune
from stager.source import HUB
from stager.stage import Order, stage

READABLE_FOR_ALL = 0o022
STOPPED_STATUS = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one door; returns the exit status: 0 done, 1 refused or failed, 2 wrong usage, 143 stopped."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["verify"]:
        return verify.main(arguments[1:])
    options = parser().parse_args(arguments)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    os.umask(READABLE_FOR_ALL)
    doors = {"stage": _stage, "lock": _lock, "mirror": _mirror, "prune": _prune}
    try:
        doors[options.door](options, ending)
    except StagerError as error:
        print(f"stager: {error}", file=sys.stderr, flush=True)
        verify.write_termination_message([f"stager: {error}"], options.termination_log)
        return STOPPED_STATUS if isinstance(error, Stopped) else 1
    return 0


def _stage(options: argparse.Namespace, ending: threading.Event) -> None:
    order = Order(
        directory=options.directory,
        repository=options.repository,
        revision=options.revision,
        include=options.include,
        lock=options.lock,
        sources=options.sources or [HUB],
        allow_unpinned=options.allow_unpinned,
        streams=options.streams,
        stall_seconds=options.stall_seconds,
        lease_seconds=options.lease_seconds,
    )
    with Progress() as progress:
        stage(order, progress, ending)


def _lock(options: argparse.Namespace, ending: threading.Event) -> None:
    if options.from_manifest:
        listing = lock_from_manifest(options.from_manifest)
    elif options.repository and options.revision:
        with Progress() as progress:
            listing = lock_from_hub(options.repository, options.revision, options.include, progress, ending)
    else:
        raise StagerError("lock: expected REPOSITORY and --revision, or --from-manifest DIR")
    output = options.output or Path("weights", f"{listing.repository.split('/')[-1].lower()}.lock.json")
    write_lock(output, listing)
    print(f"{output}: {len(listing.files)} files, {listing.total_bytes:,} bytes of {listing.commit}")


def _mirror(options: argparse.Namespace, ending: threading.Event) -> None:
    from stager.mirror import mirror  # only here, since boto3 takes long to import

    with Progress() as progress:
        mirror(
            read_lock(options.lock),
            options.target,
            source_names=options.sources or [HUB],
            streams=options.streams,
            stall_seconds=options.stall_seconds,
            progress=progress,
            ending=ending,
        )


def _prune(options: argparse.Namespace, ending: threading.Event) -> None:
    prune(
        options.mount,
        in_use=options.in_use,
        keep_newest=options.keep_newest,
        dry_run=options.dry_run,
        say=print,
        ending=ending,
    )


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)  # a stream that still waits for its server must not hold up the end
