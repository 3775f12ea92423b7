"""What may be said on the stager's command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from stager.lease import LEASE_SECONDS
from stager.source import HUB
from stager.stage import DEFAULT_STALL_SECONDS, default_streams
from stager.verify import TERMINATION_LOG

Doors = argparse._SubParsersAction


def parser() -> argparse.ArgumentParser:
    """A parser for all doors; the chosen one is in `door`. `verify` reads its own arguments."""
    whole = argparse.ArgumentParser(prog="stager", description="Bring verified weights onto a volume.")
    doors = whole.add_subparsers(dest="door", required=True, metavar="DOOR")
    for add in (_add_stage, _add_lock, _add_mirror, _add_prune):
        door = add(doors)
        door.add_argument("--termination-log", type=Path, default=TERMINATION_LOG, help="default: %(default)s")
    doors.add_parser("verify", help="check a staged directory against its manifest", add_help=False)
    return whole


def _add_stage(doors: Doors[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    door = doors.add_parser("stage", help="download, verify and mark one repository at one revision")
    door.add_argument("--directory", type=Path, required=True, help="where the files go, <mount>/<digest>")
    door.add_argument("--repository", required=True, help="the repository on the hub, owner/name")
    door.add_argument("--revision", required=True, help="a full commit, or a branch with --allow-unpinned")
    _add_include(door)
    door.add_argument("--lock", type=Path, help="stage exactly the files of this lock")
    door.add_argument("--allow-unpinned", action="store_true", help="let the revision be a branch")
    door.add_argument(
        "--lease-seconds",
        type=_at_least(float, 1),
        default=LEASE_SECONDS,
        help="take over from a stager that gave no sign of life for so long; the same for all (default: %(default)s)",
    )
    _add_sources(door)
    return door


def _add_lock(doors: Doors[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    door = doors.add_parser("lock", help="write the weights lock of a repository")
    door.add_argument("repository", nargs="?", help="the repository on the hub, owner/name")
    door.add_argument("--revision", help="a branch, tag or commit")
    _add_include(door)
    door.add_argument("--from-manifest", type=Path, metavar="DIR", help="lock what was staged in DIR instead")
    door.add_argument("--output", type=Path, metavar="FILE", help="default: weights/<name>.lock.json")
    return door


def _add_mirror(doors: Doors[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    door = doors.add_parser("mirror", help="fill an S3 mirror with what a lock lists")
    door.add_argument("lock", type=Path, help="the lock file")
    door.add_argument("target", help="s3://bucket/prefix")
    _add_sources(door)
    return door


def _add_prune(doors: Doors[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    door = doors.add_parser("prune", help="remove staged directories that no server uses")
    door.add_argument("mount", type=Path, help="the directory under which weights are staged")
    door.add_argument("--in-use", action="append", default=[], metavar="DIGEST", help="never remove this one; repeat")
    door.add_argument(
        "--keep-newest", type=_at_least(int, 0), required=True, metavar="N", help="never remove the N completed last"
    )
    door.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    return door


def _add_include(door: argparse.ArgumentParser) -> None:
    door.add_argument("--include", action="append", default=[], metavar="PATTERN", help="only files that match; repeat")


def _add_sources(door: argparse.ArgumentParser) -> None:
    door.add_argument(
        "--source",
        dest="sources",
        action="append",
        metavar="SOURCE",
        help=f"{HUB} (the default), s3://bucket/prefix, https://host/path or /directory; repeat, the preferred first",
    )
    door.add_argument(
        "--streams",
        type=_at_least(int, 1),
        default=default_streams(),
        help="connections at once (default: two for each core, 8 to 16; here %(default)s)",
    )
    door.add_argument(
        "--stall-seconds",
        type=_at_least(float, 0.1),
        default=DEFAULT_STALL_SECONDS,
        help="give a connection up after so long without a byte (default: %(default)s)",
    )


def _at_least(kind: type[int] | type[float], least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not value >= least:
            raise argparse.ArgumentTypeError(f"is {text}, expected at least {least:g}")
        return value

    number.__name__ = kind.__name__
    return number
