"""Compares the cluster with the one that the stack's state records.

A cluster that was made anew has another identifier, which replaces the provider and every object: Pulumi would create
each object, and then delete "the old one", which has the same name, through the kubeconfig of the old cluster.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pulumi

from components.cluster.api import ClusterApi, ClusterUnreachable, cluster_api, object_path

KUBE_SYSTEM = "/api/v1/namespaces/kube-system"
"""The namespace whose UID identifies a cluster. Nobody can delete it."""

_STATE = "pulumi:pulumi:readStackResourceOutputs"
"""The engine's function that returns the outputs of every resource of a stack's last state."""
_PROVIDER = "pulumi:providers:kubernetes"
_MAX_NAMED = 3


@dataclass(frozen=True)
class RecordedCluster:
    """The cluster of the state."""

    identifier: str
    kubeconfig: str | None
    context: str | None
    objects: Mapping[str, Mapping[str, Any]]
    """Outputs of the Kubernetes objects, by `Kind name`."""


def is_made_anew(api: ClusterApi, identifier: str, provider: str) -> bool:
    """Whether the cluster is another than the provider of this name had, and the state's objects are all in it.

    The provider then keeps the identifier that the state has, so that nothing is replaced.
    Raises pulumi.RunError if the cluster of the state is gone and the state has objects that the new one lacks.
    """
    recorded = recorded_cluster(provider)
    if recorded is None or recorded.identifier == identifier or _is_there(recorded):
        return False
    if gone := sorted(name for name, each in recorded.objects.items() if not _exists(api, each)):
        rest = len(gone) - _MAX_NAMED
        raise pulumi.RunError(
            f"the stack's state is of a cluster that is gone: its identifier was {recorded.identifier}, and this one "
            f"has {identifier} and lacks {', '.join(gone[:_MAX_NAMED])}{f' and {rest} more' if rest > 0 else ''}. An "
            "update would replace every object, and could delete new ones for old ones; nothing was created. To do: "
            "`PULUMI_K8S_DELETE_UNREACHABLE=true pulumi refresh`, which takes what is gone out of the state, and then "
            "`pulumi up`."
        )
    return bool(recorded.objects)


def recorded_resources() -> Mapping[str, Mapping[str, Any]]:
    """Returns type and outputs of each resource of the stack's last state, by URN. Empty: it cannot be read."""
    stack = f"{pulumi.get_organization()}/{pulumi.get_project()}/{pulumi.get_stack()}"
    try:
        answer = pulumi.runtime.invoke(_STATE, {"stackName": stack}).value or {}
    except Exception as fault:  # the engine gives no narrower class
        pulumi.log.debug(f"the stack's state cannot be read: {fault}")
        return {}
    resources: Mapping[str, Mapping[str, Any]] = answer.get("outputs") or {}
    return resources


def recorded_cluster(provider: str) -> RecordedCluster | None:
    """Returns the cluster of the stack's last state. None: the state has none, or cannot be read."""
    resources = recorded_resources()
    recorded: Mapping[str, Any] = next(
        (
            each["outputs"]
            for urn, each in resources.items()
            if each["type"] == _PROVIDER and urn.endswith(f"::{provider}")
        ),
        {},
    )
    if not recorded.get("clusterIdentifier"):
        return None
    return RecordedCluster(
        recorded["clusterIdentifier"], recorded.get("kubeconfig"), recorded.get("context"), dict(_objects(resources))
    )


def _objects(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yields the objects that the API server named: a patch of another's object has none of its own."""
    for each in resources.values():
        outputs = each["outputs"]
        metadata = outputs.get("metadata") or {}
        if each["type"].startswith("kubernetes:") and not each["type"].endswith("Patch") and metadata.get("uid"):
            yield f"{outputs['kind']} {metadata['name']}", outputs


def _is_there(recorded: RecordedCluster) -> bool:
    """Whether the cluster of the state still answers, as it does if the stack moves to another cluster."""
    if recorded.kubeconfig is None:
        return False
    with suppress(ClusterUnreachable, pulumi.RunError, KeyError, TypeError):
        found = cluster_api(recorded.kubeconfig, recorded.context).find(KUBE_SYSTEM) or {}
        return bool(found["metadata"]["uid"] == recorded.identifier)
    return False


def _exists(api: ClusterApi, recorded: Mapping[str, Any]) -> bool:
    """Whether the same object is in the cluster, not only one of the same name."""
    found = api.find(object_path(recorded))
    return found is not None and found["metadata"]["uid"] == recorded["metadata"]["uid"]
