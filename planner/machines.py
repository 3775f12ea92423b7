"""The machines on which recommendations are planned: GPUs that are available, or EC2 instance types with a price."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

from config.catalogue import CapacityKind, Instance, find_gpu, instances
from engines.request import FitRequest

_COUNTS = (1, 2, 4, 8)
_NODES = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Machines:
    """What is available."""

    gpu: str | None
    """None: EC2 instance types with a price."""
    gpus_per_node: int
    nodes: int

    @property
    def most_nodes(self) -> int:
        """The most nodes of one server that are tried."""
        return max(_NODES)


@dataclass(frozen=True, slots=True)
class Machine:
    """A request on one kind and number of nodes."""

    request: FitRequest
    price: float
    """Dollars per hour, or the number of GPUs where that is not known: what machines are sorted by."""

    @property
    def memory_bytes(self) -> int:
        """Memory of its GPUs together."""
        each = find_gpu(self.request.gpu or "").memory_bytes or 0
        return each * self.request.gpus_per_node * self.request.nodes


def sold_as(kind: CapacityKind) -> list[Instance]:
    """The EC2 instance types that are sold in this way: for each GPU and count of GPUs the cheapest, which is one of
    unknown price only if there is no other."""
    best: dict[tuple[str, int], tuple[float, Instance]] = {}
    for instance in instances():
        price = instance.price(kind)
        if kind is CapacityKind.CAPACITY_BLOCK and kind not in instance.usage_classes:
            continue
        cost = price.usd_per_hour if price else inf
        key = (instance.gpu, instance.gpus)
        if key not in best or cost < best[key][0]:
            best[key] = cost, instance
    return [instance for _, instance in best.values()]


def machines(available: Machines, request: FitRequest) -> list[Machine]:
    """The request on every machine, the cheapest first. Raises NotInCatalogueError for an unknown GPU."""
    found = _of_gpu(available, request) if available.gpu is not None else _rentable(request)
    return sorted(found, key=lambda machine: machine.price)


def _of_gpu(available: Machines, request: FitRequest) -> Iterator[Machine]:
    name = find_gpu(available.gpu or "").name
    for count in _COUNTS:
        if count <= available.gpus_per_node:
            yield Machine(replace(request, gpu=name, gpus_per_node=count), count)
    for nodes in _NODES:
        if 1 < nodes <= available.nodes:
            per_node = available.gpus_per_node
            yield Machine(replace(request, gpu=name, nodes=nodes, gpus_per_node=per_node), nodes * per_node)


def _rentable(request: FitRequest) -> Iterator[Machine]:
    for instance, price in _cheapest_instances():
        for nodes in _NODES:
            if nodes == 1 or instance.gpus == max(_COUNTS):
                of_instance = replace(
                    request,
                    gpu=instance.gpu,
                    gpus_per_node=instance.gpus,
                    nodes=nodes,
                    instance_type=instance.type,
                    fabric="efa" if instance.efa_interfaces else "none",
                )
                yield Machine(of_instance, price * nodes)


def _cheapest_instances() -> Iterator[tuple[Instance, float]]:
    """For each GPU and count, the instance type that is cheapest on demand, and its price per hour."""
    cheapest: dict[tuple[str, int], tuple[Instance, float]] = {}
    for instance in instances():
        key = (instance.gpu, instance.gpus)
        if instance.on_demand is None:
            continue
        if key not in cheapest or instance.on_demand.usd_per_hour < cheapest[key][1]:
            cheapest[key] = instance, instance.on_demand.usd_per_hour
    yield from cheapest.values()
