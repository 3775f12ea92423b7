"""Reads a range of a file from the first source that has it: retries, waits, and goes on to the next source.

After transient errors it waits longer each time, or as long as the server asks; then all streams wait. A source that
keeps failing rests for a minute while others are used. A source that refuses a file is not asked for that file again.
Fails if no source is left.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from stager.errors import SourceRefusal, SourceTrouble, StagerError, Unanswered
from stager.listing import RemoteFile
from stager.retry import JOB_RETRIES, RetryPolicy
from stager.source import Source


class Unobtainable(Exception):
    """Every source refused this file; the text has the reason of each."""


class SourcePool:
    """The sources of one run, shared by all streams.

    `pause` waits the given seconds, or raises if the run is to end; `say` reports changes of source.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        say: Callable[[str], None],
        pause: Callable[[float], None],
        retries: RetryPolicy = JOB_RETRIES,
    ) -> None:
        self.sources = list(sources)
        self._say = say
        self._pause = pause
        self._retries = retries
        self._lock = threading.Lock()
        self._refusals: dict[str, dict[str, str]] = defaultdict(dict)
        self._closed_until: dict[str, float] = {}
        self._resting: dict[str, tuple[float, str]] = {}
        self._origins: dict[str, set[str]] = defaultdict(set)
        self._rejections: dict[str, int] = defaultdict(int)

    def read(self, file: RemoteFile, start: int, end: int, *, skip: int = 0) -> Iterator[bytes]:
        """The bytes from `start` up to `end`, from the first source that gives them.

        The first `skip` sources move to the end, and one more for each rejection of the file.
        Raises `Unobtainable` if all refuse the file, and `Unanswered` if the others keep failing.
        """
        failures = 0
        while start < end:
            source = self._choose(file, skip + self._rejections[file.path])
            self._pause(self._closed_until.get(source.name, 0.0) - time.monotonic())
            try:
                for chunk in source.read(file, start, end):
                    start, failures = start + len(chunk), 0
                    self._origins[file.path].add(source.name)
                    yield chunk
            except SourceRefusal as refusal:
                self._note_refusal(file, source, refusal)
            except StagerError:
                raise
            except Exception as error:
                # No error of one source may end a run that has other sources.
                trouble = error if isinstance(error, SourceTrouble) else SourceTrouble(_described(error))
                failures = self._note_trouble(file, source, trouble, failures + 1)

    def origins(self, file: RemoteFile) -> list[str]:
        """The names of the sources that any byte of `file` came from in this run."""
        return sorted(self._origins[file.path])

    @property
    def used(self) -> list[str]:
        """The names of the sources that the files came from."""
        return sorted({name for names in self._origins.values() for name in names})

    def may_be_claimed(self, file: RemoteFile) -> bool:  # noqa: ARG002 - of some supplies it depends on the file
        """Whether some source may have `file` already."""
        return True

    def ended(self, file: RemoteFile, *, verified: bool) -> None:
        """`file` lies under its own name with the right hash, or cannot be had."""

    def reject(self, file: RemoteFile) -> bool:
        """Note that the bytes of `file` were wrong. True: fetch it again, from another source first."""
        self.forget_origins(file)
        self._rejections[file.path] += 1
        return self._rejections[file.path] < max(2, len(self.sources))

    def forget_origins(self, file: RemoteFile) -> None:
        """Forget the origins: the bytes of `file` were dropped."""
        self._origins.pop(file.path, None)

    def _choose(self, file: RemoteFile, skip: int) -> Source:
        count = len(self.sources)
        order = [self.sources[(position + skip) % count] for position in range(count)]
        with self._lock:
            refused = self._refusals[file.path]
            willing = [source for source in order if source.name not in refused]
            awake = self._awake(willing)
            if awake:
                now = time.monotonic()  # the first usable one, or the one that rests least
                return min(awake, key=lambda source: max(now, self._closed_until.get(source.name, 0.0)))
            if not willing:
                raise Unobtainable("; ".join(f"{name}: {reason}" for name, reason in refused.items()))
            raise Unanswered(f"no source answers: {'; '.join(self._resting[source.name][1] for source in willing)}")

    def _awake(self, sources: Sequence[Source]) -> list[Source]:
        now = time.monotonic()
        return [source for source in sources if self._resting.get(source.name, (0.0, ""))[0] <= now]

    def _has_choice(self, file: RemoteFile, source: Source) -> bool:
        """Whether another source may give `file` now."""
        with self._lock:
            others = [other for other in self.sources if other.name not in self._refusals[file.path]]
            return any(other is not source for other in self._awake(others))

    def _note_refusal(self, file: RemoteFile, source: Source, refusal: SourceRefusal) -> None:
        with self._lock:
            known = source.name in self._refusals[file.path]
            self._refusals[file.path][source.name] = str(refusal)
        if not known and len(self.sources) > 1:
            self._say(f"{source.name} refuses: {refusal}; trying the next source")

    def _note_trouble(self, file: RemoteFile, source: Source, trouble: SourceTrouble, failures: int) -> int:
        """Wait, or let the source rest; returns the failures in a row that still count."""
        retries = self._retries
        if failures > (retries.failures_with_choice if self._has_choice(file, source) else len(retries.waits)):
            text = f"{source.name}: {trouble} ({failures} times in a row)"
            with self._lock:
                self._resting[source.name] = (time.monotonic() + retries.rest_seconds, text)
            self._say(f"{text}; leaving it alone for {retries.rest_seconds:.0f} s")
            return 0
        wait = retries.wait_after(failures, trouble)
        if trouble.wait is not None:
            with self._lock:
                self._closed_until[source.name] = time.monotonic() + wait
            if self._has_choice(file, source):
                self._say(f"{source.name}: {trouble}; leaving it alone for {wait:.0f} s")
                return 0
        self._say(f"{source.name}: {trouble}; again in {wait:.1f} s")
        self._pause(wait)
        return failures


def _described(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
