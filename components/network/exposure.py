"""The HTTPRoute by which a Gateway reaches a server: an allow-list of paths, and what the cluster lacks for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable
from config.stack.sections.network import Expose, Network

GATEWAYS = "gateway.networking.k8s.io/v1"
"""API group and version of Gateways and HTTPRoutes."""
_LONGEST_REQUEST = "3600s"
"""Our own choice: an answer of 100,000 tokens at 30 tokens/s takes 56 minutes, and Gateways end requests sooner."""


@dataclass(frozen=True)
class Gateways:
    """What is there of a stack's Gateway."""

    has_api: bool = False
    """Whether the cluster has the Gateway API."""
    found: bool = False
    """Whether the Gateway exists."""
    admits: bool = True
    """Whether one of its listeners can admit routes of the stack's namespace."""
    hidden: str | None = None
    """Why the Gateway could not be read. None: read."""


def read_gateways(api: ClusterApi, namespace: str, expose: Expose | None) -> Gateways:
    """Reads the Gateway of a stack in `namespace`. Raises ClusterUnreachable if the cluster does not answer."""
    if expose is None or api.find(f"/apis/{GATEWAYS}") is None:
        return Gateways()
    of_gateway, name = expose.gateway.split("/")
    try:
        gateway = api.find(f"/apis/{GATEWAYS}/namespaces/{of_gateway}/gateways/{name}")
    except ClusterUnreachable as refusal:
        return Gateways(has_api=True, found=True, hidden=str(refusal))
    if gateway is None:
        return Gateways(has_api=True)
    listeners = (gateway.get("spec") or {}).get("listeners") or []
    admits = any(_admits(each, same=of_gateway == namespace) for each in listeners)
    return Gateways(has_api=True, found=True, admits=admits)


def _admits(listener: Mapping[str, Any], *, same: bool) -> bool:
    """Whether a listener can admit the routes of a namespace. Unset means `Same`; a selector is not evaluated."""
    allowed = ((listener.get("allowedRoutes") or {}).get("namespaces") or {}).get("from", "Same")
    return same if allowed == "Same" else allowed != "None"


def gateway_faults(gateways: Gateways, namespace: str, expose: Expose) -> list[str]:
    """Returns why clients could not reach the server through the stack's Gateway."""
    key = f"heavylift:expose.gateway: '{expose.gateway}'"
    if not gateways.has_api:
        return [
            f"the API {GATEWAYS} is missing: heavylift:expose needs the Gateway API and a controller for it; install "
            "them (https://gateway-api.sigs.k8s.io/guides) and try again, or leave heavylift:expose out"
        ]
    if not gateways.found:
        return [
            f"{key} does not exist: expected the namespace/name of a Gateway, as `kubectl get gateways -A` lists them"
        ]
    if not gateways.admits:
        return [
            f"{key} admits no routes of namespace {namespace}: set allowedRoutes.namespaces of one of its listeners, "
            "or choose another Gateway"
        ]
    return []


def gateway_warning(gateways: Gateways, expose: Expose, network: Network) -> str | None:
    """Returns what may keep the Gateway from the server. None: nothing is known."""
    if gateways.hidden:
        return f"heavylift:expose.gateway: '{expose.gateway}' was not checked: {gateways.hidden}"
    callers, namespace = network.callers, expose.gateway.partition("/")[0]
    if callers is None or any(caller.cidr or caller.namespace == namespace for caller in callers):
        return None
    return (
        f"heavylift:network.from names no namespace {namespace}: the pods of the Gateway reach the server only if it "
        f"names theirs, such as {{namespace: {namespace}}}"
    )


def http_route(expose: Expose, service: str, port: int) -> dict[str, Any]:
    """Returns the spec of the HTTPRoute to a Service. A path that no rule names gets HTTP 404 from the Gateway."""
    namespace, name = expose.gateway.split("/")
    return {
        "parentRefs": [{"namespace": namespace, "name": name}],
        "hostnames": [expose.hostname],
        "rules": [
            {
                "matches": [{"path": _match(path)} for path in expose.paths],
                "timeouts": {"request": _LONGEST_REQUEST},
                "backendRefs": [{"name": service, "port": port}],
            }
        ],
    }


def _match(path: str) -> dict[str, str]:
    if path.endswith("/*"):
        return {"type": "PathPrefix", "value": path.removesuffix("/*")}
    return {"type": "Exact", "value": path}
