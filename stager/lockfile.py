"""The weights lock: the files of one repository at one commit with their sizes and SHA-256, committed beside a stack.

A stack that names a lock stages exactly its files, and a pull request that changes the model shows each file.
Refuses an invalid lock, and reports all of its problems at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stager.errors import StagerError
from stager.listing import FULL_COMMIT, MOST_BYTES, REPOSITORY, SHA256, Listing, RemoteFile, is_safe, listing_problems
from stager.manifest import Manifest

LOCK_VERSION = 1
MOST_SHOWN = 8  # problems of one lock
MOST_TEXT = 200  # characters of an entry that is wrong


def render_lock(listing: Listing) -> str:
    """The text of a lock file, sorted by path; every file must have its SHA-256."""
    files = [
        {"path": file.path, "size": file.size, "sha256": file.sha256}
        for file in sorted(listing.files, key=lambda file: file.path)
    ]
    lock = {
        "version": LOCK_VERSION,
        "repository": listing.repository,
        "revision": listing.revision,
        "commit": listing.commit,
        "files": files,
        "total_bytes": listing.total_bytes,
    }
    return json.dumps(lock, indent=2, ensure_ascii=False) + "\n"


def read_lock(path: Path) -> Listing:
    """The listing in the lock file at `path`; raises `StagerError` with all of its problems."""
    return parse_lock(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of the lock file at `path`; raises `StagerError` if the read fails."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise StagerError(f"lock {path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StagerError(f"lock {path}: is not a text in UTF-8; expected a weights lock") from None


def parse_lock(text: str, name: str) -> Listing:
    """The listing in the text of a lock; messages call the text `name`."""
    try:
        lock = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StagerError(f"lock {name}: not valid JSON: {error}") from None
    wrong = list(_problems(lock))
    if len(wrong) > MOST_SHOWN:
        wrong[MOST_SHOWN:] = [f"and {len(wrong) - MOST_SHOWN} more"]
    if wrong:
        raise StagerError(f"lock {name}: " + "; ".join(wrong))
    files = tuple(RemoteFile(entry["path"], entry["size"], entry["sha256"]) for entry in lock["files"])
    return Listing(lock["repository"], lock["revision"], lock["commit"], files)


def listing_of(manifest: Manifest) -> Listing:
    """The staged files as a listing, to make a lock of the same weights."""
    files = tuple(RemoteFile(file.path, file.size, file.sha256) for file in manifest.files)
    return Listing(manifest.repository, manifest.revision, manifest.commit, files)


def _problems(lock: Any) -> Iterator[str]:
    if not isinstance(lock, dict) or lock.get("version") != LOCK_VERSION:
        yield f"expected an object of version {LOCK_VERSION}, as `python -m stager lock` writes it"
        return
    for key in ("repository", "revision", "commit"):
        if not isinstance(lock.get(key), str) or not lock[key]:
            yield f"{key} is {lock.get(key)!r}, expected a text"
    if isinstance(lock.get("repository"), str) and not REPOSITORY.fullmatch(lock["repository"]):
        yield f"repository is {lock['repository']!r}, expected owner/name"
    if isinstance(lock.get("commit"), str) and not FULL_COMMIT.fullmatch(lock["commit"]):
        yield f"commit is {lock['commit']!r}, expected 40 hexadecimal digits"
    files = lock.get("files")
    if not isinstance(files, list) or not files:
        yield "files is missing or empty"
        return
    entry_problems = [problem for entry in files for problem in _entry_problems(entry)]
    yield from entry_problems
    if not entry_problems:
        yield from _sum_problems(lock, files)


def _entry_problems(entry: Any) -> Iterator[str]:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str) or not is_safe(entry["path"]):
        text = repr(entry)
        yield f"file entry {text[:MOST_TEXT]}{'...' if len(text) > MOST_TEXT else ''} has no usable path"
        return
    size, sha256 = entry.get("size"), entry.get("sha256")
    if type(size) is not int or not 0 <= size <= MOST_BYTES:
        yield f"{entry['path']}: size is {size!r}, expected bytes"
    if not isinstance(sha256, str) or not SHA256.fullmatch(sha256):
        yield f"{entry['path']}: sha256 is {sha256!r}, expected 64 hexadecimal digits"


def _sum_problems(lock: dict[str, Any], files: list[dict[str, Any]]) -> Iterator[str]:
    yield from listing_problems(RemoteFile(entry["path"], entry["size"], entry["sha256"]) for entry in files)
    total = sum(entry["size"] for entry in files)
    if lock.get("total_bytes") != total:
        yield f"total_bytes is {lock.get('total_bytes')!r}, but the files sum to {total}"
