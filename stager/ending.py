"""How a run is told to end: one event, set by a signal, by the first fatal error, or when all is done."""

from __future__ import annotations

import threading
from collections.abc import Callable

from stager.errors import Stopped

STOPPED = "stopped; the next run goes on from here"


def pause_until(ending: threading.Event) -> Callable[[float], None]:
    """A function that sleeps for some seconds, but raises `Stopped` as soon as `ending` is set."""

    def pause(seconds: float) -> None:
        if ending.wait(max(0.0, seconds)):
            raise Stopped(STOPPED)

    return pause
