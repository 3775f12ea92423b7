"""Retries a request after transient errors."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from stager.errors import SourceTrouble, Unanswered

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class RetryPolicy:
    """Seconds to wait after the first, second, … failure in a row, and how long a failed source rests.

    If there is another source, it rests after `failures_with_choice` failures. A wait that the server asks for
    replaces these, up to `longest_wait`.
    """

    waits: tuple[float, ...] = (0.3, 1, 3, 8, 20, 30)
    failures_with_choice: int = 3
    rest_seconds: float = 60.0
    longest_wait: float = 600.0

    def wait_after(self, failures: int, trouble: SourceTrouble) -> float:
        """Seconds to wait after this many failures in a row; varied, so that streams do not return at once."""
        if trouble.wait is not None:
            return min(trouble.wait, self.longest_wait)
        return self.waits[failures - 1] * random.uniform(0.8, 1.2)  # noqa: S311 - no secret is made of it


JOB_RETRIES = RetryPolicy()
"""For a Job."""


def ask_with_retries(
    question: Callable[[], Answer],
    *,
    retries: RetryPolicy,
    say: Callable[[str], None],
    pause: Callable[[float], None],
) -> Answer:
    """The answer to `question`, asked again while it raises `SourceTrouble`; gives up with `Unanswered`."""
    for failures in range(1, len(retries.waits) + 1):
        try:
            return question()
        except SourceTrouble as trouble:
            wait = retries.wait_after(failures, trouble)
            say(f"{trouble}; again in {wait:.1f} s")
            pause(wait)
    try:
        return question()
    except SourceTrouble as trouble:
        raise Unanswered(f"{trouble} (asked {len(retries.waits) + 1} times)") from None
