"""Quantities in objects of the cluster, which anybody may have written: "8", "1k", "1e12", "5Ei", "100m"."""

import math
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity


def whole(quantity: object) -> int | None:
    """The number that a quantity stands for, rounded up as Kubernetes does; None: it is no quantity."""
    try:
        number: Decimal = parse_quantity(quantity)  # type: ignore[no-untyped-call]
        return math.ceil(number)
    except (ValueError, ArithmeticError):
        return None
