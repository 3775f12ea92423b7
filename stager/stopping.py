"""The stop event: set by a signal, the first fatal error, or the end of the work."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from stager.errors import Stopped

STOPPED = "stopped; the next run goes on from here"
LOOK_SECONDS = 0.2

Answer = TypeVar("Answer")


def pause_until(stop_event: threading.Event) -> Callable[[float], None]:
    """A function that sleeps for some seconds, but raises `Stopped` as soon as `stop_event` is set."""

    def pause(seconds: float) -> None:
        if stop_event.wait(max(0.0, seconds)):
            raise Stopped(STOPPED)

    return pause


def unless_stopped(
    stop_event: threading.Event, work: Callable[[], Answer], seconds: float | None = None, *, grace_seconds: float = 0
) -> Answer:
    """Returns or raises as `work` does; raises `Stopped` once `stop_event` is set, even if `work` hangs.

    `work` runs in its own thread. After `stop_event` it has `grace_seconds` to end; then the thread is abandoned.
    Raises `TimeoutError` after `seconds`.
    """
    ended: queue.SimpleQueue[tuple[Answer | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            ended.put((work(), None))
        except BaseException as error:  # raised again in the waiting thread
            ended.put((None, error))

    threading.Thread(target=run, name="work", daemon=True).start()
    stopped_at: float | None = None
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        if stop_event.is_set() and stopped_at is None:
            stopped_at = time.monotonic()
        if stopped_at is not None and time.monotonic() - stopped_at >= grace_seconds:
            raise Stopped(STOPPED)
        try:
            answer, error = ended.get(timeout=LOOK_SECONDS)
        except queue.Empty:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {seconds:g} s") from None
            continue
        if error is not None:
            raise error
        return answer  # type: ignore[return-value]  # None only where `work` returns it
