"""Which files a repository has at one commit, and which of them a stack wants.

Refuses patterns that match nothing, sets of shards that are not whole (an engine fails on them only after a long
load) and paths that would leave the staged directory.
"""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from stager.errors import StagerError
from stager.verify import OWN_DIRECTORY

FULL_COMMIT = re.compile(r"[0-9a-f]{40}")
REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[A-Za-z0-9_][\w.-]*", re.ASCII)
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d+)-of-(?P<count>\d+)(?P<suffix>\.[^/]+)")
PART_SUFFIX = ".part"


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository: its path, its size in bytes and what its bytes must hash to.

    `sha256` is known for files in large-file storage and for all files of a lock; for the others there is `blob_id`,
    the SHA-1 under which git stores the file.
    """

    path: str
    size: int
    sha256: str | None = None
    blob_id: str | None = None

    @property
    def expected_hash(self) -> str:
        """The hash that decides, with its kind, for messages and checkpoints."""
        return f"SHA-256 {self.sha256}" if self.sha256 else f"git blob {self.blob_id}"


@dataclass(frozen=True)
class Listing:
    """The files to stage, largest first, of `repository` at `commit`; `revision` is what the stack calls it."""

    repository: str
    revision: str
    commit: str
    files: tuple[RemoteFile, ...]

    @property
    def total_bytes(self) -> int:
        """What the files take on the volume, in bytes."""
        return sum(file.size for file in self.files)


def select(listing: Listing, include: Sequence[str]) -> Listing:
    """The files of `listing` that match any of the `include` patterns (all, when there are none).

    Raises `StagerError` for a useless pattern or a set of shards with gaps.
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
    _refuse_unsafe_paths(chosen)
    _refuse_gaps(chosen, listing)
    ordered = tuple(sorted(chosen, key=lambda file: (-file.size, file.path)))
    return Listing(listing.repository, listing.revision, listing.commit, ordered)


def matches(path: str, pattern: str) -> bool:
    """Whether an include pattern selects a path.

    Patterns are shell patterns over the whole path, as the hub's own tools read them: `*` also matches `/`, and a
    trailing `/` means everything below.
    """
    return fnmatch.fnmatchcase(path, pattern + "*" if pattern.endswith("/") else pattern)


def _refuse_unsafe_paths(files: Iterable[RemoteFile]) -> None:
    unsafe = sorted(file.path for file in files if not is_safe(file.path))
    if unsafe:
        raise StagerError(f"paths that would leave the staged directory or clash with the stager's own: {unsafe}")


def is_safe(path: str) -> bool:
    """Whether `path` stays inside the staged directory and clear of the stager's own files."""
    parts = path.split("/")
    return (
        bool(path)
        and not any(part in ("", ".", "..") for part in parts)
        and PurePosixPath(path).parts[0] != OWN_DIRECTORY
        and not path.endswith(PART_SUFFIX)
        and path.isprintable()
    )


def _refuse_gaps(chosen: Iterable[RemoteFile], listing: Listing) -> None:
    gaps = list(_gaps(chosen, {file.path for file in listing.files}))
    if gaps:
        raise StagerError(f"{listing.repository} at {listing.commit}: " + "; ".join(gaps))


def _gaps(chosen: Iterable[RemoteFile], available: set[str]) -> Iterable[str]:
    """One text for each set of shards of which `chosen` has some but not all."""
    sets: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for file in chosen:
        if match := SHARD.fullmatch(file.path):
            sets[match["stem"], match["count"], match["suffix"]].add(int(match["number"]))
    for (stem, count, suffix), numbers in sorted(sets.items()):
        missing = sorted(set(range(1, int(count) + 1)) - numbers)
        if not missing:
            continue
        name = f"{stem}-*-of-{count}{suffix}"
        present = {int(m["number"]) for path in available if (m := SHARD.fullmatch(path)) and m["stem"] == stem}
        cause = f"include {name}" if set(missing) <= present else "the repository itself lacks them"
        yield f"{name} is a set of {int(count)} shards, missing {_numbers(missing)}: {cause}"


def _numbers(missing: Sequence[int]) -> str:
    shown = ", ".join(map(str, missing[:5]))
    return shown if len(missing) <= 5 else f"{shown} and {len(missing) - 5} more"
