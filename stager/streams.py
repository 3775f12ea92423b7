"""How many connections a transfer uses at once: few at first, more while the rate grows, within the memory.

One connection over a long line carries 10 to 100 MB/s, so only several fill the line. On a short line or a slow
machine, more connections cost CPU time and gain nothing. So the number doubles while the rate grows with it, then stays
or returns to the half. Trials with more follow now and then, since a line changes.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

FIRST_STREAMS = 8
MOST_STREAMS = 256
"""The highest fixed number."""
MOST_FOUND_STREAMS = 128
"""The highest number found: 12.8 GB/s at 100 MB/s a connection."""
MEMORY_SHARE = 8
"""Streams may use this fraction of the memory: one in 8."""
STREAM_BYTES = 2 * 1024 * 1024

TICK_SECONDS = 0.3
GROWTH = 1.4
"""Twice as many streams have to carry so many times the bytes to be doubled again."""
WORTH = 1.1
"""Twice as many streams have to carry so many times the bytes to be kept."""
TICKS_WITHOUT_GROWTH = 3
FIRST_TRIAL_TICKS = 10
MOST_TRIAL_TICKS = 160
"""The first trial comes soon, since a busy machine looks like a full line; later ones are rarer."""
TRIAL_TICKS = 5

# https://docs.kernel.org/admin-guide/cgroup-v2.html#memory-interface-files, and the same of version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_MEMORY = Path("/proc/meminfo")


class Streams(Protocol):
    """How many streams a transfer may use."""

    @property
    def most(self) -> int:
        """At any moment."""

    @property
    def allowed(self) -> int:
        """At this moment."""

    def tick(self, bytes_per_second: float, *, all_busy: bool) -> None:
        """Take the rate since the last call, and whether all allowed streams were busy."""


class StreamCount:
    """Finds the number of streams that a line rewards; `allowed` is the number at this moment.

    Call `tick` every `TICK_SECONDS`. `fixed`: always that number.
    """

    def __init__(self, *, fixed: int | None = None, most: int | None = None) -> None:
        self.most = fixed or min(MOST_FOUND_STREAMS, most or streams_in_memory(memory_bytes()))
        self.allowed = fixed or min(FIRST_STREAMS, self.most)
        self._rate_of_half = 0.0
        self._rate = 0.0
        self._best = self.allowed
        self._without_growth = 0
        self._growing = self.allowed < self.most
        self._until_trial = FIRST_TRIAL_TICKS
        self._rates: list[float] = []

    def tick(self, bytes_per_second: float, *, all_busy: bool) -> None:
        """Take the rate since the last call; it counts only if all allowed streams were busy."""
        if not all_busy or not bytes_per_second:
            self._rates.clear()
        elif self._growing:
            self._grow(bytes_per_second)
        else:
            self._try_more(bytes_per_second)

    def _grow(self, rate: float) -> None:
        self._rate = max(self._rate, rate)
        if self.allowed < self.most and self._rate > self._rate_of_half * GROWTH:
            self._rate_of_half, self._rate, self._without_growth = self._rate, 0.0, 0
            self._best, self.allowed = self.allowed, min(2 * self.allowed, self.most)
            return
        self._without_growth += 1
        if self._without_growth >= TICKS_WITHOUT_GROWTH:
            if self._rate > self._rate_of_half * WORTH:
                self._best = self.allowed
            self.allowed, self._growing = self._best, False

    def _try_more(self, rate: float) -> None:
        """Now and then, allow twice as many for some ticks; keep them if the rate grows."""
        self._rates.append(rate)
        if self.allowed > self._best:
            if len(self._rates) < 2 * TRIAL_TICKS:
                return
            before, with_more = (sum(self._rates[part]) for part in (slice(TRIAL_TICKS), slice(TRIAL_TICKS, None)))
            if with_more > before * WORTH:
                self._best, self._until_trial = self.allowed, FIRST_TRIAL_TICKS
            else:
                self._until_trial = min(2 * self._until_trial, MOST_TRIAL_TICKS)
            self.allowed = self._best
            self._rates.clear()
        elif len(self._rates) >= self._until_trial and self.allowed < self.most:
            self._rates = self._rates[-TRIAL_TICKS:]
            self.allowed = min(2 * self.allowed, self.most)


def streams_in_memory(memory: int) -> int:
    """How many streams fit into their share of `memory` bytes; at least 1."""
    return max(1, memory // MEMORY_SHARE // STREAM_BYTES)


def memory_bytes() -> int:
    """The memory of this machine or, if lower, the container's limit, in bytes."""
    bounds = [int(_MEMORY.read_text().split("MemTotal:", 1)[1].split()[0]) * 1024]
    for limit in _LIMITS:
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            bounds.append(int(limit.read_text()))
    return min(bounds)
