"""The best rate of any connection in the last minute, to find connections that are far slower than the others.

It forgets: after the only fast source has died, the connections of a slow one are as fast as can be, and replacing them
gains nothing.
"""

from __future__ import annotations

STRAGGLER_RATIO = 20
PERIOD_SECONDS = 30.0
"""Long beside the time after which a connection is judged, since the fast ones may end long before it."""


class BestRate:
    """Remembers the best rate for one to two periods. Rates are in bytes per second, `now` in seconds of one clock."""

    def __init__(self) -> None:
        self._period = 0
        self._best = 0.0
        self._best_before = 0.0

    def note(self, rate: float, now: float) -> None:
        """Take the rate of a connection that still gives bytes, or did a moment ago."""
        self._advance(now)
        self._best = max(self._best, rate)

    def is_straggler(self, rate: float, now: float) -> bool:
        """Whether a connection is far slower than the best; one such can delay the whole run."""
        self._advance(now)
        return rate < max(self._best, self._best_before) / STRAGGLER_RATIO

    def _advance(self, now: float) -> None:
        period = int(now / PERIOD_SECONDS)
        if period != self._period:
            self._best_before = self._best if period == self._period + 1 else 0.0
            self._period, self._best = period, 0.0
