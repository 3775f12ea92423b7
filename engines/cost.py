"""What the nodes of a plan cost per hour, and on AWS the cluster around them, part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from config.catalogue import cluster_prices, find_instance
from engines.plan import CostPart
from engines.request import FitRequest


def cost_parts(request: FitRequest) -> tuple[CostPart, ...]:
    """The parts of the cost: all nodes of the stack, and the parts of an EKS cluster that the stack makes.

    Empty: no price is known of anything. Raises NotInCatalogueError.
    """
    return (*_nodes(request), *_cluster(request))


def cost_per_hour(parts: Sequence[CostPart]) -> float | None:
    """US dollars per hour of all parts. None: there are none, or the price of one is not known."""
    known = [part.usd_per_hour for part in parts if part.usd_per_hour is not None]
    return round(sum(known), 4) if parts and len(known) == len(parts) else None


def _nodes(request: FitRequest) -> Iterator[CostPart]:
    """The nodes: by the stack's price of a GPU, else by the instance type's dated price for the kind of capacity."""
    nodes = request.deployment.nodes if request.deployment else request.nodes
    if request.usd_per_gpu_hour is not None:
        cost = round(request.usd_per_gpu_hour * nodes * request.gpus_per_node, 4)
        yield CostPart("GPU nodes", cost, "nodes.usd_per_gpu_hour")
    elif request.instance_type is not None:
        price = find_instance(request.instance_type).price(request.capacity)
        dated = f", price of {price.year}" if price is not None and price.is_old else ""
        name = f"{nodes} x {request.instance_type} ({request.capacity}{dated})"
        if price is None:
            yield CostPart(name, None, "no price is published; state nodes.usd_per_gpu_hour")
        else:
            yield CostPart(name, round(price.usd_per_hour * nodes, 4), price.source)


def _cluster(request: FitRequest) -> Iterator[CostPart]:
    if request.deployment is not None and request.deployment.makes_cluster:
        for name, price in cluster_prices().items():
            yield CostPart(name, price.usd_per_hour, price.source)
