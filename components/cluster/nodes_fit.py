"""Checks whether nodes can stage and serve: state, taints, GPUs, CPUs, memory, disk and fabric."""

from collections.abc import Iterator, Mapping, Sequence

from components.cluster.devices_in_use import wanted_room
from components.cluster.facts import NodeFacts
from components.cluster.quantity import amount, shown, whole
from components.cluster.settling import STATE_TAINTS
from components.cluster.whole_gpus import gpu_kind_faults
from components.pods.placement import HOSTNAME_LABEL
from config.catalogue import Gpu, described_gpu
from config.stack.sections import Engine, NodeKind, Nodes, StackConfig, Taint, TaintEffect, WeightsKind

_STATES = {
    "node.kubernetes.io/disk-pressure": "is short of disk: make room on its root or image file system",
    "node.kubernetes.io/memory-pressure": "is short of memory: end what takes it",
    "node.kubernetes.io/pid-pressure": "is short of process numbers: end what takes them",
    "node.kubernetes.io/network-unavailable": "has no network for pods yet: look at the network plugin",
    "node.kubernetes.io/out-of-service": "was taken out of service: remove the taint when it is back",
    "node.cloudprovider.kubernetes.io/uninitialized": "is not yet known to the cloud's controller",
    "ToBeDeletedByClusterAutoscaler": "is about to be removed by the cluster autoscaler",
}
"""Taints that reflect a node's state and disappear with it. Tolerating them in the stack would not help."""

_MAX_NAMED = 3
"""Nodes that one warning names at most."""

_STAGE_SCRATCH_BYTES = 2**30
"""Request of the stage pod (`components/pods/jobs/stage_pod.py`) for its requirements."""


def node_faults(stack: StackConfig, nodes: Sequence[NodeFacts]) -> list[str]:
    """Returns why the stack's nodes cannot stage and serve, one line for each reason. Those of EKS are yet to come."""
    if stack.nodes.kind is NodeKind.EKS:
        return []
    if not stack.nodes.names:
        return _unnamed_faults(stack, nodes)
    by_name = {node.name: node for node in nodes}
    faults = []
    for name in stack.nodes.names:
        if name in by_name:
            faults += [f"node {name}: {fault}" for fault in _node_faults(stack, by_name[name])]
        else:
            known = ", ".join(sorted(by_name)) or "none"
            faults.append(f"node {name}: does not exist; expected one of {known} in heavylift:nodes.names")
    return faults


def _unnamed_faults(stack: StackConfig, nodes: Sequence[NodeFacts]) -> list[str]:
    fit = [node.name for node in nodes if not list(_node_faults(stack, node))]
    if len(fit) < stack.nodes.total:
        reasons = [f"node {node.name}: {fault}" for node in nodes for fault in _node_faults(stack, node)]
        return reasons or ["the cluster has no nodes"]
    if len(fit) > stack.nodes.total and stack.weights.kind is WeightsKind.HOST_PATH:
        return [
            f"heavylift:nodes.names: is missing: weights of kind host-path lie on one node, and {len(fit)} would do "
            f"({', '.join(sorted(fit))}); name one"
        ]
    return []


def stage_candidates(stack: StackConfig, nodes: Sequence[NodeFacts]) -> Sequence[str]:
    """Returns the host names of the nodes that the Jobs may use if the stack names none. Empty: any node.

    If a storage class of local disks binds the claim to the first pod's node, the weights stay on that node. So if a
    pod without GPUs could land on a node that cannot serve, the Jobs get only those that can.
    """
    if stack.nodes.names or stack.nodes.kind is NodeKind.EKS:
        return ()
    strays = [node for node in nodes if _is_open(stack, node) and any(_node_faults(stack, node))]
    fit = [node.labels.get(HOSTNAME_LABEL, node.name) for node in nodes if not any(_node_faults(stack, node))]
    return sorted(fit) if strays else ()


def stray_server(stack: StackConfig, nodes: Sequence[NodeFacts]) -> str | None:
    """Returns a warning if the server may start on GPUs of another kind. None: no such node, or the nodes are named."""
    kind, expected = stack.nodes, stack.nodes.gpu
    if kind.names or expected is None or kind.kind is NodeKind.EKS:
        return None
    gpu = described_gpu(expected)
    others = sorted(
        node.name
        for node in nodes
        if _is_open(stack, node)
        and any(gpu_kind_faults(expected, gpu, node))
        and not any(_lacking(node, gpu.vendor.resource, kind.gpus_per_node, ""))
    )
    if not others:
        return None
    return (
        f"the server may start on {', '.join(others[:_MAX_NAMED])}, whose GPUs are not {expected}, since pods ask for "
        f"{gpu.vendor.resource} of any kind; name the nodes in heavylift:nodes.names"
    )


