"""Removes staged directories that no server uses, and keeps the newest.

Looks only at directories that the stager made: `<mount>/<16 hexadecimal digits>/` with the stager's own folder in it.
Without a user it considers all of them, the last completed first. For a user (a stack) it considers those that the
user marked, the newest mark first: it removes the user's mark from the others, and removes a directory that has no
mark left. `--in-use` names what servers use. Prune waits for a directory that a stager works on.
"""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import stat
import threading
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from stager.completion import withdraw_manifest
from stager.digest import DIGEST
from stager.errors import StagerError, WrongUsage
from stager.lease import LEASE_SECONDS, Lease
from stager.manifest import MANIFEST, OWN_DIRECTORY, Unverified, read_manifest
from stager.nofollow import LinkInTheWay
from stager.stopping import unless_stopped
from stager.tree import Tree
from stager.users import marked_ns, unmark, users
from stager.volume import volume_error

# A directory is renamed in one step, and then emptied.
TRASH = re.compile(rf"{DIGEST.pattern}\.removed\.[0-9a-f]{{8}}")


@dataclass(frozen=True)
class Pruning:
    """What to keep: directories `in_use` and the `keep_newest` complete ones, of all or of one `user`'s."""

    mount: Path
    keep_newest: int
    in_use: Collection[str] = ()
    user: str | None = None
    dry_run: bool = False
    lease_seconds: float = LEASE_SECONDS


@dataclass(frozen=True)
class Staged:
    """A directory on the mount. 0 in `completed_ns`: never completed; in `marked_ns`: no user named."""

    path: Path
    what: str
    completed_ns: int
    marked_ns: int = 0

    def __str__(self) -> str:
        marks = ", ".join(_users(self.path))
        return f"{self.path.name}: {self.what}{f', staged for {marks}' if marks else ''}"


def prune(pruning: Pruning, *, say: Callable[[str], None], stop_event: threading.Event) -> list[Path]:
    """Remove all other directories; returns the removed ones (dry run: to be removed). Raises `StagerError`."""
    wrong = [digest for digest in pruning.in_use if not DIGEST.fullmatch(digest)]
    if wrong:
        raise WrongUsage(f"--in-use {', '.join(wrong)}: expected the 16 hexadecimal digits of a directory's name")
    try:
        return list(_removed(pruning, say, stop_event))
    except OSError as error:
        raise volume_error(error, Path(error.filename or pruning.mount)) from None


def _removed(pruning: Pruning, say: Callable[[str], None], stop_event: threading.Event) -> Iterator[Path]:
    """Remove the directories one by one."""
    staged = _candidates(pruning)
    if not staged:
        say(f"{pruning.mount}: no weights are staged here{f' for {pruning.user}' if pruning.user else ''}")
    newest = [entry for entry in staged if entry.completed_ns][: pruning.keep_newest]
    _empty_trash(pruning, say, stop_event)
    for entry in staged:
        if entry in newest or entry.path.name in pruning.in_use:
            say(f"keeping {entry}")
        elif _let_go(entry, pruning, say, stop_event):
            yield entry.path
            _empty_trash(pruning, say, stop_event)


def _staged_directories(mount: Path) -> list[Staged]:
    """The staged directories, newest first and incomplete last."""
    ours = [path for path in _named(mount, DIGEST) if _is_ours(path)]
    return sorted((_describe(path) for path in ours), key=lambda entry: -entry.completed_ns)


def _is_ours(path: Path) -> bool:
    """Whether `path` is a directory with the stager's own folder in it, neither of them a link."""
    with contextlib.suppress(FileNotFoundError):
        own = Tree(path).status(OWN_DIRECTORY) if path.is_dir() and not path.is_symlink() else None
        return own is not None and stat.S_ISDIR(own.st_mode)
    return False


def _candidates(pruning: Pruning) -> list[Staged]:
    """The candidates, in the order in which they are kept."""
    staged = _staged_directories(pruning.mount)
    if pruning.user is None:
        return staged
    marks = ((entry, marked_ns(Tree(entry.path), pruning.user)) for entry in staged)
    marked = [replace(entry, marked_ns=when) for entry, when in marks if when is not None]
    return sorted(marked, key=lambda entry: -entry.marked_ns)


def _named(mount: Path, pattern: re.Pattern[str]) -> list[Path]:
    try:
        return sorted(path for path in mount.iterdir() if pattern.fullmatch(path.name))
    except OSError as error:
        raise StagerError(f"{mount}: {error.strerror}; expected the directory under which weights are staged") from None


def _describe(path: Path) -> Staged:
    """The state of a directory; a disk error ends the run, since it does not prove a directory bad."""
    try:
        Tree(path).read(MANIFEST)
        manifest = read_manifest(path)
    except FileNotFoundError:
        return Staged(path, "never completed", 0)
    except (Unverified, LinkInTheWay):
        return Staged(path, "a manifest that makes no sense", 0)
    what = f"{manifest.repository} at {manifest.revision}, {manifest.total_bytes:,} bytes"
    return Staged(path, what, manifest.completed_ns)


def _let_go(entry: Staged, pruning: Pruning, say: Callable[[str], None], stop_event: threading.Event) -> bool:
    """Remove a directory, or only the user's mark if other users have one. True: removed (dry run: to be removed)."""
    if pruning.dry_run:
        others = _other_users(entry, pruning)
        say(f"would keep {entry}, no longer for {pruning.user}" if others else f"would remove {entry}")
        return not others
    with Lease(entry.path, say=say, stop_event=stop_event, seconds=pruning.lease_seconds) as lease:
        if pruning.user and _is_staged_anew(entry, pruning.user):
            say(f"keeping {entry}, which was staged again meanwhile")
            return False
        if pruning.user and _other_users(entry, pruning):
            unmark(lease.tree, pruning.user)
            say(f"keeping {entry}, no longer for {pruning.user}")
            return False
        say(f"removing {entry}")
        withdraw_manifest(lease.tree)
        lease.move_directory(entry.path.with_name(f"{entry.path.name}.removed.{uuid.uuid4().hex[:8]}"))
    return True


def _other_users(entry: Staged, pruning: Pruning) -> list[str]:
    """The other users of a directory; without `--user`, marks keep nothing."""
    return [user for user in _users(entry.path) if user != pruning.user] if pruning.user else []


def _users(path: Path) -> list[str]:
    try:
        return users(Tree(path))
    except FileNotFoundError:
        return []


def _is_staged_anew(entry: Staged, user: str) -> bool:
    """Whether it was staged during the wait for the lease: after a rollback, servers may use it."""
    tree = Tree(entry.path)
    when = marked_ns(tree, user)
    return tree.status(MANIFEST) is not None if when is None else when != entry.marked_ns


def _empty_trash(pruning: Pruning, say: Callable[[str], None], stop_event: threading.Event) -> None:
    """Empty the trash of this and earlier runs."""
    for trash in [] if pruning.dry_run else _named(pruning.mount, TRASH):
        unless_stopped(stop_event, functools.partial(shutil.rmtree, trash, ignore_errors=True))
        if trash.exists():
            say(f"{trash}: cannot be emptied wholly, the next prune tries again")
