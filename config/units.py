"""Units of memory and time."""

GIB = 2**30
"""Bytes of a GiB."""


def duration(seconds: float) -> str:
    """A duration for people, such as `40 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
