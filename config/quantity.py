"""Parses and formats the byte quantities of a stack ("400Gi", "2T").

Accepts the Kubernetes quantities that people write for sizes: no sign, exponent or milli-bytes. Quantities that a
cluster reports are parsed by `components.cluster.quantity`.
"""

import math
import re
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

from config.units import GIB

_UNITS: dict[str, int] = {
    "": 1,
    **{unit: 1000**power for power, unit in enumerate(("k", "M", "G", "T", "P"), start=1)},
    **{unit: 1024**power for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"), start=1)},
}
_NOT_A_SIZE = "is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti"
_PATTERN = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(_UNITS)})")
_ANY_PATTERN = re.compile(rf"(\d+(?:\.\d+)?)({'|'.join(_UNITS)}|m)")


def quantity_bytes(quantity: str) -> int:
    """The number of bytes of a quantity such as "400Gi".

    Raises ValueError for anything else.
    """
    match = _PATTERN.fullmatch(quantity)
    if match is None:
        raise ValueError(_NOT_A_SIZE)
    number, unit = match.groups()
    return math.ceil(Decimal(number) * _UNITS[unit])


def canonical(quantity: str) -> str:
    """A quantity as Kubernetes stores it: no fraction, and the largest unit that needs none. Other text stays as it is.

    Source: the documentation of Quantity (github.com/kubernetes/apimachinery, pkg/api/resource/quantity.go).
    """
    match = _ANY_PATTERN.fullmatch(quantity)
    if match is None:
        return quantity
    number, unit = match.groups()
    value = Decimal(number) * (Decimal("0.001") if unit == "m" else _UNITS[unit])
    if value % 1:
        return f"{math.ceil(value * 1000)}m"
    base = 1024 if unit.endswith("i") and value >= 1024 else 1000
    fitting = (name for name, size in _UNITS.items() if name.endswith("i") is (base == 1024) and value % size == 0)
    largest = max(fitting, key=_UNITS.__getitem__, default="") if value else ""
    return f"{int(value) // _UNITS[largest]}{largest}"


def whole_gibibytes(size: int) -> str:
    """The smallest quantity in whole Gi that holds `size` bytes."""
    return f"{math.ceil(size / GIB)}Gi"


def gigabytes(size: int) -> str:
    """`size` bytes in GB (10^9), the unit in which checkpoints are published: "595.1 GB"."""
    return f"{size / 1e9:.1f} GB"


def _checked(quantity: Any) -> Any:
    if not isinstance(quantity, str) or quantity_bytes(quantity) == 0:
        raise ValueError(_NOT_A_SIZE)
    return quantity


Quantity = Annotated[str, BeforeValidator(_checked)]
"""A byte quantity as Kubernetes writes it, kept as written."""