def _is_open(stack: StackConfig, node: NodeFacts) -> bool:
    """Whether a pod that asks for nothing could land on the node."""
    return not (node.not_ready or node.cordoned or any(_untolerated(stack.nodes.taints, node)))


def _node_faults(stack: StackConfig, node: NodeFacts) -> Iterator[str]:
    if node.not_ready:
        yield f"is not Ready ({node.not_ready})"
    if node.cordoned:
        yield "is cordoned; `kubectl uncordon` it"
    yield from _untolerated(stack.nodes.taints, node)
    if stack.nodes.names and node.labels.get(HOSTNAME_LABEL) != node.name:
        yield f"its label {HOSTNAME_LABEL} is {node.labels.get(HOSTNAME_LABEL)!r}: expected the node's name"
    if stack.nodes.gpu:
        yield from _gpu_faults(stack.nodes, described_gpu(stack.nodes.gpu), node)
    yield from _room_faults(stack.engine, node)
    if fabric := stack.nodes.fabric:
        yield from _lacking(node, fabric.resource, fabric.count, "heavylift:nodes.fabric.count")


def _gpu_faults(nodes: Nodes, gpu: Gpu, node: NodeFacts) -> Iterator[str]:
    yield from gpu_kind_faults(nodes.gpu or "", gpu, node)
    yield from _lacking(node, gpu.vendor.resource, nodes.gpus_per_node, "heavylift:nodes.gpus_per_node")
    driver = next((node.labels[label] for label in gpu.vendor.driver_labels if label in node.labels), None)
    if nodes.driver and driver and not f"{driver}.".startswith(f"{nodes.driver}."):
        yield f"has driver {driver}: expected {nodes.driver} (heavylift:nodes.driver)"


def _room_faults(engine: Engine, node: NodeFacts) -> Iterator[str]:
    """Yields a fault if a pod requests more than the node has. The scheduler would report this only after staging."""
    for resource, count in wanted_room(engine.cpus, engine.memory).items():
        total = amount(resource, node.allocatable.get(resource))
        if total is not None and total < count:
            key = "cpus" if resource == "cpu" else resource
            yield (
                f"has {shown(resource, total)} of {resource} allocatable, and the server asks for "
                f"{shown(resource, count)}; lower heavylift:engine.{key}, or name another node"
            )
    scratch = whole(node.allocatable.get("ephemeral-storage"))
    if scratch is not None and scratch < _STAGE_SCRATCH_BYTES:
        yield (
            f"has {shown('memory', scratch)} of ephemeral-storage allocatable, and the stage pod asks for "
            f"{shown('memory', _STAGE_SCRATCH_BYTES)}; make room on the kubelet's file system"
        )


def _lacking(node: NodeFacts, resource: str, expected: int, key: str) -> Iterator[str]:
    count = whole(node.allocatable.get(resource, "0")) or 0
    if count < expected:
        yield f"has {count} of {expected} {resource} allocatable; repair the node, or lower {key}"


def _untolerated(tolerated: Sequence[Taint], node: NodeFacts) -> Iterator[str]:
    for taint in node.taints:
        if taint["key"] in STATE_TAINTS and (node.not_ready or node.cordoned):
            continue  # already reported
        if state := _STATES.get(taint["key"]):
            yield f"{state} (taint {taint['key']}); the taint goes when that is over"
            continue
        keeps_pods_off = taint["effect"] != TaintEffect.PREFER_NO_SCHEDULE
        if keeps_pods_off and not any(_tolerates(known, taint) for known in tolerated):
            shown = f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
            yield f"has the taint {shown}, which heavylift:nodes.taints does not list"


def _tolerates(known: Taint, taint: Mapping[str, str]) -> bool:
    same_value = known.value is None or known.value == taint.get("value", "")
    same_effect = known.effect is None or known.effect == taint["effect"]
    return known.key == taint["key"] and same_value and same_effect
