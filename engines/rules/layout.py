"""Rules for the number of GPUs that a layout takes, and for what is between them."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from engines.finding import Finding, rejected, warning
from engines.plan import Layout, Pods
from engines.request import FitRequest
from engines.rules.deployment import check_pods


def check_size(layout: Layout, request: FitRequest) -> Iterator[Finding]:
    """Findings about the GPUs that a layout takes of those given, and about the nodes that share them."""
    present = request.nodes * request.gpus_per_node
    product = f"tensor_parallel {layout.tp} x pipeline_parallel {layout.pp} x data_parallel {layout.dp}"
    product += f" x prefill_context_parallel {layout.pcp}" if layout.pcp > 1 else ""
    if layout.gpus > present:
        yield rejected(
            "layout_exceeds_gpus", f"{product} takes {layout.gpus} GPUs; {_given(request)}", _more(layout, request)
        )
    if layout.gpus < present:
        yield warning("idle_gpus", f"{product} takes {layout.gpus} of the {present} GPUs; the others stay idle.")
    yield from check_pods(request, layout.gpus)


def check_fabric(request: FitRequest, pods: Pods) -> Iterator[Finding]:
    """Warns of a server over several nodes without a fast network between them."""
    if pods.nodes_per_server > 1 and request.fabric in (None, "none"):
        known = "is not stated" if request.fabric is None else "is none"
        yield warning(
            "no_fast_fabric",
            f"The model spans {pods.nodes_per_server} nodes and their fabric {known}: over plain TCP the network "
            "delays every token. State InfiniBand, RoCE or EFA.",
        )


def _given(request: FitRequest) -> str:
    """The GPUs that a server has."""
    stack = request.deployment
    if stack is None or stack.replicas == 1:
        return f"{request.nodes} x {request.gpus_per_node} are given."
    return (
        f"each of the {stack.replicas} servers has {request.nodes} of the {stack.nodes} nodes, with "
        f"{request.gpus_per_node} GPUs each."
    )


def _more(layout: Layout, request: FitRequest) -> str:
    present, stack = request.nodes * request.gpus_per_node, request.deployment
    if stack is None or stack.replicas == 1:
        return f"Give {layout.gpus} GPUs, or make the product {present}."
    needed = stack.replicas * ceil(layout.gpus / request.gpus_per_node)
    return f"Use {needed} nodes, lower engine.replicas, or make the product {present}."
