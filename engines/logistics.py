"""What a plan takes beside memory: disk, time and money."""

from __future__ import annotations

from dataclasses import replace

from config.catalogue import find_instance
from engines.plan import Plan
from engines.request import FitRequest
from engines.rules.host import disk_bytes

_ENGINE_START_SECONDS = {"vllm": 234.0, "llama.cpp": 15.0}
"""From weights read to the first answer: compilation, profiling, graphs, warm-up. vLLM: a public log of Kimi-K2.6 on 8
B300 takes 8.3 minutes from cold, 4.4 of them loading. llama.cpp compiles nothing."""


def with_logistics(plan: Plan, request: FitRequest, weights: int | None) -> Plan:
    """The plan with bytes, durations and cost. `weights`: bytes as staged, where they are known."""
    plan = replace(plan, cost_per_hour_usd=cost_per_hour(request))
    if weights is None:
        return plan
    return replace(
        plan,
        weights_bytes=weights,
        disk_bytes=disk_bytes(weights, request.keep_revisions),
        download_seconds=round(download_seconds(request, weights), 1),
        load_seconds=round(load_seconds(request, weights), 1),
    )


def download_seconds(request: FitRequest, weights: int) -> float:
    """Seconds to bring the weights to one volume, at the stated bandwidth."""
    return weights / request.staging_bytes_per_second


def load_seconds(request: FitRequest, weights: int) -> float:
    """Seconds from the server's start to its first answer. Every node is taken to read the whole checkpoint."""
    return weights / request.read_bytes_per_second + _ENGINE_START_SECONDS[request.engine]


def cost_per_hour(request: FitRequest) -> float | None:
    """US dollars per hour of all nodes that are paid for: a stated rate per GPU, else the instance type's dated price.

    `None`: neither is known. Raises NotInCatalogueError.
    """
    nodes = request.paid_nodes or request.nodes
    if request.usd_per_gpu_hour is not None:
        return round(request.usd_per_gpu_hour * nodes * request.gpus_per_node, 4)
    if request.instance_type is None:
        return None
    price = find_instance(request.instance_type).usd_per_hour
    return None if price is None else round(price * nodes, 4)
