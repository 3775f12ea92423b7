"""Preflight: checks the cluster before anything is created, and finds objects to adopt.

Reports all faults in one message. If the cluster cannot be reached, a preview warns and `up` fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.cluster import facts as cluster_facts
from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.devices_in_use import devices_in_use, wanted_room
from components.cluster.facts import LEADER_WORKER_SETS, ClusterFacts, NodeFacts, VolumeFacts
from components.cluster.quantity import amount, shown, whole
from components.cluster.settling import STATE_TAINTS, read_settled
from components.cluster.whole_gpus import gpu_kind_faults
from components.pods.labels import labels
from components.pods.names import claim_name, disk_name
from components.pods.placement import HOSTNAME_LABEL
from components.pods.serving import Serving
from config.catalogue import Gpu, find_gpu
from config.quantity import gigabytes
from config.stack.sections import Engine, Nodes, StackConfig, Taint, TaintEffect, WeightsKind

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


@dataclass(frozen=True)
class PreflightResult:
    """What the program makes or adopts, as far as the cluster decides it."""

    make_namespace: bool = True
    """Whether the stack owns the namespace: it does not exist, or the stack created it earlier."""
    adopt_namespace: str | None = None
    """ID of the namespace to adopt. None: none exists."""
    adopt_claim: str | None = None
    """ID of the claim to adopt. None: none exists."""


def preflight(
    instance: str, volume: str, stack: StackConfig, api: ClusterApi, volume_bytes: int | None, serving: Serving
) -> PreflightResult:
    """Checks the cluster for the stack and its server. Returns what to make and what to adopt.

    `instance`: name of the stack. `volume`: name of the claim for the weights, or prefix of each node's claim.
    Raises pulumi.RunError with every fault, or if `up` cannot reach the cluster.
    """
    groups = serving.pods > 1
    pods_of = stack.nodes.names if serving.gpus else ()
    try:
        facts = read_settled(
            lambda: cluster_facts.read_cluster(
                api, stack.cluster.namespace, stack.weights.kind, groups=groups, pods_of=pods_of
            ),
            stack.nodes.names,
        )
    except ClusterUnreachable as reason:
        message = f"cluster '{stack.cluster.context}' cannot be reached: {reason}"
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"{message}; nothing was created") from None
        pulumi.warn(f"{message}; it was not checked, and an update may do other than this preview shows")
        return PreflightResult()
    faults = [*node_faults(stack, facts.nodes), *volume_faults(volume, stack, facts, volume_bytes)]
    faults += group_faults(facts) if groups else []
    faults += _in_use_faults(instance, stack, facts, serving)
    if faults:
        summary = f"cluster '{stack.cluster.context}' is not fit for this stack, nothing was created:"
        raise pulumi.RunError("\n  ".join([summary, *faults]))
    if words := stray_stage(stack, facts.nodes):
        pulumi.warn(words)
    return _result(instance, claim_name(volume), stack, facts)


def _in_use_faults(instance: str, stack: StackConfig, facts: ClusterFacts, serving: Serving) -> Sequence[str]:
    """Returns a fault for devices in use if `up` could not succeed. Otherwise, and in a preview, warns."""
    if facts.pods_hidden:
        pulumi.warn(f"whether other pods hold devices of the nodes was not checked: {facts.pods_hidden}")
    in_use = devices_in_use(instance, stack, facts, serving)
    if in_use.prevents and not pulumi.runtime.is_dry_run():
        return in_use.lines
    for line in in_use.lines:
        pulumi.warn(line)
    return []


def _result(instance: str, claim: str, stack: StackConfig, facts: ClusterFacts) -> PreflightResult:
    namespace, existing = stack.cluster.namespace, facts.namespace_labels
    is_own = existing is not None and labels(instance, "namespace").items() <= existing.items()
    return PreflightResult(
        make_namespace=existing is None or is_own,
        adopt_namespace=namespace if is_own else None,
        adopt_claim=f"{namespace}/{claim}" if claim in facts.claims else None,
    )


def group_faults(facts: ClusterFacts) -> list[str]:
    """Returns why a server cannot run as groups of pods."""
    if facts.leader_worker_sets:
        return []
    return [
        f"the API {LEADER_WORKER_SETS} is missing: a server over several nodes needs the LeaderWorkerSet controller; "
        "install it (https://lws.sigs.k8s.io/docs/installation/) and try again"
    ]


def node_faults(stack: StackConfig, nodes: Sequence[NodeFacts]) -> list[str]:
    """Returns why the stack's nodes cannot stage and serve, one line for each reason."""
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
    if len(fit) < stack.nodes.count:
        reasons = [f"node {node.name}: {fault}" for node in nodes for fault in _node_faults(stack, node)]
        return reasons or ["the cluster has no nodes"]
    if len(fit) > stack.nodes.count and stack.weights.kind is WeightsKind.HOST_PATH:
        return [
            f"heavylift:nodes.names: is missing: weights of kind host-path lie on one node, and {len(fit)} would do "
            f"({', '.join(sorted(fit))}); name one"
        ]
    return []


