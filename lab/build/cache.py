"""Pieces that take time to make, made once and kept outside the checkout.

A piece lives in `<cache>/<name>-<key>`, where the key is the hash of everything it is made from, so that a changed pin
makes a new piece and an old checkout still finds its own. Two labs that need the same piece build it once.
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
    """`$XDG_CACHE_HOME/heavylift`, by default `~/.cache/heavylift`."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "heavylift"


def key_of(inputs: Iterable[Path | str]) -> str:
    """The first 12 hex digits of the SHA-256 over the inputs: the content of files, the text of strings."""
    digest = hashlib.sha256()
    for item in inputs:
        content = item.read_bytes() if isinstance(item, Path) else item.encode()
        digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:12]


class Progress:
    """Says how a piece comes along: a line rewritten in place on a terminal, a line now and then in a log."""

    def __init__(self, title: str, expectation: str) -> None:
        self.title = title
        self._expectation = expectation
        self._terminal = sys.stderr.isatty()
        self._start = time.monotonic()
        self._said = 0.0
        self.say("")

    def say(self, detail: str, *, last: bool = False) -> None:
        """Reports `detail` if it is time to, or always when it is the `last` word."""
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
    """Something the lab needs and can make: its name, what it is made from, how, and how long that took elsewhere."""

    name: str
    inputs: tuple[Path | str, ...]
    build: Build
    expectation: str

    @property
    def path(self) -> Path:
        """Where the finished piece is or will be."""
        return cache_directory() / f"{self.name}-{key_of(self.inputs)}"


@contextmanager
def lock(path: Path, mode: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Holds the file at `path` against every other process of this user; `mode` is as for `flock`.

    Who holds it alone may remove it: those that waited for it then hold the next one. Raises BlockingIOError where
    `mode` has LOCK_NB and another process holds it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with path.open("w") as handle:
            fcntl.flock(handle, mode)
            if _lies_at(handle, path):
                yield
                return


def _lies_at(handle: IO[str], path: Path) -> bool:
    """Whether an open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(handle.fileno()), path.stat())
    except FileNotFoundError:
        return False


def ensure(piece: Piece) -> Path:
    """Returns the piece's directory, making it first where it is not there yet.

    It is made beside its place and moved there when complete, so that an interrupted build leaves nothing that could
    be taken for a finished one.
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
