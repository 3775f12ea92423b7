"""The state of a cluster before anything is created: its nodes, their pods, and objects of earlier stacks.

This module only reads; `preflight` checks what it returns.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.quantity import amount, whole
from components.metrics.selection import Monitoring, read_monitoring
from components.network.enforcement import unenforced
from components.network.exposure import Gateways, read_gateways
from config.stack.sections import Expose, WeightsKind

LEADER_WORKER_SETS = "leaderworkerset.x-k8s.io/v1"
"""API group and version of LeaderWorkerSets."""
_DIRECTORIES = frozenset({"local", "hostPath"})
"""Sources of PersistentVolumes that are a directory of a node."""


@dataclass(frozen=True)
class NodeFacts:
    """One node."""

    name: str
    not_ready: str | None = None
    """Why the node is not Ready. None: Ready."""
    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Quantity that all pods together can request, by resource. `ephemeral-storage`: of the kubelet's file system,
    without the part at which it begins to evict pods."""


@dataclass(frozen=True)
class PodFacts:
    """A pod that is scheduled and has not finished."""

    namespace: str
    name: str
    node: str
    labels: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, int] = field(default_factory=dict)
    """Devices, CPUs (in thousandths) and memory (in bytes) that the pod requests, by resource."""
    priority: int = 0
    """Below 0: any pod without a priority can preempt it."""
    terminating: bool = False
    """Whether the pod is being deleted."""


@dataclass(frozen=True)
class VolumeFacts:
    """An existing PersistentVolumeClaim or PersistentVolume."""

    size_bytes: int | None
    """None: the size is not a valid quantity."""
    storage_class: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class ClusterFacts:
    """The state of one cluster that matters to one stack."""

    nodes: Sequence[NodeFacts] = ()
    pods: Sequence[PodFacts] = ()
    """Pods on the requested nodes."""
    pods_hidden: str | None = None
    """Why these pods could not be read. None: read, or not requested."""
    namespace_labels: Mapping[str, str] | None = None
    """Labels of the stack's namespace. None: no such namespace."""
    claims: Mapping[str, VolumeFacts] = field(default_factory=dict)
    """PersistentVolumeClaims of the stack's namespace, by name. Read only for weights of kind `claim`."""
    disks: Mapping[str, VolumeFacts] = field(default_factory=dict)
    """PersistentVolumes that are a directory of a node, by name. Not read for weights of kind `host-path`."""
    storage_classes: Mapping[str, bool] = field(default_factory=dict)
    """Classes that can bind a claim, and whether a claim without a class gets this one. Read only for kind `claim`.
    A volume that was created by hand binds claims of its class, even if no StorageClass has that name."""
    leader_worker_sets: bool = False
    """Whether the cluster has the LeaderWorkerSet API. Read only for servers of several pods."""
    unenforced: str | None = None
    """Why it is not known that the cluster enforces NetworkPolicies. None: it does."""
    monitoring: Monitoring = field(default_factory=Monitoring)
    """The Prometheus Operator. Read only for a stack with a PodMonitor."""
    gateways: Gateways = field(default_factory=Gateways)
    """The stack's Gateway. Read only for a stack with `expose`."""


def read_cluster(
    api: ClusterApi,
    namespace: str,
    kind: WeightsKind,
    *,
    groups: bool = False,
    monitoring: bool = False,
    expose: Expose | None = None,
    pods_of: Sequence[str] = (),
) -> ClusterFacts:
    """Reads the cluster's state for one namespace and kind of weights.

    `groups`: whether the server needs LeaderWorkerSets. `monitoring`: whether the stack makes a PodMonitor. `expose`:
    the Gateway to read. `pods_of`: nodes whose pods to read, one node at a time, because listing every pod is too slow
    on large clusters.
    Raises ClusterUnreachable if the cluster does not answer, or the credentials do not permit a request.
    """
    try:
        facts = replace(
            _facts(api, namespace, kind, groups),
            monitoring=read_monitoring(api, wanted=monitoring),
            gateways=read_gateways(api, namespace, expose),
        )
        return _with_pods(facts, api, pods_of)
    except (ValueError, KeyError):
        raise ClusterUnreachable("its answer is not that of a Kubernetes API server") from None


