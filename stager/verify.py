"""Checks a staged directory of weights against its completion manifest; exit status 0 means: serve it.

This one file, standard library only, runs alone in the server's init container (`python verify.py DIR`).
It refuses a directory without manifest, of another repository or revision, with a file missing, changed, linked
or foreign to it, and prints every problem at once.

Quick (the default) hashes files up to 16 MiB and compares the others by size, modification time and change time.
A larger file whose times do not prove it untouched (a copy, a restore, a recursive chown) is hashed instead of
refused. What quick cannot see: bytes that changed below the file system, as on a failing disk. `--full` hashes all.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST_VERSION = 1
OWN_DIRECTORY = ".heavylift"
ALWAYS_HASHED_BYTES = 16 * 1024 * 1024
TERMINATION_LOG = Path("/dev/termination-log")
TERMINATION_LOG_BYTES = 4096  # https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/

# `completed_at` is read from the volume's own clock after the last file was closed, so that no other clock matters.
# A change in this last instant is not told from the staging itself: the clock ticks in steps of up to 10 ms.
COMPLETION_SLACK_NS = 10_000_000


class Unverified(Exception):
    """The manifest itself cannot be used; the text says why and what to do."""


@dataclass(frozen=True)
class Expected:
    """One file as the manifest records it."""

    path: str
    size: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True)
class Manifest:
    """The completion manifest; `completed_ns` is `completed_at` in nanoseconds since the epoch."""

    repository: str
    revision: str
    commit: str
    files: tuple[Expected, ...]
    total_bytes: int
    completed_ns: int


def manifest_path(directory: Path) -> Path:
    """Where the completion manifest of a staged directory lies."""
    return directory / OWN_DIRECTORY / "manifest.json"


def read_manifest(directory: Path) -> Manifest:
    """The manifest of `directory`; raises `Unverified` when there is none or it is not one of ours."""
    path = manifest_path(directory)
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Unverified(f"{path}: no manifest, so nothing here was verified; stage the weights first") from None
    except OSError as error:
        raise Unverified(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Unverified(f"{path}: not valid JSON; delete it and stage the weights again") from None
    try:
        return _parse_manifest(record)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise Unverified(f"{path}: not a manifest of version {MANIFEST_VERSION} ({error}); stage again") from None


def _parse_manifest(record: dict[str, Any]) -> Manifest:
    if record["version"] != MANIFEST_VERSION:
        raise ValueError(f"version is {record['version']!r}")
    files = tuple(_parse_file(entry) for entry in record["files"])
    total_bytes = int(record["total_bytes"])
    if not files or total_bytes != sum(file.size for file in files):
        raise ValueError("total_bytes is not the sum of the files' sizes")
    completed = datetime.datetime.fromisoformat(record["completed_at"])
    if completed.tzinfo is None:
        raise ValueError("completed_at has no time zone")
    since_epoch = completed - datetime.datetime.fromtimestamp(0, datetime.UTC)
    return Manifest(
        repository=record["repository"],
        revision=record["revision"],
        commit=record["commit"],
        files=files,
        total_bytes=total_bytes,
        completed_ns=since_epoch // datetime.timedelta(microseconds=1) * 1000,
    )


def _parse_file(entry: dict[str, Any]) -> Expected:
    path, size, sha256 = entry["path"], entry["size"], entry["sha256"]
    parts = PurePosixPath(path).parts
    if not parts or ".." in parts or path.startswith("/") or parts[0] == OWN_DIRECTORY or not path.isprintable():
        raise ValueError(f"path {path!r} leaves the directory")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"size of {path} is {size!r}")
    if not isinstance(sha256, str) or len(sha256) != 64:
        raise ValueError(f"sha256 of {path} is {sha256!r}")
    return Expected(path=path, size=size, sha256=sha256, mtime_ns=int(entry["mtime_ns"]))


def problems(
    directory: Path, *, full: bool = False, repository: str | None = None, revision: str | None = None
) -> list[str]:
    """Every reason not to serve `directory`, one line each; empty means that it is as it was verified.

    `repository` and `revision`, where given, must be the manifest's.
    """
    try:
        manifest = read_manifest(directory)
    except Unverified as verdict:
        return [str(verdict)]
    known = {file.path for file in manifest.files}
    found = list(_identity_problems(directory, manifest, repository, revision))
    found += [f"{name}: not in the manifest; remove it" for name in foreign_files(directory, known)]
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        verdicts = pool.map(lambda file: _file_problem(directory, file, manifest.completed_ns, full), manifest.files)
        return found + [verdict for verdict in verdicts if verdict]


def _identity_problems(
    directory: Path, manifest: Manifest, repository: str | None, revision: str | None
) -> Iterator[str]:
    for key, expected, actual in (
        ("repository", repository, manifest.repository),
        ("revision", revision, manifest.revision),
    ):
        if expected is not None and expected != actual:
            yield f"{manifest_path(directory)}: {key} is {actual!r}, expected {expected!r}"


def foreign_files(directory: Path, known: Collection[str]) -> list[str]:
    """Files in `directory` other than those `known`, sorted; an engine might load them as weights.

    Names that begin with a dot are let be: network file systems leave some, and no engine reads them.
    """
    present = (Path(folder) / name for folder, _, names in os.walk(directory) for name in names)
    relative = (path.relative_to(directory).as_posix() for path in present)
    return sorted(
        path
        for path in relative
        if path not in known and not path.startswith(OWN_DIRECTORY + "/") and not Path(path).name.startswith(".")
    )


def _file_problem(directory: Path, file: Expected, completed_ns: int, full: bool) -> str | None:
    path = directory / file.path
    try:
        link = _link_on_the_way(directory, file.path)
        if link is not None:
            return f"{file.path}: {link} is a symbolic link, expected real files"
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return f"{file.path}: not a regular file"
        if status.st_size != file.size:
            return f"{file.path}: {status.st_size} bytes, expected {file.size}"
        if full or file.size <= ALWAYS_HASHED_BYTES or not _proven_untouched(status, file, completed_ns):
            return _hash_problem(path, file)
    except FileNotFoundError:
        return f"{file.path}: missing"
    except OSError as error:
        return f"{file.path}: cannot be read: {error.strerror}"
    return None


def _link_on_the_way(directory: Path, relative: str) -> str | None:
    """The first component of `relative` below `directory` that is a symbolic link."""
    way = directory
    for part in PurePosixPath(relative).parts:
        way /= part
        if way.is_symlink():
            return way.relative_to(directory).as_posix()
    return None


def _proven_untouched(status: os.stat_result, file: Expected, completed_ns: int) -> bool:
    """Whether the times say that nothing wrote to the file, or set its times back, after completion.

    The modification time can be set by anybody; the change time only moves forward, to the moment of the change.
    """
    return status.st_mtime_ns == file.mtime_ns and status.st_ctime_ns <= completed_ns + COMPLETION_SLACK_NS


def _hash_problem(path: Path, file: Expected) -> str | None:
    with path.open("rb") as content:
        actual = hashlib.file_digest(content, "sha256").hexdigest()
    if actual == file.sha256:
        return None
    return f"{file.path}: SHA-256 is {actual}, expected {file.sha256}"


def write_termination_message(lines: list[str], path: Path) -> None:
    """Leave the reason of a failure where Kubernetes looks for it; outside of a pod there is no such file."""
    if not path.exists():
        return
    message = "\n".join(lines).encode()[:TERMINATION_LOG_BYTES]
    try:
        path.write_bytes(message)
    except OSError as error:
        print(f"verify: cannot write {path}: {error.strerror}", file=sys.stderr)


def command_line(program: str = "verify") -> argparse.ArgumentParser:
    """What may be said on the command line."""
    parser = argparse.ArgumentParser(prog=program, description="Check staged weights against their manifest.")
    parser.add_argument("directory", type=Path, help="the staged directory, <mount>/<digest>")
    parser.add_argument("--full", action="store_true", help="hash every byte, in parallel")
    parser.add_argument("--repository", help="refuse another repository than this")
    parser.add_argument("--revision", help="refuse another revision than this, as the stack writes it")
    parser.add_argument("--termination-log", type=Path, default=TERMINATION_LOG, help="default: %(default)s")
    return parser


def main(arguments: list[str] | None = None, program: str = "verify") -> int:
    """Verify as the command line says; 0 when the directory may be served, 1 when not."""
    options = command_line(program).parse_args(arguments)
    started = time.monotonic()
    found = problems(options.directory, full=options.full, repository=options.repository, revision=options.revision)
    if found:
        for problem in found:
            print(f"verify: {problem}", file=sys.stderr)
        write_termination_message(
            [f"verify: {options.directory}: {problem}" for problem in found], options.termination_log
        )
        return 1
    manifest = read_manifest(options.directory)
    print(
        f"verified {len(manifest.files)} files, {manifest.total_bytes:,} bytes of {manifest.repository} at "
        f"{manifest.commit} ({'full' if options.full else 'quick'}) in {time.monotonic() - started:.1f} s"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
