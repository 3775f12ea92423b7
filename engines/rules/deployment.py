"""Rules for the deployment of a plan: pods that share the nodes evenly, enough nodes, a volume's size."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from config.catalogue import find_instance
from engines.finding import Finding, rejected, warning
from engines.plan import Pods
from engines.request import FitRequest


def pods_of(gpus: int, gpus_per_node: int) -> Pods:
    """The pods of a server with `gpus` GPUs: the fewest nodes, with the same number of GPUs on each.

    `check_pods` rejects a number of GPUs that the nodes cannot share evenly.
    """
    nodes = max(1, ceil(gpus / gpus_per_node)) if gpus else 1
    return Pods(gpus_per_pod=gpus // nodes, pods_per_server=nodes, nodes_per_server=nodes)


def check_pods(request: FitRequest, gpus: int) -> Iterator[Finding]:
    """Findings about a server with `gpus` GPUs on the nodes of the request, one pod on each."""
    if gpus > request.nodes * request.gpus_per_node:
        return
    pods = pods_of(gpus, request.gpus_per_node)
    if gpus % pods.pods_per_server:
        yield rejected(
            "layout_not_even",
            f"The layout takes {gpus} GPUs, which {pods.nodes_per_server} nodes of {request.gpus_per_node} cannot "
            f"share evenly: expected a multiple of {pods.nodes_per_server}.",
        )
    deployment = request.deployment
    if deployment is not None and pods.nodes_per_server * deployment.replicas > deployment.nodes:
        needed = pods.nodes_per_server * deployment.replicas
        enough = (
            f"Name {needed} nodes in nodes.names" if request.instance_type is None else f"Set nodes.count to {needed}"
        )
        yield rejected(
            "too_few_nodes",
            f"The stack has {_nodes(deployment.nodes)}; {deployment.replicas} servers of "
            f"{_nodes(pods.nodes_per_server)} each take {needed}.",
            f"{enough}, or lower engine.replicas.",
        )


def check_zone(request: FitRequest) -> Iterator[Finding]:
    """Warns of a zone that did not offer the instance type when the catalogue was recorded. EC2's answer, which the
    program asks for before it makes anything, decides."""
    zone = request.deployment.zone if request.deployment else None
    if request.instance_type is None or zone is None:
        return
    offered = find_instance(request.instance_type).zones
    if zone not in offered:
        near = ", ".join(each for each in offered if each.partition("-")[0] == zone.partition("-")[0])
        yield warning(
            "zone_not_offered",
            f"The catalogue does not list {request.instance_type} in the zone {zone} (nodes.zone); in this region it "
            f"lists {near or 'no zone'}. `pulumi preview` asks EC2.",
        )


def check_volume_size(request: FitRequest, weights: int | None) -> Iterator[Finding]:
    """Rejects a volume that needs a size, if neither the size nor the bytes to stage are known."""
    deployment = request.deployment
    if weights is None and request.volume_bytes is None and deployment is not None and deployment.volume_has_size:
        yield rejected(
            "volume_size_not_known",
            f"The bytes of {request.model} are not known, and the weights volume needs a size.",
            "Set weights.size to a size such as 400Gi, or stage.lock to a lock file.",
        )


def volume_bytes(request: FitRequest, needed: int | None) -> int | None:
    """Bytes to request for the volume: the stack's own size, else `needed`. `None`: it has no size."""
    if request.deployment is None or not request.deployment.volume_has_size:
        return None
    return needed if request.volume_bytes is None else request.volume_bytes


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
