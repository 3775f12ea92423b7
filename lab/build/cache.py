"""Builds pieces of the lab once, and keeps them outside the checkout.

A piece is stored in `<cache>/<name>-<key>`. The key is the hash of the piece's inputs: a changed pin makes a new piece,
and an older checkout still finds its own. Two labs that need the same piece build it once.
"""

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

TERMINAL_INTERVAL_SECONDS = 1.0
LOG_INTERVAL_SECONDS = 20.0


def cache_directory() -> Path:
    """Returns `$XDG_CACHE_HOME/heavylift`, by default `~/.cache/heavylift`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "heavylift"


def key_of(inputs: Iterable[Path | str]) -> str:
    """Returns the first 12 hex digits of the SHA-256 over the content of files and the text of strings."""
    digest = hashlib.sha256()
    for item in inputs:
        content = item.read_bytes() if isinstance(item, Path) else item.encode()
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


class Progress:
    """Reports the progress of a build: rewrites one line on a terminal, or writes a line every 20 s to a log."""

    def __init__(self, title: str, expectation: str) -> None:
        self.title = title
        self._expectation = expectation
        self._terminal = sys.stderr.isatty()
        self._start = time.monotonic()
        self._said = 0.0
        self.say("")

    def say(self, detail: str, *, last: bool = False) -> None:
        """Reports `detail` if the interval has passed, and always if it is the `last` message."""
        now = time.monotonic()
        interval = TERMINAL_INTERVAL_SECONDS if self._terminal else LOG_INTERVAL_SECONDS
        if not last and self._said and now - self._said < interval:
            return
        self._said = now
        elapsed = f"{now - self._start:.0f} s"
        line = f"lab: {self.title}: " + (
            f"{detail} in {elapsed}" if last else f"{elapsed} of {self._expectation} {detail}"
        )
        ending = "\n" if last or not self._terminal else ""
        sys.stderr.write(("\r\x1b[K" if self._terminal else "") + line.rstrip() + ending)
        sys.stderr.flush()


Build = Callable[[Path, Progress], None]


@dataclass(frozen=True)
class Piece:
    """Something that the lab builds: its name, inputs, build function, and expected duration."""

    name: str
    inputs: tuple[Path | str, ...]
    build: Build
    expectation: str

    @property
    def path(self) -> Path:
        """The directory of the finished piece."""
        return cache_directory() / f"{self.name}-{key_of(self.inputs)}"


@contextmanager
def lock(path: Path, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Holds a lock on the file at `path` while the block runs. `mode` is as for `flock`.

    The holder of an exclusive lock may remove the file: waiting processes then lock the new file at `path`. Raises
    BlockingIOError if `mode` has LOCK_NB and another process holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as handle:
            fcntl.flock(handle, mode)
            if _lies_at(handle, path):
                yield
                return


def _lies_at(handle: IO[str], path: Path) -> bool:
    """Returns whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def ensure(piece: Piece) -> Path:
    """Returns the piece's directory, and builds the piece first if the cache lacks it.

    Builds in a temporary directory and renames it when complete, so that an interrupted build never looks like a
    finished one.
    """
    path = piece.path
    if path.is_dir():
        return path
    with lock(path.with_name(path.name + ".lock")):
        if path.is_dir():
            return path
        progress = Progress(piece.name, piece.expectation)
        workspace = Path(tempfile.mkdtemp(prefix=f"{path.name}.", dir=path.parent))
        try:
            piece.build(workspace, progress)
            workspace.chmod(0o755)
            workspace.rename(path)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)
        progress.say("ready", last=True)
    return path
