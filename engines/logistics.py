"""Disk, durations and cost of a plan."""

from __future__ import annotations

from dataclasses import replace

from engines.cost import cost_parts, cost_per_hour
from engines.plan import Plan
from engines.request import FitRequest
from engines.rules.deployment import volume_bytes
from engines.rules.host import disk_bytes


def with_logistics(plan: Plan, request: FitRequest, weights: int | None, start_seconds: float) -> Plan:
    """Adds sizes, durations and cost to a plan.

    `weights`: bytes as staged. None: not known. `start_seconds`: from the end of the read of the weights to the
    engine's first answer.
    """
    needed = None if weights is None else disk_bytes(request, weights)
    parts = cost_parts(request)
    plan = replace(plan, cost_parts=parts, cost_per_hour_usd=cost_per_hour(parts))
    plan = replace(plan, volume_bytes=volume_bytes(request, needed))
    if weights is None:
        return plan
    return replace(
        plan,
        weights_bytes=weights,
        disk_bytes=needed,
        download_seconds=round(download_seconds(request, weights), 1),
        load_seconds=round(load_seconds(request, weights, start_seconds), 1),
    )


def download_seconds(request: FitRequest, weights: int) -> float:
    """Seconds to bring the weights to the volumes of all nodes, at the stated bandwidths.

    Nodes that share one download use the line once; at worst, each then copies all other bytes from the other nodes.
    """
    once = weights / request.staging_bytes_per_second
    if request.node_bytes_per_second is None:
        return once * request.staging_nodes
    missing = weights * (request.staging_nodes - 1) / request.staging_nodes
    return once + missing / request.node_bytes_per_second


def load_seconds(request: FitRequest, weights: int, start_seconds: float) -> float:
    """Seconds from the server's start to its first answer. Assumes that every node reads the whole checkpoint."""
    return weights / request.read_bytes_per_second + start_seconds
