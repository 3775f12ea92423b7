"""Fetches the files of one run in several processes, since hashing and TLS in one of them end at about 5 GB/s.

The parent keeps the lease, the space and the manifest. Each worker process has files of its own. Several times a second
it gets the moment of the lease's last renewal, without which it writes nothing, and its number of streams; it gives
what it fetched. Any end of the run kills the workers, as a power failure would, so nothing waits for them; a worker
whose parent has ended ends too.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing.connection import wait

from stager.errors import FilesFailed, StagerError, Stopped, Unanswered
from stager.lease import BUMPS_PER_LEASE, Lease
from stager.listing import Listing
from stager.manifest import Expected
from stager.processes import shares
from stager.progress import Progress
from stager.stage_request import StageRequest
from stager.stopping import STOPPED
from stager.streams import TICK_SECONDS, StreamCount
from stager.worker import REPORT_SECONDS, Order, Permit, Report, Result, work

KILL_SECONDS = 0.4
SILENCE_SECONDS = 60.0
PERMITS_PER_LEASE = 4 * BUMPS_PER_LEASE


class Worker:
    """A worker process, as its parent sees it."""

    def __init__(self, order: Order) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(order, theirs), daemon=True)
        try:
            self.process.start()
        except OSError as error:
            raise StagerError(f"a worker process cannot be started: {error.strerror}; try --processes 1") from None
        finally:
            theirs.close()
        self.report = Report()
        self.result: Result | None = None
        self._heard = time.monotonic()

    @property
    def is_silent(self) -> bool:
        """Whether the worker should have reported long ago; it may be stopped."""
        return self.result is None and time.monotonic() - self._heard > SILENCE_SECONDS

    def permit(self, permit: Permit) -> None:
        """Let the worker go on."""
        with contextlib.suppress(OSError):  # it has ended, and `receive` says so
            self.connection.send(permit)

    def receive(self, progress: Progress) -> None:
        """Take what the worker sent; raises what ended it, unless that is a `Result`."""
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            raise self._failure() from None
        self._heard = time.monotonic()
        match message:
            case str():
                progress.say(message)
            case Report():
                progress.add_fetched(message.fetched - self.report.fetched)
                progress.add_reused(message.reused - self.report.reused)
                self.report = message
            case Result():
                self.result = message
            case _:
                raise message

    def _failure(self) -> StagerError:
        self.process.join(KILL_SECONDS)
        status = self.process.exitcode
        if status is not None and status < 0:
            name = signal.Signals(-status).name
            return Unanswered(f"a worker process was ended by {name}; SIGKILL often means that the memory is used up")
        return StagerError(f"a worker process ended with status {status}, for the reason above")

    def end(self) -> bool:
        """End a killed process. False: it still runs, inside a write that cannot be interrupted."""
        self.process.join(KILL_SECONDS)
        self.connection.close()
        return self.process.exitcode is not None


class Workers:
    """Fetches the files of `listing` into the directory under `lease`, with `processes` worker processes."""

    def __init__(
        self,
        request: StageRequest,
        listing: Listing,
        lease: Lease,
        *,
        processes: int,
        streams: StreamCount,
        progress: Progress,
        stop_event: threading.Event,
    ) -> None:
        self._lease = lease
        self._pause = min(REPORT_SECONDS, request.lease_seconds / PERMITS_PER_LEASE)
        self._streams = streams
        self._progress = progress
        self._stop_event = stop_event
        tree = lease.tree
        root = os.fstat(tree.root)
        self._orders = [
            Order(request, replace(listing, files=share), lease.number, (root.st_dev, root.st_ino), self._streams.most)
            for share in shares(listing.files, processes)
        ]
        self._workers: list[Worker] = []
        self._seen, self._looked = 0, time.monotonic()
        progress.total = listing.total_bytes

    def run(self) -> list[Expected]:
        """As `Transfer.run`."""
        self._progress.say(f"fetching with {len(self._orders)} processes")
        for order in self._orders:
            self._workers.append(Worker(order))
        while working := [worker for worker in self._workers if worker.result is None]:
            if self._stop_event.is_set():
                raise Stopped(STOPPED)
            self._tick(working)
            for ready in wait([worker.connection for worker in working], self._pause):
                next(worker for worker in working if worker.connection is ready).receive(self._progress)
            if any(worker.is_silent for worker in working):
                raise Unanswered(f"a worker process gave no sign of life for {SILENCE_SECONDS:.0f} s")
        return self._finished()

    def _tick(self, working: Sequence[Worker]) -> None:
        now, fetched = time.monotonic(), self._progress.fetched
        if now - self._looked >= TICK_SECONDS:
            all_busy = all(worker.report.all_busy for worker in working)
            self._streams.tick((fetched - self._seen) / (now - self._looked), all_busy=all_busy)
            self._seen, self._looked = fetched, now
        for worker, streams in zip(working, self._streams_of_each(len(working)), strict=True):
            worker.permit(Permit(self._lease.renewed_at, streams))

    def _streams_of_each(self, count: int) -> list[int]:
        share, more = divmod(self._streams.allowed, count)
        return [max(1, share + (place < more)) for place in range(count)]

    def _finished(self) -> list[Expected]:
        results = [worker.result for worker in self._workers if worker.result]
        failures = {path: why for result in results for path, why in result.failures.items()}
        if failures:
            raise FilesFailed(failures)
        return [file for result in results for file in result.finished]

    @property
    def sources_used(self) -> list[str]:
        """As `Transfer.sources_used`."""
        return sorted({name for worker in self._workers if worker.result for name in worker.result.sources_used})

    def stop_writing(self) -> bool:
        """As `Transfer.stop_writing`."""
        for worker in self._workers:
            worker.process.kill()
        ended = [worker.end() for worker in self._workers]
        return all(ended)