def stray_stage(stack: StackConfig, nodes: Sequence[NodeFacts]) -> str | None:
    """Returns a warning if the stage pod may run on a node where the server cannot. None: no such node, or harmless.

    If a storage class of local disks binds the claim to the first pod's node, the weights stay on that node.
    """
    if stack.nodes.names or stack.nodes.gpu is None or stack.weights.kind is not WeightsKind.CLAIM:
        return None
    open_to_pods = [n for n in nodes if not (n.not_ready or n.cordoned or list(_untolerated(stack.nodes.taints, n)))]
    stray = sorted(node.name for node in open_to_pods if list(_node_faults(stack, node)))
    if not stray:
        return None
    return (
        f"the weights may be staged on {', '.join(stray[:_MAX_NAMED])}, which cannot serve: a storage class of local "
        "disks would keep them there, out of the server's reach; name the nodes in heavylift:nodes.names"
    )


def _node_faults(stack: StackConfig, node: NodeFacts) -> Iterator[str]:
    if node.not_ready:
        yield f"is not Ready ({node.not_ready})"
    if node.cordoned:
        yield "is cordoned; `kubectl uncordon` it"
    yield from _untolerated(stack.nodes.taints, node)
    if stack.nodes.names and node.labels.get(HOSTNAME_LABEL) != node.name:
        yield f"its label {HOSTNAME_LABEL} is {node.labels.get(HOSTNAME_LABEL)!r}: expected the node's name"
    if stack.nodes.gpu:
        yield from _gpu_faults(stack.nodes, find_gpu(stack.nodes.gpu), node)
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


def volume_faults(volume: str, stack: StackConfig, facts: ClusterFacts, needed: int | None) -> list[str]:
    """Returns faults of existing volumes with this stack's names, and of the storage class of a new claim."""
    match stack.weights.kind:
        case WeightsKind.CLAIM:
            claim = claim_name(volume)
            if claim not in facts.claims:
                return _storage_class_faults(stack.weights.storage_class, facts.storage_classes)
            existing = {f"claim {claim}": facts.claims[claim]}
        case WeightsKind.LOCAL:
            disks = [disk_name(stack.cluster.namespace, volume, node) for node in stack.nodes.names]
            existing = {f"volume {disk}": facts.disks[disk] for disk in disks if disk in facts.disks}
        case WeightsKind.HOST_PATH:
            existing = {}
    return [f"{name}: {fault}" for name, volume in existing.items() for fault in _volume_faults(stack, volume, needed)]


def _storage_class_faults(wanted: str | None, known: Mapping[str, bool]) -> list[str]:
    names = ", ".join(sorted(known)) or "none"
    if wanted is not None and wanted not in known:
        return [f"heavylift:weights.storage_class: '{wanted}' does not exist: expected one of {names}"]
    if wanted is None and not any(known.values()):
        return [f"heavylift:weights.storage_class: is missing: the cluster has no default; expected one of {names}"]
    return []


def _volume_faults(stack: StackConfig, volume: VolumeFacts, needed: int | None) -> Iterator[str]:
    if volume.size_bytes is None:
        yield "its size cannot be read; delete it and let a new one be made"
    elif needed is not None and volume.size_bytes < needed:
        why = "heavylift:weights.size asks for"
        if stack.weights.size is None:
            why = f"{stack.weights.keep_revisions} revisions and a margin need"
        yield (
            f"has {gigabytes(volume.size_bytes)} for good, {why} {gigabytes(needed)}, "
            f"{gigabytes(needed - volume.size_bytes)} more; prune old revisions and lower "
            "heavylift:weights.keep_revisions, or delete it and let a new one be made"
        )
    wanted = stack.weights.storage_class
    if wanted is not None and volume.storage_class != wanted:
        yield f"is of storage class {volume.storage_class}: expected {wanted}; delete it, or correct the stack"
    if volume.path is not None and volume.path != stack.weights_path:
        yield f"lies in {volume.path}: expected {stack.weights_path}; delete it with its claim, or correct the stack"
