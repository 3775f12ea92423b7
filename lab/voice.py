"""What the lab says to the person who waits, on standard error: what it does, and that it still does it."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REMINDER_SECONDS = 15.0


def say(text: str) -> None:
    """A line for the person who waits."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextmanager
def reminding(doing: str) -> Iterator[None]:
    """Says every quarter of a minute that it is still `doing` it, and for how long; nothing of what is done sooner."""
    done = threading.Event()
    started = time.monotonic()

    def remind() -> None:
        while not done.wait(REMINDER_SECONDS):
            say(f"still {doing}, for {time.monotonic() - started:.0f} s")

    reminder = threading.Thread(target=remind, daemon=True)
    reminder.start()
    try:
        yield
    finally:
        done.set()
        reminder.join()
