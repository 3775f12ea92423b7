"""Contents with a wrong byte or a wrong length."""

from collections.abc import Iterator
from itertools import chain

from lab.hub.stored.content import PIECE, Content


class FlippedContent:
    """A content with all bits of one byte flipped."""

    def __init__(self, content: Content, offset: int) -> None:
        self._content = content
        self._offset = offset

    @property
    def size(self) -> int:
        return self._content.size

    def pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        position = start
        for piece in self._content.pieces(start, stop):
            index = self._offset - position
            if 0 <= index < len(piece):
                flipped = bytearray(piece)
                flipped[index] ^= 0xFF
                yield memoryview(flipped)
            else:
                yield piece
            position += len(piece)


class ResizedContent:
    """A content that is cut, or extended with zeros."""

    def __init__(self, content: Content, by: int) -> None:
        self._content = content
        self._size = max(content.size + by, 0)

    @property
    def size(self) -> int:
        return self._size

    def pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        end = self._content.size
        zeros = max(stop - max(start, end), 0)
        padding = (memoryview(bytes(min(PIECE, zeros - done))) for done in range(0, zeros, PIECE))
        return chain(self._content.pieces(min(start, end), min(stop, end)), padding)
