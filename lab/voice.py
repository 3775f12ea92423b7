"""Progress messages on standard error."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

REMINDER_SECONDS = 15.0


def say(text: str) -> None:
    """Prints a progress message."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


@contextmanager
def reminding(doing: str) -> Iterator[None]:
    """Prints `doing` and the elapsed time every 15 s while the block runs."""
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
