"""The completion manifest: what a staged directory holds, as the stager recorded it after the last byte.

`stager.completion` writes it. Standard library only: the server's init container reads it.
"""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stager.nofollow import cause, open_below, opened

MANIFEST_VERSION = 2
FIRST_MANIFEST_VERSION = 1
"""Without inode and change time of its files, which are all hashed."""
OWN_DIRECTORY = ".heavylift"
MANIFEST = f"{OWN_DIRECTORY}/manifest.json"


class Unverified(Exception):
    """The manifest itself cannot be used; the text says why and what to do."""


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
        with opened(directory) as root, os.fdopen(open_below(root, MANIFEST), "rb") as file:
            record = json.loads(file.read())
    except FileNotFoundError:
        raise Unverified(f"{path}: no manifest, so nothing here was verified; stage the weights first") from None
    except OSError as error:
        raise Unverified(f"{path}: cannot be read: {cause(error)}") from None
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
