"""Preflight: checks the cluster before anything is created, and finds objects to adopt.

Reports all faults in one message. If the cluster cannot be reached, a preview warns and `up` fails.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pulumi

from components.cluster import facts as cluster_facts
from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.devices_in_use import devices_in_use
from components.cluster.facts import LEADER_WORKER_SETS, ClusterFacts, NodeFacts, VolumeFacts
from components.cluster.nodes_fit import node_faults, stage_candidates, stray_server
from components.cluster.quantity import whole
from components.cluster.settling import read_settled
from components.metrics.selection import MONITORING, NAMESPACE_NAME, Monitoring, selection, unreached
from components.network.exposure import gateway_faults, gateway_warning
from components.pods.labels import labels
from components.pods.names import claim_name, disk_name, served_claim_name
from components.pods.serving import Serving
from config.quantity import gigabytes
from config.stack.sections import Installation, MetricsKind, StackConfig, WeightsKind

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
    candidates: Sequence[str] = ()
    """Host names of the nodes that the Jobs may use, if the stack names none. Empty: any node."""


def preflight(
    instance: str, volume: str, stack: StackConfig, api: ClusterApi, volume_bytes: int | None, serving: Serving
) -> PreflightResult:
    """Checks the cluster for the stack and its server. Returns what to make and what to adopt.

    `instance`: name of the stack. `volume`: name of the claim for the weights, or prefix of each node's claim.
    Raises pulumi.RunError with every fault, or if `up` cannot reach the cluster.
    """
    groups, monitored = serving.pods > 1, stack.metrics is not None and stack.metrics.kind is MetricsKind.POD_MONITOR
    pods_of = stack.nodes.names if serving.gpus else ()
    try:
        facts = read_settled(
            lambda: cluster_facts.read_cluster(
                api,
                stack.cluster.namespace,
                stack.weights.kind,
                groups=groups,
                monitoring=monitored,
                expose=stack.expose,
                pods_of=pods_of,
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
    installs = Installation.LEADER_WORKER_SET in stack.nodes.install
    faults += group_faults(facts) if groups and not installs else []
    faults += monitoring_faults(facts.monitoring) if monitored else []
    faults += gateway_faults(facts.gateways, stack.cluster.namespace, stack.expose) if stack.expose else []
    faults += _in_use_faults(instance, stack, facts, serving)
    if faults:
        summary = f"cluster '{stack.cluster.context}' is not fit for this stack, nothing was created:"
        raise pulumi.RunError("\n  ".join([summary, *faults]))
    disks = unmounted_disks(stack, facts.nodes, volume_bytes)
    gateway = gateway_warning(facts.gateways, stack.expose, stack.network) if stack.expose else None
    for words in (stray_server(stack, facts.nodes), disks, facts.unenforced, gateway):
        if words:
            pulumi.warn(words)
    if monitored:
        _say_who_selects(instance, stack, facts)
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


def _say_who_selects(instance: str, stack: StackConfig, facts: ClusterFacts) -> None:
    """Says which Prometheus will scrape the server, or what is missing that one does."""
    if stack.metrics is None:
        return
    namespace = stack.cluster.namespace
    made = {**labels(instance, "namespace"), NAMESPACE_NAME: namespace}
    found = selection(
        facts.monitoring,
        namespace,
        made if facts.namespace_labels is None else facts.namespace_labels,
        {**labels(instance, "metrics"), **stack.metrics.labels},
        rules=stack.metrics.alerts,
    )
    for words in found.selected:
        pulumi.info(f"metrics: {words}")
    blocked = unreached(found.scrapers, stack.network)
    for words in [*found.missing, *([blocked] if blocked else [])]:
        pulumi.warn(f"metrics: {words}")


def _result(instance: str, claim: str, stack: StackConfig, facts: ClusterFacts) -> PreflightResult:
    namespace, existing = stack.cluster.namespace, facts.namespace_labels
    is_own = existing is not None and labels(instance, "namespace").items() <= existing.items()
    return PreflightResult(
        make_namespace=existing is None or is_own,
        adopt_namespace=namespace if is_own else None,
        adopt_claim=f"{namespace}/{claim}" if claim in facts.claims else None,
        candidates=stage_candidates(stack, facts.nodes),
    )


def group_faults(facts: ClusterFacts) -> list[str]:
    """Returns why a server cannot run as groups of pods."""
    if facts.leader_worker_sets:
        return []
    return [
        f"the API {LEADER_WORKER_SETS} is missing: a server over several nodes needs the LeaderWorkerSet controller; "
        "set heavylift:nodes.install to [leaderworkerset], or install it (https://lws.sigs.k8s.io/docs/installation/) "
        "and try again"
    ]


def monitoring_faults(monitoring: Monitoring) -> list[str]:
    """Returns why a PodMonitor cannot be made."""
    if monitoring.has_api:
        return []
    return [
        f"the API {MONITORING} is missing: heavylift:metrics.kind pod-monitor needs the Prometheus Operator; install "
        "it (https://prometheus-operator.dev) and try again, or set heavylift:metrics.kind to annotations, or leave "
        "heavylift:metrics out"
    ]


def volume_faults(volume: str, stack: StackConfig, facts: ClusterFacts, needed: int | None) -> list[str]:
    """Returns faults of existing volumes with this stack's names, and of the storage class of a new claim."""
    match stack.weights.kind:
        case WeightsKind.CLAIM:
            claim = claim_name(volume)
            if claim not in facts.claims:
                return _storage_class_faults(stack.weights.storage_class, facts.storage_classes)
            existing = {f"claim {claim}": facts.claims[claim]}
        case WeightsKind.LOCAL:
            claims = [claim_name(volume, node) for node in stack.nodes.names]
            disks = [disk_name(stack.cluster.namespace, claim) for claim in (*claims, served_claim_name(volume))]
            existing = {f"volume {disk}": facts.disks[disk] for disk in disks if disk in facts.disks}
        case WeightsKind.HOST_PATH:
            existing = {}
    return [f"{name}: {fault}" for name, volume in existing.items() for fault in _volume_faults(stack, volume, needed)]


def unmounted_disks(stack: StackConfig, nodes: Sequence[NodeFacts], needed: int | None) -> str | None:
    """Returns a warning if the weights fit only on a disk of their own. The API does not say what is mounted where."""
    path, nvme = stack.weights_path, stack.nodes.nvme_path
    if needed is None or path is None or (nvme and f"{path}/".startswith(f"{nvme}/")):
        return None
    small = {
        node.name: capacity
        for node in nodes
        if node.name in stack.nodes.names
        and (capacity := whole(node.allocatable.get("ephemeral-storage"))) is not None
        and capacity < needed
    }
    if not small:
        return None
    sizes = ", ".join(f"{name} {gigabytes(size)}" for name, size in sorted(small.items())[:_MAX_NAMED])
    return (
        f"heavylift:weights.path: {path} must be the mount point of a disk of its own: the weights need "
        f"{gigabytes(needed)}, and pods get less of the kubelet's file system before it evicts them ({sizes})"
    )


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
