"""Removes staged directories that no server uses, and keeps the newest.

Only directories that the stager made are looked at: `<mount>/<16 hexadecimal digits>/` with the stager's own folder
in it. What a stack uses is named by it (`--in-use`); a directory that a stager is at work on is left alone.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from stager.errors import StagerError
from stager.lease import Lease
from stager.manifest import withdraw_manifest
from stager.verify import OWN_DIRECTORY, Unverified, manifest_path, read_manifest
from stager.volume import volume_error

DIGEST = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Staged:
    """A directory on the mount; `completed_ns` is 0 where staging never ended."""

    path: Path
    what: str
    completed_ns: int


def prune(
    mount: Path,
    *,
    in_use: Collection[str],
    keep_newest: int,
    dry_run: bool,
    say: Callable[[str], None],
    ending: threading.Event,
) -> list[Path]:
    """Remove all but those `in_use` and the `keep_newest` complete ones; returns what was (or would be) removed."""
    wrong = [digest for digest in in_use if not DIGEST.fullmatch(digest)]
    if wrong:
        raise StagerError(f"--in-use {', '.join(wrong)}: expected the 16 hexadecimal digits of a directory's name")
    staged = staged_directories(mount)
    newest = {entry.path for entry in staged[:keep_newest] if entry.completed_ns}
    removed = []
    for entry in staged:
        if entry.path in newest or entry.path.name in in_use:
            say(f"keeping {entry.path.name}: {entry.what}")
            continue
        say(f"{'would remove' if dry_run else 'removing'} {entry.path.name}: {entry.what}")
        if not dry_run:
            _remove(entry.path, say, ending)
        removed.append(entry.path)
    return removed


def staged_directories(mount: Path) -> list[Staged]:
    """What lies on the mount, newest first and unfinished last."""
    try:
        names = sorted(path for path in mount.iterdir() if DIGEST.fullmatch(path.name))
    except OSError as error:
        raise StagerError(f"{mount}: {error.strerror}; expected the directory under which weights are staged") from None
    ours = [path for path in names if not path.is_symlink() and (path / OWN_DIRECTORY).is_dir()]
    return sorted((_describe(path) for path in ours), key=lambda entry: -entry.completed_ns)


def _describe(path: Path) -> Staged:
    try:
        manifest = read_manifest(path)
    except Unverified:
        damaged = manifest_path(path).exists()
        return Staged(path, "a manifest that cannot be read" if damaged else "never completed", 0)
    what = f"{manifest.repository} at {manifest.revision}, {manifest.total_bytes:,} bytes"
    return Staged(path, what, manifest.completed_ns)


def _remove(path: Path, say: Callable[[str], None], ending: threading.Event) -> None:
    """Remove one directory, manifest first, so that nothing half removed can be served."""
    with Lease(path, say=say, ending=ending):
        try:
            withdraw_manifest(path)
            for child in path.iterdir():
                if child.name != OWN_DIRECTORY:
                    shutil.rmtree(child) if child.is_dir() and not child.is_symlink() else child.unlink()
        except OSError as error:
            raise volume_error(error, path) from None
    shutil.rmtree(path, ignore_errors=True)
