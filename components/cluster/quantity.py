"""Quantities of Kubernetes objects in every notation: "8", "1k", "1e12", "5Ei", "100m"."""

import math
from decimal import Decimal

from kubernetes.utils.quantity import parse_quantity


def amount(resource: str, quantity: object) -> int | None:
    """Parses a quantity of a resource: CPUs in thousandths, others as whole numbers. None: not a quantity."""
    if resource != "cpu":
        return whole(quantity)
    try:
        number: Decimal = parse_quantity(quantity)  # type: ignore[no-untyped-call]
        return math.ceil(1000 * number)
    except (ValueError, ArithmeticError):
        return None


def shown(resource: str, number: int) -> str:
    """Formats an `amount` as Kubernetes does: "7500m" for CPUs, "224.0Gi" for memory, "8" for other resources."""
    match resource:
        case "cpu":
            return f"{number}m"
        case "memory":
            return f"{number / 2**30:.1f}Gi"
    return str(number)


def whole(quantity: object) -> int | None:
    """Parses a quantity, rounded up to a whole number as Kubernetes does. None: not a quantity."""
    try:
        number: Decimal = parse_quantity(quantity)  # type: ignore[no-untyped-call]
        return math.ceil(number)
    except (ValueError, ArithmeticError):
        return None
