"""Finds devices, CPUs and memory that other pods use on the stack's nodes, so that the server cannot be scheduled.

A node's allocatable quantity includes what pods already use. Terminating pods and pods with a negative priority do not
count. Only nodes that the stack names are checked.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.cluster.facts import ClusterFacts, PodFacts
from components.cluster.quantity import amount, shown
from components.pods.labels import identity
from components.pods.serving import Serving
from config.catalogue import described_gpu
from config.quantity import quantity_bytes
from config.stack.sections import StackConfig

_MAX_NAMED = 3
"""Pods that one line names at most."""


@dataclass(frozen=True)
class DevicesInUse:
    """Devices that the server needs and other pods use."""

    lines: Sequence[str] = ()
    """One line for each node and resource of which too little is left."""
    prevents: bool = False
    """Whether a pod of the server would find no node: the server has more pods than nodes are left."""


def devices_in_use(instance: str, stack: StackConfig, facts: ClusterFacts, serving: Serving) -> DevicesInUse:
    """Returns what pods of other stacks and users use on the stack's nodes."""
    others = [
        pod for pod in facts.pods if not pod.terminating and pod.priority >= 0 and not _is_own(pod, instance, stack)
    ]
    wanted = {described_gpu(stack.nodes.gpu).vendor.resource: serving.gpus} if stack.nodes.gpu else {}
    if stack.nodes.fabric and serving.nodes > 1:
        wanted[stack.nodes.fabric.resource] = stack.nodes.fabric.count
    wanted |= wanted_room(serving.cpus, serving.memory_request)
    in_use = {
        node.name: list(_lines(node.name, node.allocatable, [pod for pod in others if pod.node == node.name], wanted))
        for node in facts.nodes
        if node.name in stack.nodes.names
    }
    left = sum(not lines for lines in in_use.values())
    lines = [line for lines in in_use.values() for line in lines]
    return DevicesInUse(lines, prevents=bool(lines) and left < serving.pods)


def _is_own(pod: PodFacts, instance: str, stack: StackConfig) -> bool:
    """Whether the pod belongs to this stack. Such a pod does not count: a new server waits for the old one to end."""
    return pod.namespace == stack.cluster.namespace and identity(instance).items() <= pod.labels.items()


def _lines(
    node: str, allocatable: Mapping[str, str], pods: Sequence[PodFacts], wanted: Mapping[str, int]
) -> Iterator[str]:
    for resource, count in wanted.items():
        total = amount(resource, allocatable.get(resource, "0")) or 0
        users = {f"{pod.namespace}/{pod.name}": number for pod in pods if (number := pod.devices.get(resource, 0))}
        in_use = sum(users.values())
        # If the node never had enough, another check reports it.
        if total - in_use < count <= total:
            yield (
                f"node {node}: {shown(resource, in_use)} of {shown(resource, total)} {resource} are held by "
                f"{_named(resource, users)}, and the server needs {shown(resource, count)}; end them, or name "
                "another node in heavylift:nodes.names"
            )


def wanted_room(cpus: int | None, memory: str | None) -> dict[str, int]:
    """Returns the CPUs, in thousandths, and the memory, in bytes, that a pod of the server requests."""
    wanted = {"cpu": 1000 * cpus} if cpus else {}
    return wanted | ({"memory": quantity_bytes(memory)} if memory else {})


def _named(resource: str, users: Mapping[str, int]) -> str:
    ordered = sorted(users.items(), key=lambda user: (-user[1], user[0]))
    named = ", ".join(f"{name} ({shown(resource, number)})" for name, number in ordered[:_MAX_NAMED])
    rest = len(ordered) - _MAX_NAMED
    return f"{named} and {rest} more pods" if rest > 0 else named
