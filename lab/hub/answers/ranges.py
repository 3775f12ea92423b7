"""Byte ranges of a request (RFC 9110, sections 13.1.5 and 14): one range, `If-Range`, and nothing more.

The response to several ranges, other units than bytes, and malformed ranges is the whole file, as the standard allows.
"""

import re
from collections.abc import Mapping

_ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class NotSatisfiableError(Exception):
    """The range starts after the end of the file."""


def requested_range(headers: Mapping[str, str], *, size: int, etag: str) -> tuple[int, int] | None:
    """Returns the start and exclusive end of the requested range. None: the whole file.

    Raises:
        NotSatisfiableError: the range starts after the end of a file of `size` bytes.
    """
    if headers.get("If-Range", etag) != etag:
        return None
    match = _ONE_RANGE.fullmatch(headers.get("Range", "").replace(" ", ""))
    if match is None or match.group(1) == match.group(2) == "":
        return None
    first, last = match.groups()
    if first == "":
        start, stop = max(size - int(last), 0), size
    else:
        start, stop = int(first), min(int(last) + 1, size) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start == stop:
        raise NotSatisfiableError
    return start, stop
