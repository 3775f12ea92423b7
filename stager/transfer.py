"""Fetches many files at once, in blocks, by a fixed number of streams, and hashes them while they come.

A stream takes a file of its own as long as there are any, so that its bytes are in order and hashed from memory; when
fewer files than streams are left, several share one. Memory is bounded by the streams, never by the sizes: each
holds a piece of 1 MiB. A file whose hash is wrong is fetched again, alone, from the next source; then it is reported
and the others go on. A connection that crawls beside the others is replaced. A fault of the volume, a lost lease or a
signal ends all streams.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from stager.ending import STOPPED
from stager.errors import StagerError, Stopped
from stager.listing import Listing, RemoteFile
from stager.part import BLOCK_BYTES, Part
from stager.progress import Progress
from stager.supply import Supply, Unobtainable
from stager.volume import volume_error

GRACE_SECONDS = 3.0
FLUSH_SECONDS = 4.0
LAP_SECONDS = 10.0
STRAGGLER_RATIO = 20
# Less than this may have lain ready in the socket, and says nothing about a connection's speed.
RATED_BYTES = BLOCK_BYTES // 2


class State(Enum):
    """How far one file is."""

    WAITING = auto()
    TAKEN = auto()  # one stream has it for itself, to begin or to finish it
    FETCHING = auto()
    DONE = auto()
    FAILED = auto()


@dataclass
class Job:
    """One file of the run: how much of it was kept, up to where its blocks are given out, and to how many streams."""

    part: Part
    state: State = State.WAITING
    kept: int = 0
    given: int = 0
    streams: int = 0
    attempts: int = 0

    @property
    def file(self) -> RemoteFile:
        """The file as its repository lists it."""
        return self.part.file

    @property
    def has_block_to_give(self) -> bool:
        """Whether one more stream may fetch of it without running more than two blocks for each ahead of the hash."""
        ahead = self.given - self.part.hashed // BLOCK_BYTES * BLOCK_BYTES
        return (
            self.state is State.FETCHING
            and self.given < self.file.size
            and ahead < 2 * BLOCK_BYTES * (self.streams + 1)
        )

    def give_block(self) -> tuple[int, int]:
        """The next block, for the stream that asks: from where, up to where."""
        start = self.given
        self.given = min(start + BLOCK_BYTES, self.file.size)
        self.streams += 1
        return start, self.given


class Transfer:
    """One run over the files of `listing`, by `streams` streams.

    `require_lease` raises when this process may no longer write. `ending` is set, by a signal or here, when all
    streams are to end.
    """

    def __init__(
        self,
        directory: Path,
        listing: Listing,
        supply: Supply,
        *,
        progress: Progress,
        require_lease: Callable[[], None],
        ending: threading.Event,
        streams: int,
    ) -> None:
        self._jobs = [Job(Part(directory, file)) for file in listing.files]
        self._supply = supply
        self._progress = progress
        self._require_lease = require_lease
        self._ending = ending
        self._streams = streams
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._failures: dict[str, str] = {}
        self._best_rate = 0.0
        progress.total = listing.total_bytes

    @property
    def missing_bytes(self) -> int:
        """What the volume has still to hold before all files are there, in bytes."""
        return sum(job.file.size - job.part.bytes_on_disk for job in self._jobs)

    def run(self) -> list[Part]:
        """Fetch and verify everything; raises `StagerError` with every file that could not be had."""
        threads = [threading.Thread(target=self._stream, name=f"stream {n}", daemon=True) for n in range(self._streams)]
        for thread in (*threads, threading.Thread(target=self._flush, name="flush", daemon=True)):
            thread.start()
        while any(thread.is_alive() for thread in threads) and not self._ending.wait(0.1):
            pass
        deadline = time.monotonic() + GRACE_SECONDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()) if self._ending.is_set() else None)
        if self._error:
            raise self._error
        if self._ending.is_set():
            raise Stopped(STOPPED)
        if self._failures:
            raise StagerError("; ".join(f"{path}: {reason}" for path, reason in sorted(self._failures.items())))
        return [job.part for job in self._jobs]

    def _check(self) -> None:
        if self._ending.is_set():
            raise Stopped(STOPPED)
        self._require_lease()

    def _stream(self) -> None:
        with self._ending_the_run_on_error():
            while (work := self._next_work()) is not None:
                work()

    def _flush(self) -> None:
        """Keep the disk busy while bytes come; else all streams would wait for it together when their files end."""
        with self._ending_the_run_on_error():
            while not (self._ending.wait(FLUSH_SECONDS) or self._all_ended):
                for job in self._jobs:
                    if job.state is State.FETCHING:
                        self._on_volume(job, lambda job: job.part.flush())

    @contextlib.contextmanager
    def _ending_the_run_on_error(self) -> Iterator[None]:
        try:
            yield
        except Stopped:
            return
        except Exception as error:  # whatever it is, all streams must end and the run must say it
            self._error = self._error or error
            self._ending.set()
            with self._changed:
                self._changed.notify_all()

    @property
    def _all_ended(self) -> bool:
        return all(job.state in (State.DONE, State.FAILED) for job in self._jobs)

    def _next_work(self) -> Callable[[], None] | None:
        """What this stream does next: begin a file, fetch a block, or None when all files are done or failed."""
        with self._changed:
            while not self._ending.is_set():
                if self._all_ended:
                    return None
                if (work := self._claim()) is not None:
                    return work
                self._changed.wait(1.0)
        return None

    def _claim(self) -> Callable[[], None] | None:
        begun = sum(job.state in (State.TAKEN, State.FETCHING) for job in self._jobs)
        waiting = next((job for job in self._jobs if job.state is State.WAITING), None)
        if waiting and begun < self._streams:
            waiting.state = State.TAKEN
            return lambda: self._on_volume(waiting, self._begin)
        giving = min((job for job in self._jobs if job.has_block_to_give), key=lambda job: job.streams, default=None)
        if giving is None:
            return None
        start, end = giving.give_block()
        return lambda: self._on_volume(giving, lambda job: self._fetch(job, start, end))

    def _on_volume(self, job: Job, work: Callable[[Job], None]) -> None:
        try:
            work(job)
        except OSError as error:
            raise volume_error(error, job.part.path) from None

    def _begin(self, job: Job) -> None:
        """Take over what is on the volume of this file, verified; then let its blocks be fetched."""
        seen = 0

        def watch(count: int) -> None:
            nonlocal seen
            seen += count
            self._progress.add_reused(count)
            self._check()

        if job.part.is_complete(watch):
            self._set(job, State.DONE)
            return
        job.part.open(watch)
        self._progress.add_reused(job.part.hashed - seen)
        job.kept = job.given = job.part.hashed
        if job.given == job.file.size:
            self._finish(job)
        else:
            self._set(job, State.FETCHING)

    def _fetch(self, job: Job, start: int, end: int) -> None:
        try:
            while start < end and job.state is not State.FAILED:
                start = self._fetch_until_slow(job, start, end)
        except Unobtainable as reason:
            self._fail(job, str(reason))
        with self._changed:
            job.streams -= 1
            last = not job.streams and (job.given == job.file.size or job.state is State.FAILED)
            if last and job.state is State.FETCHING:
                job.state = State.TAKEN
            self._changed.notify_all()
        if last:
            self._finish(job)

    def _fetch_until_slow(self, job: Job, start: int, end: int) -> int:
        """Fetch from `start` over one connection; returns how far it came: to `end`, or to where it was given up."""
        began, position = time.monotonic(), start
        for chunk in self._supply.read(job.file, start, end, skip=job.attempts):
            self._check()
            if job.state is State.FAILED:
                break
            job.part.write(position, chunk)
            position += len(chunk)
            self._progress.add_fetched(len(chunk))
            seconds = time.monotonic() - began
            if seconds > LAP_SECONDS and self._is_straggler((position - start) / seconds):
                self._progress.say(f"{job.file.path}: {(position - start) / seconds / 1e3:,.0f} kB/s; connecting anew")
                break
        if position - start >= RATED_BYTES:
            self._best_rate = max(self._best_rate, (position - start) / (time.monotonic() - began))
        return position

    def _is_straggler(self, bytes_per_second: float) -> bool:
        """Whether a connection is far slower than the best one so far; one of them can hold up the whole run."""
        return bytes_per_second < self._best_rate / STRAGGLER_RATIO

    def _finish(self, job: Job) -> None:
        """All bytes of the file are written and hashed, or it failed; no other stream is at it."""
        if job.state is State.FAILED:
            job.part.close()
            return
        problem = job.part.problem()
        if problem is None:
            job.part.finish()
            self._progress.say(f"{job.file.path}: {job.file.size:,} bytes, hash is right")
            self._set(job, State.DONE)
            return
        origin = ", ".join(self._supply.suppliers(job.file)) or "the volume"
        self._throw_away(job)
        if job.attempts < max(2, len(self._supply.sources)):
            self._progress.say(f"{job.file.path} from {origin}: {problem}; fetching it again")
            self._set(job, State.FETCHING)
        else:
            self._fail(job, f"wrong content from {origin}: {problem}")
            job.part.close()

    def _throw_away(self, job: Job) -> None:
        self._progress.add_reused(-job.kept)
        self._progress.add_fetched(job.kept - job.file.size)
        self._supply.forget_suppliers(job.file)
        job.part.restart()
        job.kept = job.given = 0
        job.attempts += 1

    def _fail(self, job: Job, reason: str) -> None:
        self._failures.setdefault(job.file.path, reason)
        self._progress.say(f"{job.file.path}: {reason}")
        self._set(job, State.FAILED)

    def _set(self, job: Job, state: State) -> None:
        with self._changed:
            job.state = state
            self._changed.notify_all()
