"""Reports progress: a bar on a terminal; in a pod, a line every 10 s and one for each file above 1 MiB.

Rates are MB/s (10^6 bytes) over the last 30 s, so a stalled source shows.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from types import TracebackType
from typing import TextIO

LINE_SECONDS = 10.0
BAR_SECONDS = 0.2
BAR_WIDTH = 30
RATE_SECONDS = 30.0
UNITS = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("bytes", 1))


class Progress:
    """Counts bytes from any thread, and reports them while its `with` block runs."""

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output or sys.stderr
        self._terminal = self._output.isatty()
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._reporter = threading.Thread(target=self._report, name="progress", daemon=True)
        self._started = time.monotonic()
        self._samples: deque[tuple[float, int]] = deque()
        self.total = 0
        """Bytes of all files."""
        self.fetched = 0
        """Bytes that came from a source."""
        self.reused = 0
        """Bytes found on the volume and verified again."""

    def __enter__(self) -> Progress:
        self._reporter.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._reporter.join()

    def add_fetched(self, count: int) -> None:
        """Add `count` bytes from a source; negative if they proved wrong."""
        with self._lock:
            self.fetched += count

    def add_reused(self, count: int) -> None:
        """Add `count` verified bytes from the volume; negative if they proved wrong."""
        with self._lock:
            self.reused += count

    def say(self, text: str) -> None:
        """Print one line."""
        clear = "\r\033[K" if self._terminal else ""
        stamp = "" if self._terminal else time.strftime("%H:%M:%SZ ", time.gmtime())
        with self._lock:
            print(f"{clear}{stamp}{text}", file=self._output, flush=True)

    def summary(self, files: int) -> str:
        """The last line of a run: files, time, rate, and bytes that were not fetched again."""
        seconds = time.monotonic() - self._started
        share = self.reused / self.total if self.total else 1.0
        return (
            f"staged {files} files, {self.total:,} bytes in {seconds:.1f} s: "
            f"{self.fetched / seconds / 1e6:,.0f} MB/s fetched, {share:.0%} re-used"
        )

    def _report(self) -> None:
        while not self._done.wait(BAR_SECONDS if self._terminal else LINE_SECONDS):
            if not self.total:
                continue  # no total, as in a wait for another stager
            line = self._line()
            if self._terminal:
                with self._lock:
                    print(f"\r\033[K{self._bar()} {line}", end="", file=self._output, flush=True)
            else:
                self.say(line)
        if self._terminal:
            print("\r\033[K", end="", file=self._output, flush=True)

    def _line(self) -> str:
        present = self.fetched + self.reused
        rate = self._rate(present)
        left = f"{duration((self.total - present) / rate)} left" if rate else "no bytes are coming"
        share = present / self.total
        unit, size = next((name, size) for name, size in UNITS if self.total >= size)
        amount = f"{present / size:.1f} of {self.total / size:.1f} {unit}"
        return f"{amount} ({share:.1%}), {rate / 1e6:,.0f} MB/s, {left}"

    def _rate(self, present: int) -> float:
        now = time.monotonic()
        self._samples.append((now, present))
        while len(self._samples) > 2 and now - self._samples[0][0] > RATE_SECONDS:
            self._samples.popleft()
        then, before = self._samples[0] if len(self._samples) > 1 else (self._started, 0)
        return max(0.0, (present - before) / max(now - then, 1e-3))

    def _bar(self) -> str:
        share = min(1.0, (self.fetched + self.reused) / self.total)
        full = int(share * BAR_WIDTH)
        return "█" * full + "░" * (BAR_WIDTH - full)


def duration(seconds: float) -> str:
    """`seconds` as text, such as `6 min 32 s`."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
