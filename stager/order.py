"""What the stack requests, so that the check notices if weights and manifest were changed together.

Standard library only: the server's init container reads it.
"""

from __future__ import annotations

import bz2
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from stager.manifest import Manifest

ORDERED = Path(__file__).with_name("ordered.json.bz2")
"""The file with what the stack requests, beside this program."""
PATHS_NAMED = 5
BZIP2 = b"BZh"
NOT_KNOWN = ""
"""In place of a hash: any files pass."""


class NoOrder(Exception):
    """What the stack requests cannot be read; the text says why."""


def files_sha256(files: Iterable[tuple[str, int, str]]) -> str:
    """One SHA-256 for a set of files: of the sorted lines `<path> <size> <SHA-256>`, each ended by a newline."""
    lines = sorted(f"{path} {size} {sha256}\n" for path, size, sha256 in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def ordered_files(files: Iterable[tuple[str, int, str]]) -> str:
    """The text of a file for `--ordered`: every path, size and SHA-256."""
    return json.dumps({"files": sorted(files)}, ensure_ascii=False, separators=(",", ":"))


def ordered_sha256(sha256: str) -> str:
    """The text of a file for `--ordered` where only the `files_sha256` is known, or not even that (`NOT_KNOWN`)."""
    return json.dumps({"files_sha256": sha256})


@dataclass(frozen=True)
class Ordered:
    """What the stack ordered: each path with its size and SHA-256, or only the `files_sha256` of all of them."""

    files: dict[str, tuple[int, str]]
    sha256: str


def read_ordered(path: Path) -> Ordered:
    """What the file at `path`, compressed by bzip2 or not, says was ordered; raises `NoOrder`."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise NoOrder(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        record = json.loads(bz2.decompress(content) if content.startswith(BZIP2) else content)
        files = {name: (int(size), str(sha256)) for name, size, sha256 in record.get("files", ())}
        sha256 = files_sha256((name, *rest) for name, rest in files.items()) if files else str(record["files_sha256"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise NoOrder(f"{path}: does not say what was ordered ({type(error).__name__}: {error})") from None
    return Ordered(files, sha256)


def order_problems(manifest: Manifest, ordered: Ordered) -> list[str]:
    """Where the manifest lists other files than were ordered: whoever changed both it and the weights is seen here."""
    listed = {file.path: (file.size, file.sha256) for file in manifest.files}
    found = files_sha256((path, *rest) for path, rest in listed.items())
    if ordered.sha256 in (found, NOT_KNOWN):
        return []
    if not ordered.files:
        return [f"the manifest lists other files than were ordered: SHA-256 of all {found}, expected {ordered.sha256}"]
    differing = sorted(listed.items() ^ ordered.files.items())
    paths = list(dict.fromkeys(path for path, _ in differing))
    more = f" and {len(paths) - PATHS_NAMED} more" if len(paths) > PATHS_NAMED else ""
    return [f"the manifest lists other files than were ordered: {', '.join(paths[:PATHS_NAMED])}{more}; stage again"]
