"""Checks a staged directory of weights against its completion manifest; exit status 0 means: serve it.

This one file, standard library only, runs alone in the server's init container (`python verify.py DIR`).
It refuses a directory without manifest, of another repository or revision, with other files than the stack ordered,
with a file missing or changed, and everything that is not in the manifest: files, folders, links and devices. It
follows no link, and prints every problem at once.

Quick (the default) hashes files up to 16 MiB and compares the others by size, inode, modification and change time
with what the stager recorded; no clock is asked. A larger file for which any of them differs (a copy, a restore, a
recursive chown) is hashed instead of refused. What quick cannot see: bytes that changed below the file system, as on
a failing disk. `--full` hashes all, from the disk and not from memory.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import errno
import gzip
import hashlib
import json
import os
import re
import signal
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

MANIFEST_VERSION = 2
FIRST_MANIFEST_VERSION = 1
"""Without inode and change time of its files, which are all hashed."""
OWN_DIRECTORY = ".heavylift"
MANIFEST = f"{OWN_DIRECTORY}/manifest.json"
ALWAYS_HASHED_BYTES = 16 * 1024 * 1024
READ_BYTES = 1024 * 1024
ORDERED = Path(__file__).with_name("ordered.json.gz")
"""What the stack ordered, where it travels beside this program."""
PATHS_NAMED = 5
TERMINATION_LOG = Path("/dev/termination-log")
TERMINATION_LOG_BYTES = 4096  # https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# What a client of a network file system calls a file that was removed while somebody had it open.
HELD_OPEN = re.compile(r"\.nfs[0-9a-f]+")


class Unverified(Exception):
    """The manifest itself cannot be used; the text says why and what to do."""


class NoOrder(Exception):
    """What the stack ordered cannot be read; the text says why."""


class LinkInTheWay(OSError):
    """A component of a path is a symbolic link; `link` is the path up to it."""

    def __init__(self, link: str) -> None:
        super().__init__(errno.ELOOP, os.strerror(errno.ELOOP), link)
        self.link = link


@dataclass(frozen=True)
class Expected:
    """One file as the manifest records it, the last three as `stat` gave them when it had this hash.

    Manifests of version 1 have neither `ctime_ns` nor `inode`.
    """

    path: str
    size: int
    sha256: str
    mtime_ns: int
    ctime_ns: int | None = None
    inode: int | None = None

    def is_untouched(self, status: os.stat_result) -> bool:
        """Whether the file with this `status` is the one that was recorded; a program cannot set a change time."""
        recorded = (self.size, self.mtime_ns, self.ctime_ns, self.inode)
        return recorded == (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


@dataclass(frozen=True)
class Manifest:
    """The completion manifest; `completed_ns` is `completed_at` in nanoseconds since the epoch."""

    version: int
    repository: str
    revision: str
    commit: str
    files: tuple[Expected, ...]
    total_bytes: int
    completed_ns: int


def manifest_path(directory: Path) -> Path:
    """Where the completion manifest of a staged directory lies."""
    return directory / MANIFEST


def read_manifest(directory: Path) -> Manifest:
    """The manifest of `directory`; raises `Unverified` when there is none or it is not one of ours."""
    path = manifest_path(directory)
    try:
        with _opened(directory) as root, os.fdopen(open_below(root, MANIFEST), "rb") as file:
            record = json.loads(file.read())
    except FileNotFoundError:
        raise Unverified(f"{path}: no manifest, so nothing here was verified; stage the weights first") from None
    except OSError as error:
        raise Unverified(f"{path}: cannot be read: {_cause(error)}") from None
    except (ValueError, RecursionError):
        raise Unverified(f"{path}: not valid JSON; delete it and stage the weights again") from None
    try:
        return _parse_manifest(record)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise Unverified(f"{path}: not a manifest of version {MANIFEST_VERSION} ({error}); stage again") from None


def _parse_manifest(record: dict[str, Any]) -> Manifest:
    if record["version"] not in (FIRST_MANIFEST_VERSION, MANIFEST_VERSION):
        raise ValueError(f"version is {record['version']!r}")
    files = tuple(_parse_file(entry, record["version"]) for entry in record["files"])
    total_bytes = int(record["total_bytes"])
    if not files or total_bytes != sum(file.size for file in files):
        raise ValueError("total_bytes is not the sum of the files' sizes")
    completed = datetime.datetime.fromisoformat(record["completed_at"])
    if completed.tzinfo is None:
        raise ValueError("completed_at has no time zone")
    since_epoch = completed - datetime.datetime.fromtimestamp(0, datetime.UTC)
    return Manifest(
        version=record["version"],
        repository=record["repository"],
        revision=record["revision"],
        commit=record["commit"],
        files=files,
        total_bytes=total_bytes,
        completed_ns=since_epoch // datetime.timedelta(microseconds=1) * 1000,
    )


def _parse_file(entry: dict[str, Any], version: int) -> Expected:
    path, size, sha256 = entry["path"], entry["size"], entry["sha256"]
    parts = path.split("/")
    if {"", ".", ".."} & set(parts) or parts[0] == OWN_DIRECTORY or not path.isprintable():
        raise ValueError(f"path {path!r} leaves the directory")
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"size of {path} is {size!r}")
    if not isinstance(sha256, str) or len(sha256) != 64:
        raise ValueError(f"sha256 of {path} is {sha256!r}")
    times = {} if version == FIRST_MANIFEST_VERSION else {key: int(entry[key]) for key in ("ctime_ns", "inode")}
    return Expected(path, size, sha256, int(entry["mtime_ns"]), **times)


def files_sha256(files: Iterable[tuple[str, int, str]]) -> str:
    """One SHA-256 for a set of files: of the sorted lines `<path> <size> <SHA-256>`, each ended by a newline."""
    lines = sorted(f"{path} {size} {sha256}\n" for path, size, sha256 in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def ordered_files(files: Iterable[tuple[str, int, str]]) -> str:
    """The text of a file for `--ordered`: every path, size and SHA-256."""
    return json.dumps({"files": sorted(files)}, ensure_ascii=False, separators=(",", ":"))


def ordered_sha256(sha256: str) -> str:
    """The text of a file for `--ordered` where only the `files_sha256` is known."""
    return json.dumps({"files_sha256": sha256})


@dataclass(frozen=True)
class Ordered:
    """What the stack ordered: each path with its size and SHA-256, or only the `files_sha256` of all of them."""

    files: dict[str, tuple[int, str]]
    sha256: str


def read_ordered(path: Path) -> Ordered:
    """What the file at `path`, compressed by gzip or not, says was ordered; raises `NoOrder`."""
    try:
        content = path.read_bytes()
        record = json.loads(gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content)
        files = {name: (int(size), str(sha256)) for name, size, sha256 in record.get("files", ())}
        sha256 = files_sha256((name, *rest) for name, rest in files.items()) if files else record["files_sha256"]
    except OSError as error:
        raise NoOrder(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoOrder(f"{path}: does not say what was ordered ({type(error).__name__}: {error})") from None
    return Ordered(files, sha256)


def order_problems(manifest: Manifest, ordered: Ordered) -> list[str]:
    """Where the manifest lists other files than were ordered: whoever changed both it and the weights is seen here."""
    listed = {file.path: (file.size, file.sha256) for file in manifest.files}
    found = files_sha256((path, *rest) for path, rest in listed.items())
    if found == ordered.sha256:
        return []
    if not ordered.files:
        return [f"the manifest lists other files than were ordered: SHA-256 of all {found}, expected {ordered.sha256}"]
    differing = sorted(listed.items() ^ ordered.files.items())
    paths = list(dict.fromkeys(path for path, _ in differing))
    more = f" and {len(paths) - PATHS_NAMED} more" if len(paths) > PATHS_NAMED else ""
    return [f"the manifest lists other files than were ordered: {', '.join(paths[:PATHS_NAMED])}{more}; stage again"]


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
        with _opened(directory) as root:
            return found + tree_problems(root, manifest.files, full=full)
    except OSError as error:
        return [*found, f"{directory}: cannot be read: {_cause(error)}"]


def identity_problems(directory: Path, manifest: Manifest, repository: str | None, revision: str | None) -> list[str]:
    """Where the manifest is of another repository or revision than these, where they are given."""
    return [
        f"{manifest_path(directory)}: {key} is {actual!r}, expected {expected!r}"
        for key, expected, actual in (
            ("repository", repository, manifest.repository),
            ("revision", revision, manifest.revision),
        )
        if expected is not None and expected != actual
    ]


def ignore(_: int) -> None:
    """Nobody watches."""


def tree_problems(
    root: int, files: Iterable[Expected], *, full: bool = False, watch: Callable[[int], None] = ignore
) -> list[str]:
    """How what lies in the directory open as `root` differs from `files`; also all that is not among them.

    `watch` is called with the number of bytes that were hashed since its last call.
    """
    files = list(files)
    found = [f"{name}: not in the manifest; remove it" for name in foreign_entries(root, {file.path for file in files})]
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        verdicts = pool.map(lambda file: _file_problem(root, file, full, watch), files)
        return found + [verdict for verdict in verdicts if verdict]


def foreign_entries(root: int, known: Iterable[str]) -> list[str]:
    """All in the directory open as `root` but the files `known` and the folders they need; an engine might load it.

    A name that a network file system gave to a removed file is let be: it goes with its last user. Raises `OSError`
    for a folder that cannot be looked into.
    """
    files = set(known)
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents}
    return sorted(_foreign(root, "", files, folders))


def _foreign(folder: int, prefix: str, files: set[str], folders: set[str]) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = prefix + entry.name
            if path in folders and entry.is_dir(follow_symlinks=False):
                with folder_below(folder, entry.name) as deeper:
                    yield from _foreign(deeper, f"{path}/", files, folders)
            elif path in files or path in folders or path == OWN_DIRECTORY:
                continue  # what should lie there is looked at by itself
            elif not (HELD_OPEN.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)):
                yield path


def _file_problem(root: int, file: Expected, full: bool, watch: Callable[[int], None]) -> str | None:
    try:
        with os.fdopen(open_below(root, file.path), "rb", buffering=0) as content:
            status = os.fstat(content.fileno())
            if status.st_size != file.size:
                return f"{file.path}: {status.st_size} bytes, expected {file.size}"
            from_disk = full or not file.is_untouched(status)
            if from_disk:
                read_from_disk(content.fileno())
            if from_disk or file.size <= ALWAYS_HASHED_BYTES:
                return _hash_problem(content.fileno(), file, watch)
    except FileNotFoundError:
        return f"{file.path}: missing"
    except LinkInTheWay as error:
        return f"{file.path}: {error.link} is a symbolic link, expected real files"
    except OSError as error:
        return f"{file.path}: cannot be read: {_cause(error)}"
    return None


def _hash_problem(descriptor: int, file: Expected, watch: Callable[[int], None]) -> str | None:
    content = hashlib.sha256()
    while chunk := os.read(descriptor, READ_BYTES):
        content.update(chunk)
        watch(len(chunk))
    if content.hexdigest() == file.sha256:
        return None
    return f"{file.path}: SHA-256 is {content.hexdigest()}, expected {file.sha256}"


def read_from_disk(descriptor: int) -> None:
    """Make what is read next from `descriptor` come from the disk, and not from what memory holds of it.

    After a write that failed, memory may still hold bytes that the disk never got, marked as if it had
    (https://wiki.postgresql.org/wiki/Fsync_Errors). Raises `OSError` when something cannot be written.
    """
    with contextlib.suppress(PermissionError):
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EINVAL):
                raise
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def open_below(root: int, path: str, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the regular file at `path` below the folder open as `root`, by way of no link.

    Raises `LinkInTheWay`, and `OSError` for what is no regular file; does not wait for the other end of a pipe.
    """
    folders, _, name = path.rpartition("/")
    with folder_below(root, folders) as folder:
        try:
            descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise LinkInTheWay(path) from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(errno.EISDIR, "not a regular file", path)
        return descriptor


@contextlib.contextmanager
def folder_below(root: int, path: str) -> Iterator[int]:
    """The folder at `path` ("" for itself) below the one open as `root`, by way of no link; closed at the end."""
    folder = os.dup(root)
    try:
        way = ""
        for name in path.split("/") if path else ():
            way = f"{way}/{name}" if way else name
            deeper = _open_folder(folder, name, way)
            os.close(folder)
            folder = deeper
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    root = _open_folder(None, str(directory), str(directory))
    try:
        yield root
    finally:
        os.close(root)


def _open_folder(folder: int | None, name: str, way: str) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise LinkInTheWay(way) from None
        raise


def _cause(error: OSError) -> str:
    if isinstance(error, LinkInTheWay):
        return f"{error.link} is a symbolic link"
    return error.strerror or str(error)


def write_termination_message(lines: list[str], path: Path) -> None:
    """Leave the reason of a failure where Kubernetes looks for it; outside of a pod there is no such file."""
    if not path.exists():
        return
    message = "\n".join(lines).encode(errors="backslashreplace")[:TERMINATION_LOG_BYTES]
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
    parser.add_argument(
        "--ordered",
        type=Path,
        metavar="FILE",
        help=f"refuse other files than this says; default: {ORDERED.name} beside this program, if it is there",
    )
    parser.add_argument("--termination-log", type=Path, default=TERMINATION_LOG, help="default: %(default)s")
    return parser


def main(arguments: list[str] | None = None, program: str = "verify") -> int:
    """Verify as the command line says; 0 when the directory may be served, 1 when not."""
    options = command_line(program).parse_args(arguments)
    # As a container's first process it would not hear this signal otherwise, and would be killed after 30 s.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(128 + signal.SIGTERM))
    started = time.monotonic()
    found = _found(options)
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
        f"{manifest.commit} ({'full' if options.full else 'quick'}{', as ordered' if options.ordered else ''}) in "
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
