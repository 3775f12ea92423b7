"""Checks a staged directory of weights against its completion manifest; exit status 0 means: serve it.

The server's init container runs this file with the few modules that it imports (`python verify.py DIR`); all need
the standard library only. It refuses a directory without a manifest, of another repository or revision, with other
files than the stack requests, with a file missing or changed, and everything that the manifest does not list: files,
folders, links and devices. It follows no link, and prints all problems at once.

The quick check (the default) hashes files up to 16 MiB. It compares size, inode, modification time and change time of
the others with the manifest; it reads no clock. If any of them differs (a copy, a restore, a recursive chown), it
hashes the file. It does not detect bytes that changed below the file system, as on a failing disk. `--full` hashes
all files, from the disk and not from memory. `--wait-seconds` waits for a missing manifest: on nodes that are staged
when they join, a server's pod may start before the stager is done.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from pathlib import Path

if __name__ == "__main__":  # as a file, without PYTHONPATH: the other modules are beside it
    sys.path.insert(0, str(Path(__file__).absolute().parents[1]))

from stager.manifest import Unverified, identity_problems, manifest_path, read_manifest
from stager.nofollow import cause, opened
from stager.order import NOT_KNOWN, ORDERED, NoOrder, Ordered, order_problems, read_ordered
from stager.tree_check import tree_problems

TERMINATION_LOG = Path("/dev/termination-log")
POLL_SECONDS = 1.0
REMINDER_SECONDS = 30.0
TERMINATION_LOG_BYTES = 4096  # https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/


def problems(
    directory: Path,
    *,
    full: bool = False,
    repository: str | None = None,
    revision: str | None = None,
    ordered: Ordered | None = None,
) -> list[str]:
    """Every reason not to serve `directory`, one line each; empty means that it is as it was verified.

    `repository` and `revision`, where given, must be the manifest's, and its files those that were `ordered`.
    """
    try:
        manifest = read_manifest(directory)
    except Unverified as verdict:
        return [str(verdict)]
    found = identity_problems(directory, manifest, repository, revision)
    found += order_problems(manifest, ordered) if ordered else []
    try:
        with opened(directory) as root:
            return found + tree_problems(root, manifest.files, full=full)
    except OSError as error:
        return [*found, f"{directory}: cannot be read: {cause(error)}"]


def write_termination_message(lines: list[str], path: Path) -> None:
    """Leave the reason of a failure where Kubernetes looks for it; outside of a pod there is no such file."""
    if not path.exists():
        return
    message = "\n".join(lines).encode(errors="backslashreplace")[:TERMINATION_LOG_BYTES]
    try:
        path.write_bytes(message)
    except OSError as error:
        print(f"verify: cannot write {path}: {error.strerror}", file=sys.stderr)


def await_manifest(directory: Path, seconds: float) -> float:
    """Wait until `directory` has a manifest, of whatever content, and at most `seconds`; return how long it took."""
    path, began, reminder = manifest_path(directory), time.monotonic(), 0.0
    while (waited := time.monotonic() - began) < seconds and _is_missing(path):
        if waited >= reminder:
            reminder = waited + REMINDER_SECONDS
            print(
                f"waiting for {path}, which the stager of this node writes: {waited:.0f} of {seconds:.0f} s", flush=True
            )
        time.sleep(min(POLL_SECONDS, seconds - waited))
    return waited


def _is_missing(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # to wait would not help
    return False


def command_line(program: str = "verify") -> argparse.ArgumentParser:
    """What may be said on the command line."""
    parser = argparse.ArgumentParser(prog=program, description="Check staged weights against their manifest.")
    parser.add_argument("directory", type=Path, help="the staged directory, <mount>/<digest>")
    parser.add_argument("--full", action="store_true", help="hash every byte, in parallel")
    parser.add_argument("--repository", help="refuse another repository than this")
    parser.add_argument("--revision", help="refuse another revision than this, as the stack writes it")
    parser.add_argument(
        "--ordered",
        type=Path,
        metavar="FILE",
        help=f"refuse other files than this says; default: {ORDERED.name} beside this program, if it is there",
    )
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=0.0,
        metavar="N",
        help="wait so long for a missing manifest; another one is refused at once (default: %(default)s)",
    )
    parser.add_argument("--termination-log", type=Path, default=TERMINATION_LOG, help="default: %(default)s")
    return parser


def main(arguments: list[str] | None = None, program: str = "verify") -> int:
    """Verify as the command line says; 0 when the directory may be served, 1 when not."""
    options = command_line(program).parse_args(arguments)
    # As a container's first process it would not hear this signal otherwise, and would be killed after 30 s.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    waited = await_manifest(options.directory, options.wait_seconds)
    started = time.monotonic()
    found = _found(options)
    if found:
        if waited >= options.wait_seconds > 0:
            found = [f"{found[0]}; waited {waited:.0f} s for it", *found[1:]]
        for problem in found:
            print(f"verify: {problem}", file=sys.stderr)
        write_termination_message(
            [f"verify: {options.directory}: {problem}" for problem in found], options.termination_log
        )
        return 1
    manifest = read_manifest(options.directory)
    compared = options.ordered and read_ordered(options.ordered).sha256 != NOT_KNOWN
    print(
        f"verified {len(manifest.files)} files, {manifest.total_bytes:,} bytes of {manifest.repository} at "
        f"{manifest.commit} ({'full' if options.full else 'quick'}{', as ordered' if compared else ''}) in "
        f"{time.monotonic() - started:.1f} s"
    )
    return 0


def _found(options: argparse.Namespace) -> list[str]:
    if options.ordered is None and ORDERED.exists():
        options.ordered = ORDERED
    try:
        return problems(
            options.directory,
            full=options.full,
            repository=options.repository,
            revision=options.revision,
            ordered=read_ordered(options.ordered) if options.ordered else None,
        )
    except NoOrder as reason:
        return [str(reason)]


if __name__ == "__main__":
    sys.exit(main())
