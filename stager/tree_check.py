"""Compares a staged directory with the files that its manifest lists.

Reports a file that is missing or changed, and everything that the manifest does not list: files, folders, links and
devices. Standard library only: the server's init container uses it.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from stager.manifest import OWN_DIRECTORY, Expected
from stager.nofollow import LinkInTheWay, cause, folder_below, open_below, read_from_disk

ALWAYS_HASHED_BYTES = 16 * 1024 * 1024
READ_BYTES = 1024 * 1024
SLASH = re.compile("/")
# What a client of a network file system calls a file that was removed while somebody had it open.
HELD_OPEN = re.compile(r"\.nfs[0-9a-f]+")


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
    folders = {path[: match.start()] for path in files for match in SLASH.finditer(path)}
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
        return f"{file.path}: cannot be read: {cause(error)}"
    return None


def _hash_problem(descriptor: int, file: Expected, watch: Callable[[int], None]) -> str | None:
    content = hashlib.sha256()
    while chunk := os.read(descriptor, READ_BYTES):
        content.update(chunk)
        watch(len(chunk))
    if content.hexdigest() == file.sha256:
        return None
    return f"{file.path}: SHA-256 is {content.hexdigest()}, expected {file.sha256}"
