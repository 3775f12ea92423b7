"""A rate in bytes per second, shared by all streams that are bound by it."""

import asyncio
import time

from lab.hub.stored.content import PIECE

_PIECES_PER_SECOND = 50


class Pace:
    """Lets bytes pass at no more than a given rate."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free_at = 0.0

    @property
    def piece(self) -> int:
        """The largest number of bytes to ask for at once, so that the stream is smooth."""
        return max(1, min(PIECE, int(self._rate / _PIECES_PER_SECOND)))

    async def admit(self, size: int) -> None:
        """Wait until `size` bytes may pass."""
        self._free_at = max(self._free_at, time.monotonic()) + size / self._rate
        await asyncio.sleep(self._free_at - time.monotonic())
