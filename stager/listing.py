"""Which files a repository has at one commit, and which of them a stack selects.

Refuses patterns that match nothing, incomplete sets of shards (an engine fails on them only after a long load), and
paths that leave the staged directory.
"""

from __future__ import annotations

import fnmatch
import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from stager.errors import StagerError
from stager.manifest import OWN_DIRECTORY

FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{1,9})-of-(?P<count>\d{1,9})(?P<suffix>\.[^/]+)", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}")
BLOB_ID = re.compile(r"[0-9a-f]{40}")
# Of nothing: `sha256sum /dev/null` and `git hash-object /dev/null`.
EMPTY_HASHES = frozenset(
    {
        "SHA-256 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "git blob e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    }
)
MOST_BYTES = 2**63 - 1  # of a file, https://www.man7.org/linux/man-pages/man2/lseek.2.html
MOST_NAME_BYTES = 255  # https://www.man7.org/linux/man-pages/man3/pathconf.3.html, on every Linux file system
PROBLEMS_NAMED = 8
NUMBERS_NAMED = 5
OLD_PART_SUFFIX = ".part"
"""The suffix that earlier stagers gave incomplete files."""


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository: its path, its size in bytes, and its expected hash.

    `sha256` is known for files in large-file storage and for all files of a lock. The others have `blob_id`, the SHA-1
    under which git stores the file.
    """

    path: str
    size: int
    sha256: str | None = None
    blob_id: str | None = None

    @property
    def expected_hash(self) -> str:
        """The decisive hash with its kind, for messages and checkpoints."""
        return f"SHA-256 {self.sha256}" if self.sha256 else f"git blob {self.blob_id}"


@dataclass(frozen=True)
class Listing:
    """The files to stage, largest first, of `repository` at `commit`; `revision` is the stack's name for it."""

    repository: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def total_bytes(self) -> int:
        """The size of all files, in bytes."""
        return sum(file.size for file in self.files)


def select(listing: Listing, include: Sequence[str]) -> Listing:
    """The files of `listing` that match any of the `include` patterns. No patterns: all.

    Raises `StagerError` for a pattern without a match or a set of shards with gaps.
    """
    selected = {pattern: [file for file in listing.files if matches(file.path, pattern)] for pattern in include}
    useless = [pattern for pattern, matching in selected.items() if not matching]
    if useless:
        names = ", ".join(sorted(file.path for file in listing.files)[:8])
        raise StagerError(
            f"include: no file of {listing.repository} at {listing.commit} matches {', '.join(useless)}; "
            f"it has {len(listing.files)} files: {names}{', …' if len(listing.files) > 8 else ''}"
        )
    chosen = {file for matching in selected.values() for file in matching} if include else set(listing.files)
    if not chosen:
        raise StagerError(f"{listing.repository} has no files at {listing.commit}")
    if wrong := listing_problems(chosen):
        more = f" and {len(wrong) - PROBLEMS_NAMED} more" if len(wrong) > PROBLEMS_NAMED else ""
        raise StagerError(f"{listing.repository} at {listing.commit}: {'; '.join(wrong[:PROBLEMS_NAMED])}{more}")
    _refuse_gaps(chosen, listing)
    ordered = tuple(sorted(chosen, key=lambda file: (-file.size, file.path)))
    return Listing(listing.repository, listing.revision, listing.commit, ordered)


def matches(path: str, pattern: str) -> bool:
    """Whether an include pattern selects a path.

    Patterns are shell patterns over the whole path, as the hub's own tools read them: `*` also matches `/`, and a
    trailing `/` means everything below.
    """
    return fnmatch.fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def listing_problems(files: Iterable[RemoteFile]) -> list[str]:
    """The reasons why `files` cannot be staged, sorted."""
    files = list(files)
    paths = Counter(file.path for file in files)
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    found = [f"{path}: is listed {count} times" for path, count in paths.items() if count > 1]
    found += [f"{path}: is listed as a file and as a folder" for path in paths if path in folders]
    found += [problem for file in files if (problem := _file_problem(file))]
    return sorted(found)


def _file_problem(file: RemoteFile) -> str | None:
    if not is_safe(file.path):
        return f"{file.path!r}: would leave the staged directory, clash with the stager's own files, or is no file name"
    if type(file.size) is not int or not 0 <= file.size <= MOST_BYTES:
        return f"{file.path}: size is {file.size!r}, expected bytes; a lock knows them (python -m stager lock)"
    if not SHA256.fullmatch(str(file.sha256)) and (file.sha256 or not BLOB_ID.fullmatch(str(file.blob_id))):
        return f"{file.path}: has no usable hash (SHA-256 {file.sha256!r}, git blob {file.blob_id!r})"
    if not file.size and file.expected_hash not in EMPTY_HASHES:
        return f"{file.path}: is listed with 0 bytes, but its hash ({file.expected_hash}) is not that of nothing"
    return None


def is_safe(path: str) -> bool:
    """Whether `path` stays inside the staged directory and outside the stager's own folder."""
    parts = path.split("/")
    return (
        not any(part in ("", ".", "..") for part in parts)
        and parts[0] != OWN_DIRECTORY
        and not path.endswith(OLD_PART_SUFFIX)
        and path.isprintable()
        and all(len(part.encode()) <= MOST_NAME_BYTES for part in parts)
    )


def _refuse_gaps(chosen: Iterable[RemoteFile], listing: Listing) -> None:
    gaps = list(_gaps(chosen, {file.path for file in listing.files}))
    if gaps:
        raise StagerError(f"{listing.repository} at {listing.commit}: " + "; ".join(gaps))


def _gaps(chosen: Iterable[RemoteFile], available: set[str]) -> Iterable[str]:
    """One text for each set of shards of which `chosen` lacks some."""
    sets: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for file in chosen:
        if match := SHARD.fullmatch(file.path):
            sets[match["stem"], match["count"], match["suffix"]].add(int(match["number"]))
    for (stem, digits, suffix), numbers in sorted(sets.items()):
        count = int(digits)
        missing = count - sum(1 <= number <= count for number in numbers)
        if not missing:
            continue
        name = f"{stem}-*-of-{digits}{suffix}"
        present = {int(m["number"]) for path in available if (m := SHARD.fullmatch(path)) and m["stem"] == stem}
        all_there = sum(1 <= number <= count for number in numbers | present) == count
        cause = f"include {name}" if all_there else "the repository itself lacks them"
        first = itertools.islice((number for number in range(1, count + 1) if number not in numbers), NUMBERS_NAMED)
        yield f"{name} is a set of {count} shards, missing {_numbers(list(first), missing)}: {cause}"


def _numbers(first: Sequence[int], count: int) -> str:
    shown = ", ".join(map(str, first))
    return shown if count == len(first) else f"{shown} and {count - len(first)} more"
