"""Devices, CPUs and memory of the stack's nodes that other pods hold: why a server that fits would not be scheduled.

What a node has says nothing of who has it. Pods that are about to end, and those that give way to any other, are not
counted. Nothing is known of nodes that the stack does not name.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.cluster.facts import ClusterFacts, PodFacts
from components.cluster.quantity import amount, shown
from components.pods.labels import identity
from components.pods.serving import Serving
from config.catalogue import find_gpu
from config.quantity import quantity_bytes
from config.stack.sections import StackConfig

_MAX_NAMED = 3
"""Pods that one line names."""


@dataclass(frozen=True)
class HeldDevices:
    """What others hold of the devices that the server wants."""

    lines: Sequence[str] = ()
    """One for each kind of device on a node of which too few are left."""
    prevents: bool = False
    """Whether fewer nodes are left than the server has pods, so that one of them would find none."""


def held_devices(instance: str, stack: StackConfig, facts: ClusterFacts, serving: Serving) -> HeldDevices:
    """What pods other than the stack's own hold on its nodes."""
    others = [pod for pod in facts.pods if not pod.ending and pod.priority >= 0 and not _is_own(pod, instance, stack)]
    wanted = {find_gpu(stack.nodes.gpu).vendor.resource: serving.gpus} if stack.nodes.gpu else {}
    if stack.nodes.fabric and serving.nodes > 1:
        wanted[stack.nodes.fabric.resource] = stack.nodes.fabric.count
    wanted |= wanted_room(serving.cpus, serving.memory_request)
    held = {
        node.name: list(_lines(node.name, node.allocatable, [pod for pod in others if pod.node == node.name], wanted))
        for node in facts.nodes
        if node.name in stack.nodes.names
    }
    left = sum(not lines for lines in held.values())
    lines = [line for lines in held.values() for line in lines]
    return HeldDevices(lines, prevents=bool(lines) and left < serving.pods)


def _is_own(pod: PodFacts, instance: str, stack: StackConfig) -> bool:
    """Whether the pod is of this stack's server or stager; a new server waits for the old one to end."""
    return pod.namespace == stack.cluster.namespace and identity(instance).items() <= pod.labels.items()


def _lines(
    node: str, allocatable: Mapping[str, str], pods: Sequence[PodFacts], wanted: Mapping[str, int]
) -> Iterator[str]:
    for resource, count in wanted.items():
        total = amount(resource, allocatable.get(resource, "0")) or 0
        holders = {f"{pod.namespace}/{pod.name}": number for pod in pods if (number := pod.devices.get(resource, 0))}
        held = sum(holders.values())
        # A node that never had enough has a fault of its own.
        if total - held < count <= total:
            yield (
                f"node {node}: {shown(resource, held)} of {shown(resource, total)} {resource} are held by "
                f"{_named(resource, holders)}, and the server needs {shown(resource, count)}; end them, or name "
                "another node in heavylift:nodes.names"
            )


def wanted_room(cpus: int | None, memory: str | None) -> dict[str, int]:
    """The CPUs, in thousandths, and the memory that a server asks for, where it does."""
    wanted = {"cpu": 1000 * cpus} if cpus else {}
    return wanted | ({"memory": quantity_bytes(memory)} if memory else {})


def _named(resource: str, holders: Mapping[str, int]) -> str:
    ordered = sorted(holders.items(), key=lambda holder: (-holder[1], holder[0]))
    named = ", ".join(f"{name} ({shown(resource, number)})" for name, number in ordered[:_MAX_NAMED])
    rest = len(ordered) - _MAX_NAMED
    return f"{named} and {rest} more pods" if rest > 0 else named
