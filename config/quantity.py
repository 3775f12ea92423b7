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


def quantity_bytes(quantity: str) -> int:
    """The number of bytes of a quantity such as "400Gi".

    Raises ValueError for anything else.
    """
    match = _PATTERN.fullmatch(quantity)
    if match is None:
        raise ValueError(_NOT_A_SIZE)
    number, unit = match.groups()
    return math.ceil(Decimal(number) * _UNITS[unit])


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
