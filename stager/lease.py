"""One writer per directory: a lease on the volume itself, without flock or a cluster, for NFS and Lustre as well.

The holder owns the file `lease.<N>` with the highest number N, taken by an atomic `link()`, and increments a counter
in it every 10 s. A waiter takes `lease.<N+1>` once the counter is unchanged for 60 s of the waiter's monotonic clock,
or at once if the holder released the lease. Numbers only grow, so only one waiter takes over. A holder that was frozen
finds a higher number. A holder writes nothing from 50 s after its last increment until it has checked again.

Limit: a holder whose machine and clock were suspended together may write until its next check, 10 s at most. Files
changed then are newer than the manifest, so the check before serving hashes them.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from stager.errors import StagerError, Stopped, Unanswered
from stager.manifest import OWN_DIRECTORY
from stager.tree import Tree
from stager.volume import make_directory, volume_error

NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
LEASE_SECONDS = 60.0
BUMPS_PER_LEASE = 6
REMINDER_SECONDS = 60.0
RETRY_SECONDS = 0.1
NO_ROOM = "no room even for a lease; remove one file by hand from a directory that no server uses, and run again"
STOPPED = "stopped while waiting for another stager"


@dataclass(frozen=True)
class Claim:
    """The content of a lease file: its holder, its counter, and whether the holder released it."""

    number: int
    holder: str
    counter: int
    released: bool


class Lease:
    """The lease of `directory`, held while the `with` block runs; entering waits until no other stager holds it.

    `say` gets a line when the wait begins, and one each minute. `stop_event` ends the wait with `Stopped`.
    Another stager takes over once the counter is unchanged for `seconds`.
    """

    def __init__(
        self,
        directory: Path,
        *,
        say: Callable[[str], None],
        stop_event: threading.Event,
        seconds: float = LEASE_SECONDS,
    ) -> None:
        self._directory = directory
        self._say = say
        self._stop_event = stop_event
        self._abandoned_seconds = seconds
        self._bump_seconds = seconds / BUMPS_PER_LEASE
        self._holder = f"{socket.gethostname()} process {os.getpid()} {uuid.uuid4().hex[:8]}"
        self._file = f"{OWN_DIRECTORY}/claim.{uuid.uuid4().hex}"
        self._place: Tree | None = None
        self._status: os.stat_result | None = None
        self.number = 0
        """Grows from holder to holder."""
        self.given_back: int | None = None
        """The previous holder's number, if it released the lease. None: it may be frozen and write again."""
        self._left = False
        self._counter = 0
        self._bumped = 0.0
        self._told = ("", 0.0)
        self._done = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="lease", daemon=True)

    def __enter__(self) -> Lease:
        while not self._enter():
            if self._stop_event.wait(RETRY_SECONDS):
                raise Stopped(STOPPED)
        self._heart.start()
        return self

    def _enter(self) -> bool:
        """Become the holder. False: the directory was moved meanwhile, and has to be created again."""
        make_directory(self._directory)
        try:
            self._place = Tree(self._directory)
            self._place.make_folder(OWN_DIRECTORY)
            self._create_claim()
            self._acquire()
        except FileNotFoundError:
            self._forget_claim()
            return False
        except OSError as error:
            self._forget_claim()
            if error.errno == errno.ENOSPC:
                raise StagerError(f"{self._directory / OWN_DIRECTORY}: {NO_ROOM}") from None
            raise volume_error(error, Path(error.filename or self._directory)) from None
        except StagerError:
            self._forget_claim()
            raise
        return True

    @property
    def tree(self) -> Tree:
        """The leased directory, for changes; each change checks the lease right before it."""
        return Tree(self._directory, self.require)

    @property
    def _tree(self) -> Tree:
        if self._place is None:
            raise ValueError("the lease was never entered")
        return self._place

    def _forget_claim(self) -> None:
        with contextlib.suppress(OSError):
            if self._place:
                self._place.unlink(self._file)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def move_directory(self, target: Path) -> None:
        """Rename the directory with its lease; stagers that wait for the old name start again."""
        self._still()
        self.require()
        self._directory.rename(target)
        self._directory = target

    def leave(self) -> None:
        """Never release the lease: a write may still be running, so the next holder has to wait."""
        self._left = True

    def release(self) -> None:
        """Release the lease, so that the next holder need not wait; `require` raises from then on."""
        self._still()
        self._bumped = float("-inf")
        if self._left:
            return
        with contextlib.suppress(OSError):  # if this fails, the lease expires
            self._write(released=True)

    def _still(self) -> None:
        self._done.set()
        if self._heart.ident is not None:
            self._heart.join(timeout=self._bump_seconds)

    @property
    def renewed_at(self) -> float:
        """The last renewal, in seconds of the monotonic clock, which all processes of a machine share."""
        return self._bumped

    def require(self) -> None:
        """Raise `StagerError` unless this process surely holds the lease; cheap: call it before every write."""
        require_renewed(self._directory, self._bumped, self._abandoned_seconds)

    def _acquire(self) -> None:
        waited_for: Claim | None = None
        still_since = time.monotonic()
        while True:
            current = self._current()
            abandoned = time.monotonic() - still_since >= self._abandoned_seconds
            if not self._tree.is_at(self._directory):
                raise FileNotFoundError(errno.ENOENT, "the directory was moved away")
            if current is None or current.released or (current == waited_for and abandoned):
                if self._take((current.number if current else 0) + 1):
                    self.given_back = current.number if current and current.released else None
                    return
                continue
            self._tell(current.holder)
            if current != waited_for:
                waited_for, still_since = current, time.monotonic()
            if self._stop_event.wait(min(1.0, self._bump_seconds / 4)):
                raise Stopped(STOPPED)

    def _tell(self, holder: str) -> None:
        told_of, told_at = self._told
        if holder != told_of or time.monotonic() - told_at >= REMINDER_SECONDS:
            self._say(f"waiting: {holder} is at work in {self._directory}")
            self._told = (holder, time.monotonic())

    def _take(self, number: int) -> bool:
        """Try to become the holder under `number`. False: another stager was faster."""
        target = _lease(number)
        try:
            self._tree.link(self._file, target)
        except FileExistsError:
            # A network file system may have made the link and lost the answer: check the owner.
            if not self._tree.is_same(self._file, target):
                return False
        except OSError as error:
            if error.errno in NO_LINKS:
                raise StagerError(
                    f"{self._directory / target}: the volume has no hard links, which the stager's lease needs"
                ) from None
            raise
        self.number, self._bumped = number, time.monotonic()
        if self._is_superseded() or not self._tree.is_at(self._directory):
            self._tree.unlink(target)
            return False
        self._tree.unlink(self._file)
        self._file = target
        for older in self._numbers():
            if older < number:
                self._tree.unlink(_lease(older))
        return True

    def _beat(self) -> None:
        while not self._done.wait(self._bump_seconds):
            self._bump()

    def _bump(self) -> None:
        try:
            if self._is_superseded():
                self._bumped = float("-inf")
                self._done.set()
                return
            self._counter += 1
            began = time.monotonic()
            self._write(released=False)
            self._bumped = began
        except OSError as error:
            self._say(f"lease: {error.strerror}; trying again")

    def _is_superseded(self) -> bool:
        return any(number > self.number for number in self._numbers())

    def _numbers(self) -> list[int]:
        names = (name.removeprefix("lease.") for name in self._tree.names(OWN_DIRECTORY) if name.startswith("lease."))
        return sorted(int(name) for name in names if name.isdecimal())

    def _current(self) -> Claim | None:
        numbers = self._numbers()
        if not numbers:
            return None
        try:
            content = json.loads(self._tree.read(_lease(numbers[-1])))
            return Claim(numbers[-1], content["holder"], content["counter"], content["released"])
        except FileNotFoundError:
            return self._current()
        except (ValueError, KeyError, TypeError):
            # Cut short by a crash, or being written now: unchanged until the content differs.
            return Claim(numbers[-1], "an unreadable lease", -1, released=False)

    def _create_claim(self) -> None:
        with os.fdopen(self._tree.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            self._status = os.fstat(file.fileno())
            file.write(self._content(released=False))

    def _content(self, *, released: bool) -> bytes:
        content = json.dumps({"holder": self._holder, "counter": self._counter, "released": released})
        return f"{content:<256}".encode()

    def _write(self, *, released: bool) -> None:
        """No fsync: others see the file once it is closed, and on a busy disk fsync can outlast the lease."""
        descriptor = self._tree.open(self._file, os.O_WRONLY)
        try:
            if self._status is None or not os.path.samestat(self._status, os.fstat(descriptor)):
                raise FileExistsError(errno.EEXIST, "another file has its name")
            os.pwrite(descriptor, self._content(released=released), 0)
        finally:
            os.close(descriptor)


def require_renewed(directory: Path, renewed_at: float, seconds: float) -> None:
    """Raise `Unanswered` if the lease of `directory`, renewed at `renewed_at`, may soon be another stager's.

    `renewed_at`: as `Lease.renewed_at`; `seconds`: as in `Lease`.
    """
    if time.monotonic() - renewed_at > seconds - seconds / BUMPS_PER_LEASE:
        raise Unanswered(f"{directory}: the lease could not be renewed in time; another stager may go on")


def _lease(number: int) -> str:
    return f"{OWN_DIRECTORY}/lease.{number}"
