"""Fetches many files at once, in blocks, with streams while the rate grows, and hashes them as they arrive.

Each stream takes a file of its own, so that its bytes arrive in order and are hashed from memory. When fewer files
than streams are left, streams share a file. Each stream holds 1 MiB, so memory does not depend on file sizes. A file
with a wrong hash is fetched again from the next source; if it is wrong again, it is reported and the other files go
on. A connection that is far slower than the others is replaced. A volume error, a lost lease or a signal ends all
streams.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from stager.best_rate import BestRate
from stager.errors import FilesFailed, Stopped
from stager.jobs import LEAST_BLOCK_BYTES, Job, Jobs, State
from stager.manifest import Expected
from stager.part import SMALL_BYTES, Part
from stager.progress import Progress
from stager.source_pool import SourcePool, Unobtainable
from stager.stopping import STOPPED
from stager.streams import TICK_SECONDS, Streams
from stager.volume import volume_error

GRACE_SECONDS = 1.0
IDLE_SECONDS = 0.2
FLUSH_SECONDS = 4.0
LAP_SECONDS = 10.0
# Fewer bytes do not show a connection's speed.
RATED_BYTES = LEAST_BLOCK_BYTES


class Transfer:
    """One run over the files of `parts`, by as many streams as `streams` allows at any moment.

    `require_lease` raises if this process may no longer write. A signal or this class sets `stop_event` to end all
    streams.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        source_pool: SourcePool,
        *,
        progress: Progress,
        require_lease: Callable[[], None],
        stop_event: threading.Event,
        streams: Streams,
    ) -> None:
        self._jobs = Jobs(parts)
        self._source_pool = source_pool
        self._progress = progress
        self._require_lease = require_lease
        self._stop_event = stop_event
        self._streams = streams
        self._threads: list[threading.Thread] = []
        self._busy = 0
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._failures: dict[str, str] = {}
        self._rates = BestRate()
        progress.total = sum(part.file.size for part in parts)

    @property
    def sources_used(self) -> list[str]:
        """The names of the sources that the files came from."""
        return self._source_pool.used

    def stop_writing(self) -> bool:
        """Allow no further write. False: a stream is still in one, which cannot be interrupted."""
        still_writing = [job for job in self._jobs.all if not job.part.stop_writing()]
        return not still_writing

    def run(self) -> list[Expected]:
        """Fetch and verify all files; raises `FilesFailed` with every file that failed."""
        threading.Thread(target=self._flush, name="flush", daemon=True).start()
        self._run_streams()
        deadline = time.monotonic() + GRACE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()) if self._stop_event.is_set() else None)
        if self._error:
            raise self._error
        if self._stop_event.is_set():
            raise Stopped(STOPPED)
        if self._failures:
            raise FilesFailed(self._failures)
        return [job.part.finished for job in self._jobs.all]

    def _run_streams(self) -> None:
        """Run as many streams as allowed, until all files or the run have ended."""
        seen, looked = self._progress.fetched, time.monotonic()
        while not self._jobs.all_ended and not self._stop_event.is_set():
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            for _ in range(len(self._threads), self._streams.allowed):
                thread = threading.Thread(target=self._stream, name="stream", daemon=True)
                self._threads.append(thread)
                thread.start()
            with self._changed:
                self._changed.wait_for(lambda: self._jobs.all_ended or self._stop_event.is_set(), TICK_SECONDS)
            fetched, now = self._progress.fetched, time.monotonic()
            all_busy = self._busy >= self._streams.allowed
            self._streams.tick((fetched - seen) / (now - looked), all_busy=all_busy)
            seen, looked = fetched, now

    def _check(self) -> None:
        if self._stop_event.is_set():
            raise Stopped(STOPPED)
        self._require_lease()

    def _stream(self) -> None:
        with self._ending_the_run_on_error():
            while (work := self._next_work()) is not None:
                try:
                    work()
                finally:
                    with self._changed:
                        self._busy -= 1

    def _flush(self) -> None:
        """Sync while bytes arrive; else all streams would wait for the disk at the end of their files."""
        with self._ending_the_run_on_error():
            while not (self._stop_event.wait(FLUSH_SECONDS) or self._jobs.all_ended):
                with self._changed:
                    fetching = self._jobs.fetching
                for job in fetching:
                    self._on_volume(job, lambda job: job.part.flush())

    @contextlib.contextmanager
    def _ending_the_run_on_error(self) -> Iterator[None]:
        try:
            yield
        except Stopped:
            return
        except Exception as error:  # any error must end all streams and be reported
            self._error = self._error or error
            self._stop_event.set()
            with self._changed:
                self._changed.notify_all()

    def _next_work(self) -> Callable[[], None] | None:
        """The next work of this stream: begin a file or fetch a block. None: all done, or too many streams."""
        with self._changed:
            while not (self._stop_event.is_set() or self._jobs.all_ended or self._busy >= self._streams.allowed):
                if (work := self._claim()) is not None:
                    self._busy += 1
                    return work
                self._changed.wait(IDLE_SECONDS)
        return None

    def _claim(self) -> Callable[[], None] | None:
        if self._jobs.begun < self._streams.allowed and (
            job := self._jobs.take_waiting(self._source_pool.may_be_claimed)
        ):
            begin = job
            return lambda: self._on_volume(begin, self._begin)
        block = self._jobs.take_block(self._streams.allowed)
        if block is None:
            return None
        giving, start, end = block
        return lambda: self._on_volume(giving, lambda job: self._fetch(job, start, end))

    def _on_volume(self, job: Job, work: Callable[[Job], None]) -> None:
        try:
            work(job)
        except OSError as error:
            raise volume_error(error, Path(error.filename or job.part.path)) from None

    def _begin(self, job: Job) -> None:
        """Verify and keep the bytes on the volume; then let streams fetch the rest."""
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
        with self._changed:
            self._jobs.note_kept(job)
            block = self._jobs.start(job, self._streams.allowed)
            if block and job.has_several_blocks:
                self._changed.notify_all()
        if block:
            self._fetch(job, *block)
        else:
            self._finish(job)

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
                self._jobs.set(job, State.TAKEN)
            elif not last:
                self._changed.notify_all()
        if last:
            self._finish(job)

    def _fetch_until_slow(self, job: Job, start: int, end: int) -> int:
        """Fetch from `start` over one connection; returns the end: `end`, or earlier if it was too slow."""
        began, position = time.monotonic(), start
        for chunk in self._source_pool.read(job.file, start, end):
            self._check()
            if job.state is State.FAILED:
                break
            job.part.write(position, chunk)
            position += len(chunk)
            self._progress.add_fetched(len(chunk))
            now = time.monotonic()
            rate = (position - start) / (now - began)
            if now - began > LAP_SECONDS:
                self._rates.note(rate, now)
                if self._rates.is_straggler(rate, now):
                    self._progress.say(f"{job.file.path}: {rate / 1e3:,.0f} kB/s; connecting anew")
                    break
        if position - start >= RATED_BYTES:
            now = time.monotonic()
            self._rates.note((position - start) / (now - began), now)
        return position

    def _finish(self, job: Job) -> None:
        """End a file: all bytes are written and hashed, or it failed. No other stream uses it."""
        if job.state is State.FAILED:
            job.part.close()
            return
        problem = job.part.problem()
        if problem is None:
            job.part.finish()
            if job.file.size > SMALL_BYTES:
                self._progress.say(f"{job.file.path}: {job.file.size:,} bytes, hash is right")
            self._set(job, State.DONE)
            return
        origin = ", ".join(self._source_pool.origins(job.file)) or "the volume"
        self._throw_away(job)
        if self._source_pool.reject(job.file) and job.file.size:
            self._progress.say(f"{job.file.path} from {origin}: {problem}; fetching it again")
            self._set(job, State.FETCHING)
        else:
            self._fail(job, f"wrong content from {origin}: {problem}")
            job.part.close()

    def _throw_away(self, job: Job) -> None:
        self._progress.add_reused(-job.kept)
        self._progress.add_fetched(job.kept - job.file.size)
        job.part.restart()
        with self._changed:
            self._jobs.restart(job)

    def _fail(self, job: Job, reason: str) -> None:
        self._failures.setdefault(job.file.path, reason)
        self._progress.say(f"{job.file.path}: {reason}")
        self._set(job, State.FAILED)

    def _set(self, job: Job, state: State) -> None:
        if state in (State.DONE, State.FAILED):
            self._source_pool.ended(job.file, verified=state is State.DONE)
        with self._changed:
            self._jobs.set(job, state)
            # To wake all streams for each of many small files costs more than the file.
            if self._jobs.all_ended or state is State.FETCHING:
                self._changed.notify_all()
