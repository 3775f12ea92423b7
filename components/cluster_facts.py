"""What a cluster says of itself before anything is made: its nodes, and what earlier stacks left.

Read once, with the official client and the stack's own kubeconfig. Nothing is judged here; see `preflight`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import urllib3
from kubernetes import client, config

from config.quantity import quantity_bytes

_TIMEOUT_SECONDS = (5, 30)
"""To connect, and to answer."""


class ClusterUnreachable(Exception):
    """The cluster did not answer, or refused to; the text says why in one line."""


@dataclass(frozen=True)
class NodeFacts:
    """One node."""

    name: str
    not_ready: str | None = None
    """Why the node is not Ready; None: it is."""
    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """What pods may ask for in all, by resource."""


@dataclass(frozen=True)
class VolumeFacts:
    """A claim or a disk that is already there."""

    size_bytes: int
    storage_class: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class ClusterFacts:
    """One cluster, as far as one stack is concerned."""

    identifier: str
    """Unique to the cluster, whatever its address: the UID of the namespace that every cluster has."""
    nodes: Sequence[NodeFacts] = ()
    namespace_labels: Mapping[str, str] | None = None
    """Labels of the stack's namespace; None: there is no such namespace."""
    claims: Mapping[str, VolumeFacts] = field(default_factory=dict)
    """Claims of the stack's namespace, by name."""
    disks: Mapping[str, VolumeFacts] = field(default_factory=dict)
    """PersistentVolumes with a local path, by name."""


def read_cluster(kubeconfig: Mapping[str, Any], namespace: str) -> ClusterFacts:
    """The facts of the cluster behind a kubeconfig.

    Raises ClusterUnreachable when it does not answer, or the credentials do not let it.
    """
    try:
        return _facts(_connection(kubeconfig), namespace)
    except (urllib3.exceptions.HTTPError, config.ConfigException, OSError) as fault:
        raise ClusterUnreachable(" ".join(str(fault).split())) from None
    except client.ApiException as refusal:
        raise ClusterUnreachable(f"status {refusal.status}, {_message(refusal)}") from None
    except (ValueError, KeyError):
        raise ClusterUnreachable("its answer is not that of a Kubernetes API server") from None


def _connection(kubeconfig: Mapping[str, Any]) -> client.CoreV1Api:
    settings = client.Configuration()
    config.load_kube_config_from_dict(dict(kubeconfig), client_configuration=settings)  # type: ignore[no-untyped-call]
    settings.retries = False
    return client.CoreV1Api(client.ApiClient(settings))


def _facts(api: client.CoreV1Api, namespace: str) -> ClusterFacts:
    nodes = _read(api.list_node)["items"]
    claims = _read(api.list_namespaced_persistent_volume_claim, namespace)["items"]
    disks = _read(api.list_persistent_volume)["items"]
    return ClusterFacts(
        identifier=_read(api.read_namespace, "kube-system")["metadata"]["uid"],
        nodes=[_node(node) for node in nodes],
        namespace_labels=_namespace_labels(api, namespace),
        claims={claim["metadata"]["name"]: _claim(claim["spec"]) for claim in claims},
        disks={disk["metadata"]["name"]: _disk(disk["spec"]) for disk in disks if "local" in disk["spec"]},
    )


def _namespace_labels(api: client.CoreV1Api, namespace: str) -> dict[str, str] | None:
    try:
        return _read(api.read_namespace, namespace)["metadata"].get("labels") or {}
    except client.ApiException as refusal:
        if refusal.status == HTTPStatus.NOT_FOUND:
            return None
        raise


def _read(method: Callable[..., Any], *arguments: str) -> dict[str, Any]:
    """An answer as JSON: the client's own objects take seconds to make for a large cluster."""
    answer: dict[str, Any] = json.loads(
        method(*arguments, _preload_content=False, _request_timeout=_TIMEOUT_SECONDS).data
    )
    return answer


def _message(refusal: client.ApiException) -> str:
    try:
        return str(json.loads(refusal.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        return "no reason given"


def _node(node: dict[str, Any]) -> NodeFacts:
    spec, status = node["spec"], node["status"]
    return NodeFacts(
        name=node["metadata"]["name"],
        not_ready=_not_ready(status.get("conditions") or []),
        cordoned=bool(spec.get("unschedulable")),
        labels=node["metadata"].get("labels") or {},
        taints=spec.get("taints") or [],
        allocatable=status.get("allocatable") or {},
    )


def _not_ready(conditions: Sequence[Mapping[str, str]]) -> str | None:
    ready = next((condition for condition in conditions if condition["type"] == "Ready"), None)
    if ready is None:
        return "it has not reported yet"
    return None if ready["status"] == "True" else ready.get("message") or ready.get("reason") or "no reason given"


def _claim(spec: dict[str, Any]) -> VolumeFacts:
    size = quantity_bytes(spec["resources"]["requests"]["storage"])
    return VolumeFacts(size_bytes=size, storage_class=spec.get("storageClassName"))


def _disk(spec: dict[str, Any]) -> VolumeFacts:
    return VolumeFacts(size_bytes=quantity_bytes(spec["capacity"]["storage"]), path=spec["local"]["path"])
