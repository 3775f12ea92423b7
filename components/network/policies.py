"""The specs of a stack's NetworkPolicies, one for each role of its pods: server, stage and prune.

A policy adds to others: no policy of a namespace takes away what these allow. Probes of the kubelet always get through
(kubernetes.io/docs/concepts/services-networking/network-policies).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from config.stack.sections.network import Caller, Network

_DNS = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
_OPENSHIFT_DNS = [{"protocol": protocol, "port": 5353} for protocol in ("UDP", "TCP")]
"""Port of the DNS pods in OpenShift: a policy sees the port of the pod, not that of the Service."""
_PRIVATE = (
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "fc00::/7",
    "fe80::/10",
)
"""Private, shared and link-local addresses (RFC 1918, 6598, 3927, 4193, 4291)."""
_NAMESPACE = "kubernetes.io/metadata.name"
"""Label of each namespace, with its name. The API server sets it."""


def server_policy(
    labels: Mapping[str, str], port: int, network: Network, api_server: Sequence[str], *, is_group: bool
) -> dict[str, Any]:
    """Returns the policy of a server's pods.

    Ranks use random ports. `api_server`: addresses of the API server, if only some clients may call.
    """
    own: dict[str, Any] = {"pod_selector": {"match_labels": labels}}
    callers = network.callers
    may_call: dict[str, Any] = {}
    if callers is not None:
        may_call = {"from": [*map(_peer, callers), *(_address(address) for address in api_server)]}
    is_closed = callers is not None and not may_call["from"]  # an empty `from` would allow everybody
    calls = [] if is_closed else [{"ports": [{"protocol": "TCP", "port": port}], **may_call}]
    among: list[dict[str, Any]] = [{"from": [own]}] if is_group else []
    reaches: list[dict[str, Any]] = [{}]
    if not network.media:
        reaches = [*([{"to": [own]}] if is_group else []), *_dns()]
    return {**own, "policy_types": ["Ingress", "Egress"], "ingress": [*among, *calls], "egress": reaches}


def stage_policy(labels: Mapping[str, str], shared: Mapping[str, str], port: int | None) -> dict[str, Any]:
    """Returns the policy of the pods that stage weights, which may reach any hub or mirror.

    `shared`: labels of the pods that share one download over `port`. `port` None: no pod is reachable.
    """
    peers = [{"from": [{"pod_selector": {"match_labels": shared}}], "ports": [{"protocol": "TCP", "port": port}]}]
    return {
        "pod_selector": {"match_labels": labels},
        "policy_types": ["Ingress"],
        "ingress": [] if port is None else peers,
    }


def closed_policy(labels: Mapping[str, str]) -> dict[str, Any]:
    """Returns the policy of pods that need no network."""
    return {
        "pod_selector": {"match_labels": labels},
        "policy_types": ["Ingress", "Egress"],
        "ingress": [],
        "egress": [],
    }


def _dns() -> list[dict[str, Any]]:
    """Returns the rules that allow DNS: pods, a cache on the node, or a server outside the cluster, on its network.

    Cilium matches no pod by an address, hence the selector of all pods.
    """
    anywhere = [{"namespace_selector": {}}, *({"ip_block": {"cidr": cidr}} for cidr in _PRIVATE)]
    openshift = {"namespace_selector": {"match_labels": {_NAMESPACE: "openshift-dns"}}}
    return [{"to": anywhere, "ports": _DNS}, {"to": [openshift], "ports": _OPENSHIFT_DNS}]


def _peer(caller: Caller) -> dict[str, Any]:
    if caller.cidr is not None:
        return {"ip_block": {"cidr": caller.cidr}}
    pods = {"pod_selector": {"match_labels": dict(caller.pods)}} if caller.pods else {}
    if caller.namespace is None:
        return pods
    return {"namespace_selector": {"match_labels": {_NAMESPACE: caller.namespace}}, **pods}


def _address(address: str) -> dict[str, Any]:
    return {"ip_block": {"cidr": f"{address}/{128 if ':' in address else 32}"}}
