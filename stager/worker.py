"""A worker process: fetches its share of the files into a directory that its parent holds the lease of.

See `workers.py` for its parent.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from stager.errors import FilesFailed, StagerError, Unanswered
from stager.fetch import new_transfer
from stager.lease import require_renewed
from stager.listing import Listing
from stager.manifest import Expected
from stager.part import Part
from stager.parts import Parts
from stager.progress import Progress
from stager.stage_request import StageRequest
from stager.streams import Streams
from stager.tree import Tree
from stager.volume import volume_error

REPORT_SECONDS = 0.1


@dataclass(frozen=True)
class Order:
    """What a worker is to do: the files of `listing`, for the holder of the lease `lease_number`."""

    request: StageRequest
    listing: Listing
    lease_number: int
    directory_identity: tuple[int, int]
    """The device and the inode of the directory under the lease."""
    most_streams: int


@dataclass(frozen=True)
class Permit:
    """What a worker may do at this moment."""

    renewed_at: float
    """As `Lease.renewed_at`."""
    streams: int


@dataclass(frozen=True)
class Report:
    """What a worker has done so far, in bytes, and whether all its streams were busy."""

    fetched: int = 0
    reused: int = 0
    all_busy: bool = False


@dataclass(frozen=True)
class Result:
    """The end of a worker: its finished files, or the reasons of those that failed; and the sources that it used."""

    finished: Sequence[Expected]
    failures: Mapping[str, str]
    sources_used: Sequence[str]


class _Parent:
    """The connection to the parent, for all threads of this process."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.receive()

    def send(self, message: str | Report | Result | StagerError) -> None:
        try:
            with self._lock:
                self._connection.send(message)
        except OSError:  # the parent has ended
            os._exit(1)

    def receive(self) -> None:
        """Wait for a permit and take the newest; ends this process once the parent has ended."""
        try:
            self.permit: Permit = self._connection.recv()
            while self._connection.poll():
                self.permit = self._connection.recv()
        except (EOFError, OSError):
            os._exit(1)

    def listen(self) -> None:
        """Take permits as they come."""
        while True:
            self.receive()


class _Progress(Progress):
    """Counts here; says at the parent."""

    def __init__(self, parent: _Parent) -> None:
        super().__init__()
        self._parent = parent

    def say(self, text: str) -> None:
        self._parent.send(text)


class _Streams:
    """The number of streams that the parent permits."""

    def __init__(self, parent: _Parent, most: int) -> None:
        self._parent = parent
        self.most = most
        self.all_busy = False

    @property
    def allowed(self) -> int:
        return self._parent.permit.streams

    def tick(self, bytes_per_second: float, *, all_busy: bool) -> None:
        """The parent adds up the bytes of all workers."""
        del bytes_per_second
        self.all_busy = all_busy


def work(order: Order, connection: Connection) -> None:
    """Fetch the files of `order`; sends lines to say, each `Report`, and at the end a `Result` or an error."""
    for number in (signal.SIGTERM, signal.SIGINT):  # they are the parent's to hear
        signal.signal(number, signal.SIG_IGN)
    parent = _Parent(connection)
    threading.Thread(target=parent.listen, name="permits", daemon=True).start()
    progress, streams = _Progress(parent), _Streams(parent, order.most_streams)
    ended = threading.Event()

    def report() -> None:
        parent.send(Report(progress.fetched, progress.reused, streams.all_busy))

    def report_again() -> None:
        while not ended.wait(REPORT_SECONDS):
            report()

    reporter = threading.Thread(target=report_again, name="reports", daemon=True)
    reporter.start()
    try:
        end: Result | StagerError = fetch(order, lambda: parent.permit.renewed_at, progress, streams)
    except StagerError as error:
        end = error
    except OSError as error:
        end = volume_error(error, Path(error.filename or order.request.directory))
    finally:
        ended.set()
    reporter.join()
    report()
    parent.send(end)
    os._exit(0)  # a stream that waits for its server must not delay the exit


def fetch(order: Order, renewed_at: Callable[[], float], progress: Progress, streams: Streams) -> Result:
    """Fetch the files of `order`, as long as `renewed_at` gives a recent moment; raises as `Transfer.run`."""
    request, listing = order.request, order.listing

    def require_lease() -> None:
        require_renewed(request.directory, renewed_at(), request.lease_seconds)

    tree = Tree(request.directory, require_lease)
    root = os.fstat(tree.root)
    if (root.st_dev, root.st_ino) != order.directory_identity:
        raise Unanswered(f"{request.directory}: was replaced by another directory")
    making = Parts(tree, order.lease_number)
    making.look()
    transfer = new_transfer(
        request,
        listing,
        [Part(tree, making, file) for file in listing.files],
        streams=streams,
        progress=progress,
        require_lease=require_lease,
        stop_event=threading.Event(),
    )
    try:
        return Result(transfer.run(), {}, transfer.sources_used)
    except FilesFailed as error:
        return Result((), error.failures, transfer.sources_used)