def _facts(api: ClusterApi, namespace: str, kind: WeightsKind, groups: bool) -> ClusterFacts:
    own = api.find(f"/api/v1/namespaces/{namespace}")
    disks = [] if kind is WeightsKind.HOST_PATH else api.read("/api/v1/persistentvolumes")["items"]
    claims = []
    storage_classes: dict[str, bool] = {}
    if kind is WeightsKind.CLAIM:
        claims = api.read(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
        classes = api.read("/apis/storage.k8s.io/v1/storageclasses")["items"]
        storage_classes = _handmade(disks) | dict(_each(_storage_class, classes))
    return ClusterFacts(
        nodes=list(_each(node_facts, api.read("/api/v1/nodes")["items"])),
        namespace_labels=None if own is None else own["metadata"].get("labels") or {},
        claims=dict(_each(_claim, claims)),
        disks=dict(_each(_disk, [disk for disk in disks if _DIRECTORIES & (disk.get("spec") or {}).keys()])),
        storage_classes=storage_classes,
        leader_worker_sets=groups and api.find(f"/apis/{LEADER_WORKER_SETS}") is not None,
        unenforced=unenforced(api),
    )


def _with_pods(facts: ClusterFacts, api: ClusterApi, nodes: Sequence[str]) -> ClusterFacts:
    """Adds the nodes' pods to the facts, or the reason if the credentials may not list pods of all namespaces."""
    try:
        return replace(facts, pods=tuple(pod for node in nodes for pod in _pods(api, node)))
    except ClusterUnreachable as refusal:
        return replace(facts, pods_hidden=str(refusal))


def _pods(api: ClusterApi, node: str) -> list[PodFacts]:
    still_there = f"spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed"
    return list(_each(_pod, api.read("/api/v1/pods", fieldSelector=still_there)["items"]))


Facts = TypeVar("Facts")


def _each(read: Callable[[dict[str, Any]], Facts], objects: Sequence[dict[str, Any]]) -> Iterator[Facts]:
    """Yields the objects that can be read, and skips malformed objects of other users."""
    for each in objects:
        with suppress(KeyError, TypeError, AttributeError):
            yield read(each)


def _pod(pod: dict[str, Any]) -> PodFacts:
    metadata, spec = pod["metadata"], pod["spec"]
    return PodFacts(
        namespace=metadata["namespace"],
        name=metadata["name"],
        node=spec["nodeName"],
        labels=metadata.get("labels") or {},
        devices=_devices(spec),
        priority=spec.get("priority") or 0,
        terminating="deletionTimestamp" in metadata,
    )


_SHARED = ("cpu", "memory")


def _devices(spec: dict[str, Any]) -> dict[str, int]:
    """Returns requests of CPU, memory and extended resources: the sum over the containers, or the largest request of an
    init container if that is larger."""
    together: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        together.update(_of_container(container))
    for container in spec.get("initContainers") or []:
        together |= Counter(_of_container(container))
    return dict(together)


def _of_container(container: dict[str, Any]) -> dict[str, int]:
    requests = (container.get("resources") or {}).get("requests") or {}
    counted = {resource: count for resource, count in requests.items() if "/" in resource or resource in _SHARED}
    return {resource: amount(resource, count) or 0 for resource, count in counted.items()}


def node_facts(node: dict[str, Any]) -> NodeFacts:
    """Reads a node from the API server's JSON."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    return NodeFacts(
        name=node["metadata"]["name"],
        not_ready=_not_ready(status.get("conditions") or []),
        cordoned=bool(spec.get("unschedulable")),
        labels=node["metadata"].get("labels") or {},
        taints=spec.get("taints") or [],
        allocatable=status.get("allocatable") or {},
    )


def _not_ready(conditions: Sequence[Mapping[str, str]]) -> str | None:
    ready = next((condition for condition in conditions if condition.get("type") == "Ready"), None)
    if ready is None:
        return "it has not reported yet"
    return None if ready.get("status") == "True" else ready.get("message") or ready.get("reason") or "no reason given"


def _claim(claim: dict[str, Any]) -> tuple[str, VolumeFacts]:
    """Returns name and size: the capacity of a bound claim, or the request of one that waits for its first pod."""
    spec = claim.get("spec") or {}
    granted = (claim.get("status") or {}).get("capacity") or (spec.get("resources") or {}).get("requests") or {}
    size = whole(granted.get("storage"))
    return claim["metadata"]["name"], VolumeFacts(size, storage_class=spec.get("storageClassName"))


def _handmade(disks: Sequence[dict[str, Any]]) -> dict[str, bool]:
    """Returns the classes of available volumes. A claim without a class can bind a volume of the unnamed class."""
    free = [disk.get("spec") or {} for disk in disks if (disk.get("status") or {}).get("phase") == "Available"]
    return {spec.get("storageClassName") or "": not spec.get("storageClassName") for spec in free}


def _storage_class(storage_class: dict[str, Any]) -> tuple[str, bool]:
    """Returns the name of the class, and whether it is the default."""
    metadata = storage_class["metadata"]
    marked = (metadata.get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class")
    return metadata["name"], marked == "true"


def _disk(disk: dict[str, Any]) -> tuple[str, VolumeFacts]:
    spec = disk["spec"]
    size = whole((spec.get("capacity") or {}).get("storage"))
    (source,) = _DIRECTORIES & spec.keys()
    return disk["metadata"]["name"], VolumeFacts(size, path=(spec[source] or {}).get("path"))
