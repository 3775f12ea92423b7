"""The arguments of the stager's command line."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from stager.digest import DIGEST, DIGEST_DIGITS
from stager.errors import WrongUsage
from stager.lease import LEASE_SECONDS
from stager.listing import REPOSITORY
from stager.source_name import HUB, is_web_address
from stager.stage_request import (
    DEFAULT_STALL_SECONDS,
    FLEET_SECRET,
    MOST_PROCESSES,
    PEER_TIMEOUT_SECONDS,
    Membership,
    default_mirror_streams,
)
from stager.streams import MOST_STREAMS
from stager.users import USER
from stager.verify import TERMINATION_LOG

MOST_SECONDS = 86_400
SECRET = re.compile(r"[!-~]{16,200}")

Subcommands = argparse._SubParsersAction


def parser() -> argparse.ArgumentParser:
    """A parser for all subcommands; sets `subcommand`. `verify` parses its own arguments."""
    whole = argparse.ArgumentParser(prog="stager", description="Bring verified weights onto a volume.")
    subcommands = whole.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    for add in (_add_stage, _add_lock, _add_mirror, _add_prune):
        subcommand = add(subcommands)
        subcommand.add_argument("--termination-log", type=_path, default=TERMINATION_LOG, help="default: %(default)s")
    subcommands.add_parser("verify", help="check a staged directory against its manifest", add_help=False)
    return whole


def _add_stage(subcommands: Subcommands[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    subcommand = subcommands.add_parser("stage", help="download, verify and mark one repository at one revision")
    subcommand.add_argument("--directory", type=_path, required=True, help="where the files go, <mount>/<digest>")
    subcommand.add_argument(
        "--repository", type=_repository, required=True, help="the repository on the hub, owner/name"
    )
    subcommand.add_argument(
        "--revision", type=_text, required=True, help="a full commit, or a branch with --allow-unpinned"
    )
    _add_include(subcommand)
    subcommand.add_argument("--lock", type=_path, help="stage exactly the files of this lock")
    subcommand.add_argument("--allow-unpinned", action="store_true", help="let the revision be a branch")
    subcommand.add_argument("--user", type=_user, metavar="NAMESPACE/STACK", help="mark the directory as this stack's")
    _add_cache(subcommand, "make a directory beside the weights for what the server compiles (needs --user)")
    subcommand.add_argument(
        "--cache-owner", type=_between(int, 0), metavar="UID", help="the server's user (default: this process')"
    )
    _add_lease(subcommand)
    _add_sources(subcommand, None, "as many as the line rewards")
    subcommand.add_argument(
        "--processes",
        type=_between(int, 1, MOST_PROCESSES),
        help="processes that fetch whole files (default: by cores and memory, if 1 GiB or more is missing; with --peer "
        "always 1)",
    )
    subcommand.add_argument(
        "--native-xet",
        action="store_true",
        help=f"let the hub's own client fetch whole files, by Xet's protocol where it can; {HUB} must be asked first",
    )
    subcommand.add_argument(
        "--require-credentials",
        action="store_true",
        help="end with status 77 if there are no AWS credentials, which a pod gets only at its start",
    )
    _add_fleet(subcommand)
    return subcommand


def _add_fleet(subcommand: argparse.ArgumentParser) -> None:
    subcommand.add_argument(
        "--peer",
        dest="peers",
        type=_peer,
        action="append",
        default=[],
        metavar="NAME=http://HOST:PORT",
        help=f"a node that stages the same; repeat for all, this one too, in one order (needs {FLEET_SECRET}, --lock)",
    )
    subcommand.add_argument("--node", type=_text, metavar="NAME", help="which of the peers this one is")
    subcommand.add_argument(
        "--peer-seconds",
        type=_between(float, 0.1, MOST_SECONDS),
        default=PEER_TIMEOUT_SECONDS,
        help="fetch what a node was to fetch that was silent, or got nowhere, for so long (default: %(default)s)",
    )


def _add_lock(subcommands: Subcommands[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    subcommand = subcommands.add_parser("lock", help="write the weights lock of a repository")
    subcommand.add_argument("repository", nargs="?", type=_repository, help="the repository on the hub, owner/name")
    subcommand.add_argument("--revision", type=_text, help="a branch, tag or commit")
    _add_include(subcommand)
    subcommand.add_argument("--from-manifest", type=_path, metavar="DIR", help="lock what was staged in DIR instead")
    subcommand.add_argument("--output", type=_path, metavar="FILE", help="default: weights/<name>.lock.json")
    return subcommand


def _add_mirror(subcommands: Subcommands[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    subcommand = subcommands.add_parser("mirror", help="fill an S3 mirror with what a lock lists")
    subcommand.add_argument("lock", type=_path, help="the lock file")
    subcommand.add_argument("target", help="s3://bucket/prefix")
    _add_sources(subcommand, default_mirror_streams(), f"two for each core, 8 to 16; here {default_mirror_streams()}")
    return subcommand


def _add_prune(subcommands: Subcommands[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    subcommand = subcommands.add_parser("prune", help="remove staged directories that no server uses")
    subcommand.add_argument("mount", type=_path, help="the directory under which weights are staged")
    subcommand.add_argument(
        "--in-use", action="append", default=[], metavar="DIGEST", help="never remove this one; repeat"
    )
    subcommand.add_argument(
        "--keep-newest", type=_between(int, 0), required=True, metavar="N", help="never remove the N completed last"
    )
    subcommand.add_argument(
        "--user",
        type=_user,
        metavar="NAMESPACE/STACK",
        help="only what this stack staged, the N being those it staged last; what another needs too is kept for it",
    )
    _add_cache(subcommand, "also remove all caches of this stack but this one (needs --user)")
    subcommand.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    _add_lease(subcommand)
    return subcommand


def _add_cache(subcommand: argparse.ArgumentParser, text: str) -> None:
    subcommand.add_argument("--cache", type=_digest, metavar="KEY", help=text)


def _add_lease(subcommand: argparse.ArgumentParser) -> None:
    subcommand.add_argument(
        "--lease-seconds",
        type=_between(float, 1, MOST_SECONDS),
        default=LEASE_SECONDS,
        help="take over from a stager that gave no sign of life for so long; the same for all (default: %(default)s)",
    )


def _add_include(subcommand: argparse.ArgumentParser) -> None:
    subcommand.add_argument(
        "--include", type=_text, action="append", default=[], metavar="PATTERN", help="only files that match; repeat"
    )


def _add_sources(subcommand: argparse.ArgumentParser, streams: int | None, by_default: str) -> None:
    subcommand.add_argument(
        "--source",
        dest="sources",
        action="append",
        metavar="SOURCE",
        help=f"{HUB} (the default), s3://bucket/prefix, https://host/path or /directory; repeat, the preferred first",
    )
    subcommand.add_argument(
        "--streams",
        type=_between(int, 1, MOST_STREAMS),
        default=streams,
        help=f"connections at once (default: {by_default})",
    )
    subcommand.add_argument(
        "--stall-seconds",
        type=_between(float, 0.1, MOST_SECONDS),
        default=DEFAULT_STALL_SECONDS,
        help="give a connection up after so long without a byte (default: %(default)s)",
    )


def _between(kind: type[int] | type[float], least: float, most: float = math.inf) -> Callable[[str], float]:
    def number(text: str) -> float:
        value = kind(text)
        if not least <= value <= most:
            expected = f"at least {least:g}" if most == math.inf else f"{least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"is {text}, expected {expected}")
        return value

    number.__name__ = kind.__name__
    return number


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("is empty")
    return text


def _peer(text: str) -> tuple[str, str]:
    name, _, url = text.partition("=")
    if not (name and is_web_address(url) and url.startswith("http://") and urlsplit(url).port and url.count("/") == 2):
        raise argparse.ArgumentTypeError(f"is {text!r}, expected NAME=http://HOST:PORT")
    return name, url


def membership(options: argparse.Namespace) -> Membership | None:
    """The fleet in the options of `stage` and the environment. None: no fleet. Raises `WrongUsage`."""
    names = [name for name, _ in options.peers]
    if not names and options.node is None:
        return None
    if len(set(names)) < max(2, len(names)):
        raise WrongUsage(f"--peer: expected two different nodes or more, got {', '.join(names) or 'none'}")
    if options.node not in names:
        raise WrongUsage(f"--node {options.node}: expected one of the peers: {', '.join(names)}")
    if options.lock is None:
        raise WrongUsage("--peer without --lock: expected a lock, from which all nodes know the same files and hashes")
    secret = os.environ.get(FLEET_SECRET, "")
    if not SECRET.fullmatch(secret):
        raise WrongUsage(f"{FLEET_SECRET}: expected the fleet's secret, 16 to 200 characters without spaces")
    url = dict(options.peers)[options.node]
    return Membership(tuple(options.peers), options.node, urlsplit(url).port or 0, secret, options.peer_seconds)


def _path(text: str) -> Path:
    if "\0" in _text(text):
        raise argparse.ArgumentTypeError("has a character that no path has")
    return Path(text)


def _repository(text: str) -> str:
    if not REPOSITORY.fullmatch(text):
        raise argparse.ArgumentTypeError(f"is {text!r}, expected owner/name")
    return text


def _digest(text: str) -> str:
    if not DIGEST.fullmatch(text):
        raise argparse.ArgumentTypeError(f"is {text!r}, expected {DIGEST_DIGITS} hexadecimal digits")
    return text


def _user(text: str) -> str:
    if not USER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"is {text!r}, expected NAMESPACE/STACK")
    return text
