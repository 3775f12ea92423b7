"""A rate limit in bytes per second that streams share."""

import asyncio
import time

from lab.hub.stored.content import PIECE

_PIECES_PER_SECOND = 50


class Pace:
    """Limits the rate of bytes."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    @property
    def piece(self) -> int:
        """The largest number of bytes to admit at once. Small pieces keep the stream smooth."""
        return max(1, min(PIECE, int(self._rate / _PIECES_PER_SECOND)))

    async def admit(self, size: int) -> None:
        """Waits until `size` bytes may be sent."""
        self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
        await asyncio.sleep(self._free_at - time.monotonic())
