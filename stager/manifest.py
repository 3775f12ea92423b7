"""Writes the completion manifest: the last act of staging, and the mark without which nothing is served.

`stager.verify` reads it. Each file is looked at once more under its final name, so that what the manifest says is
what the volume holds.
"""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Sequence
from pathlib import Path

from stager.listing import Listing
from stager.part import Part
from stager.verify import MANIFEST_VERSION, manifest_path
from stager.volume import replace_file


def write_manifest(directory: Path, listing: Listing, parts: Sequence[Part], sources: Sequence[str]) -> None:
    """Record the finished `parts` of `listing`, and which `sources` their bytes came from."""
    files = [
        {
            "path": part.file.path,
            "size": part.file.size,
            "sha256": part.sha256,
            "mtime_ns": part.path.lstat().st_mtime_ns,
        }
        for part in sorted(parts, key=lambda part: part.file.path)
    ]
    manifest = {
        "version": MANIFEST_VERSION,
        "repository": listing.repository,
        "revision": listing.revision,
        "commit": listing.commit,
        "files": files,
        "total_bytes": listing.total_bytes,
        "source": ", ".join(sources) or "already on the volume",
        "completed_at": _volume_time(directory).isoformat(timespec="microseconds"),
    }
    replace_file(manifest_path(directory), json.dumps(manifest, indent=1, ensure_ascii=False) + "\n")


def withdraw_manifest(directory: Path) -> None:
    """Remove the manifest, so that no server starts on what is about to change."""
    manifest_path(directory).unlink(missing_ok=True)


def _volume_time(directory: Path) -> datetime.datetime:
    """Now, by the clock that stamps the volume's files, which may be a file server's and not ours."""
    probe = manifest_path(directory).with_name("clock")
    probe.touch()
    os.utime(probe)
    stamp = probe.stat().st_ctime_ns
    probe.unlink()
    return datetime.datetime.fromtimestamp(stamp // 1_000_000_000, datetime.UTC) + datetime.timedelta(
        microseconds=stamp % 1_000_000_000 // 1000
    )
