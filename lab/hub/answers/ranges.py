"""Byte ranges of a request (RFC 9110, sections 13.1.5 and 14): one range, `If-Range`, and nothing more.

Several ranges in one request, units other than bytes and malformed ranges are answered with the whole file, as the
standard allows.
"""

import re
from collections.abc import Mapping

_ONE_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


class NotSatisfiableError(Exception):
    """The range starts behind the end of the file."""


def requested_range(headers: Mapping[str, str], *, size: int, etag: str) -> tuple[int, int] | None:
    """First byte and the byte behind the last that a request asks for, or None for the whole file.

    Raises:
        NotSatisfiableError: there is no such byte in a file of `size` bytes.
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
