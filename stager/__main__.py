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
from stager.errors import StagerError, Stopped
from stager.progress import Progress
from stager.stage import DEFAULT_STALL_SECONDS, DEFAULT_STREAMS, Order, stage

READABLE_FOR_ALL = 0o022
STOPPED_STATUS = 128 + signal.SIGTERM


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one door; returns the exit status: 0 done, 1 refused or failed, 2 wrong usage, 143 stopped."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if arguments[:1] == ["verify"]:
        return verify.main(arguments[1:])
    options = _parser().parse_args(arguments)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    os.umask(READABLE_FOR_ALL)
    try:
        options.run(options, ending)
    except StagerError as error:
        print(f"stager: {error}", file=sys.stderr, flush=True)
        verify.write_termination_message([f"stager: {error}"], options.termination_log)
        return STOPPED_STATUS if isinstance(error, Stopped) else 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="stager", description="Bring verified weights onto a volume.")
    parser.add_argument("--termination-log", type=Path, default=verify.TERMINATION_LOG, help=argparse.SUPPRESS)
    doors = parser.add_subparsers(required=True, metavar="DOOR")
    _add_stage(doors)
    return parser


def _add_stage(doors: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    door = doors.add_parser("stage", help="download, verify and mark one repository at one revision")
    door.add_argument("--directory", type=Path, required=True, help="where the files go, <mount>/<digest>")
    door.add_argument("--repository", required=True, help="the repository on the hub, owner/name")
    door.add_argument("--revision", required=True, help="a full commit, or a branch with --allow-unpinned")
    door.add_argument("--include", action="append", default=[], metavar="PATTERN", help="only files that match; repeat")
    door.add_argument("--lock", type=Path, help="stage exactly the files of this lock")
    door.add_argument(
        "--source",
        action="append",
        metavar="SOURCE",
        help="hub (default), s3://…, https://…, /directory; repeat, in order",
    )
    door.add_argument("--allow-unpinned", action="store_true", help="let the revision be a branch")
    _add_streams(door)
    door.set_defaults(run=_stage)


def _add_streams(door: argparse.ArgumentParser) -> None:
    door.add_argument("--streams", type=int, default=DEFAULT_STREAMS, help="connections at once (default: %(default)s)")
    door.add_argument(
        "--stall-seconds",
        type=float,
        default=DEFAULT_STALL_SECONDS,
        help="give a connection up after so long without a byte (default: %(default)s)",
    )
    door.add_argument("--termination-log", type=Path, default=verify.TERMINATION_LOG, help="default: %(default)s")


def _stage(options: argparse.Namespace, ending: threading.Event) -> None:
    order = Order(
        directory=options.directory,
        repository=options.repository,
        revision=options.revision,
        include=options.include,
        lock=options.lock,
        sources=options.source or ["hub"],
        allow_unpinned=options.allow_unpinned,
        streams=options.streams,
        stall_seconds=options.stall_seconds,
    )
    with Progress() as progress:
        stage(order, progress, ending)


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)  # a stream that still waits for its server must not hold up the end
