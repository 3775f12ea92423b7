"""Parses bandwidths such as "10 Gbit/s" and "1.2 GB/s"."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

_PREFIXES = {"k": 1e3, "M": 1e6, "G": 1e9}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?) ?([kMG])(bit|B)/s")


def bytes_per_second(bandwidth: str) -> float:
    """Bytes per second of a bandwidth such as "10 Gbit/s" or "250 MB/s" (powers of 1000).

    Raises ValueError for anything else.
    """
    match = _PATTERN.fullmatch(bandwidth)
    if match is None or float(match[1]) == 0:
        raise ValueError("is not a bandwidth: expected a number and a unit, such as 10 Gbit/s or 250 MB/s")
    number, prefix, unit = match.groups()
    return float(number) * _PREFIXES[prefix] / (8 if unit == "bit" else 1)


def _checked(bandwidth: Any) -> Any:
    bytes_per_second(str(bandwidth))
    return bandwidth


Bandwidth = Annotated[str, BeforeValidator(_checked)]
"""A bandwidth with its unit, kept as written."""
