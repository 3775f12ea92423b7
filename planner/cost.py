"""Dollars per hour: a stated rate per GPU, else the dated price of the instance type."""

from __future__ import annotations

from config.catalogue import find_instance
from planner.request import FitRequest


def cost_per_hour(request: FitRequest) -> float | None:
    """US dollars per hour of all nodes. `None`: neither a rate nor a price is known. Raises NotInCatalogueError."""
    if request.usd_per_gpu_hour is not None:
        return round(request.usd_per_gpu_hour * request.nodes * request.gpus_per_node, 4)
    if request.instance_type is None:
        return None
    price = find_instance(request.instance_type).usd_per_hour
    return None if price is None else round(price * request.nodes, 4)
