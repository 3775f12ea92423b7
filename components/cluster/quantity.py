"""Quantities in objects of the cluster, which anybody may have written: "8", "1k", "1e12", "5Ei", "100m"."""

import math
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity


def amount(resource: str, quantity: object) -> int | None:
    """What a quantity of a resource stands for: CPUs in thousandths, all else in whole numbers; None: it is none."""
    if resource != "cpu":
        return whole(quantity)
    try:
        number: Decimal = parse_quantity(quantity)  # type: ignore[no-untyped-call]
        return math.ceil(1000 * number)
    except (ValueError, ArithmeticError):
        return None


def shown(resource: str, number: int) -> str:
    """An `amount` as Kubernetes writes it: "7500m" CPUs, "224.0Gi" of memory, "8" of any other resource."""
    match resource:
        case "cpu":
            return f"{number}m"
        case "memory":
            return f"{number / 2**30:.1f}Gi"
    return str(number)


def whole(quantity: object) -> int | None:
    """The number that a quantity stands for, rounded up as Kubernetes does; None: it is no quantity."""
    try:
        number: Decimal = parse_quantity(quantity)  # type: ignore[no-untyped-call]
        return math.ceil(number)
    except (ValueError, ArithmeticError):
        return None
