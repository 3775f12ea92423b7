"""Whether the cluster enforces NetworkPolicies: the API server accepts them in every cluster, and says nothing if no
network plugin acts on them."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable

_ENFORCE = {
    "anetd": "GKE Dataplane V2",
    "antrea-agent": "Antrea",
    "azure-npm": "Azure Network Policy Manager",
    "calico-node": "Calico",
    "canal": "Canal",
    "cilium": "Cilium",
    "kube-network-policies": "kube-network-policies",
    "kube-ovn-cni": "Kube-OVN",
    "kube-router": "kube-router",
    "ovnkube-node": "OVN-Kubernetes",
    "rke2-canal": "Canal",
    "weave-net": "Weave Net",
}
"""DaemonSets that enforce NetworkPolicies, as their projects' manifests name them."""

_DO_NOT = {"kube-flannel-ds": "flannel", "kube-flannel": "flannel"}
"""DaemonSets of network plugins that enforce none (github.com/flannel-io/flannel, README: "Flannel is focused on
networking. For network policy, other projects such as Calico can be used")."""

_AWS = "aws-node"
_AWS_SWITCH = "--enable-network-policy=true"
"""Argument of the VPC CNI's network policy agent (github.com/aws/amazon-vpc-cni-k8s, charts/aws-vpc-cni)."""

_K3S = ("+k3s", "+rke2")
"""Ends of the kubelet's version where the node's own program enforces them (docs.k3s.io/networking)."""

_UNPROTECTED = (
    "The ranks of a server listen on ports without authentication, and NetworkPolicies that nothing enforces protect "
    "none of them"
)


def unenforced(api: ClusterApi) -> str | None:
    """Returns why it is not known that the cluster enforces NetworkPolicies. None: it has a plugin that does."""
    try:
        daemon_sets = {
            str((each.get("metadata") or {}).get("name")): each
            for each in api.read("/apis/apps/v1/daemonsets").get("items") or []
        }
        if set(daemon_sets) & set(_ENFORCE) or _of_aws(daemon_sets.get(_AWS) or {}) or _of_k3s(api):
            return None
    except ClusterUnreachable as refusal:
        return f"whether the cluster enforces NetworkPolicies is not known: {refusal}. {_UNPROTECTED}."
    if found := sorted({_DO_NOT[name] for name in daemon_sets if name in _DO_NOT}):
        return (
            f"the cluster's network plugin, {found[0]}, enforces no NetworkPolicies. {_UNPROTECTED}: add a plugin that "
            "does, such as kube-network-policies."
        )
    if _AWS in daemon_sets:
        return (
            "the cluster's VPC CNI has network policies switched off. "
            f"{_UNPROTECTED}: set enableNetworkPolicy of the EKS add-on vpc-cni to true."
        )
    return (
        "whether the cluster enforces NetworkPolicies is not known: it has no DaemonSet of a network plugin that is "
        f"known to. {_UNPROTECTED}: ask who runs the cluster."
    )


def _of_aws(daemon_set: Mapping[str, Any]) -> bool:
    return any(_AWS_SWITCH in (container.get("args") or ()) for container in _containers(daemon_set))


def _containers(daemon_set: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    template = (daemon_set.get("spec") or {}).get("template") or {}
    yield from (template.get("spec") or {}).get("containers") or ()


def _of_k3s(api: ClusterApi) -> bool:
    version = str((api.find("/version") or {}).get("gitVersion", ""))
    return any(end in version for end in _K3S)
