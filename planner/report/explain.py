"""Explains a plan line by line, each with its formula and source."""

from __future__ import annotations

from collections.abc import Iterator

from config.checkpoint.model_spec import ModelSpec, find_model
from config.units import GIB
from engines.plan import Plan
from engines.registry import engine_of
from engines.request import FitRequest
from engines.rules.host import CACHE_BYTES, COMPILE_SECONDS, COMPILE_SOURCE
from planner.report.speed import explain_speed
from planner.report.summary import headline

_NOTHING_TO_EXPLAIN = {"value_not_valid", "model_not_in_catalogue", "directory_not_readable"}
"""Problems that come before any arithmetic."""


def explain(request: FitRequest, plan: Plan) -> str:
    """The explanation of a plan."""
    return "\n".join([headline(request, plan), *_arithmetic(request, plan), *_verdict(plan)])


def _arithmetic(request: FitRequest, plan: Plan) -> Iterator[str]:
    if any(problem.code in _NOTHING_TO_EXPLAIN for problem in plan.problems):
        return
    model = find_model(request.model, request.include)
    yield from _bytes(request, model, plan)
    yield from engine_of(request.engine).explain(request, model, plan)
    yield from explain_speed(request, model, plan)


def _bytes(request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
    if plan.weights_bytes is None or plan.disk_bytes is None:
        return
    source = model.checkpoint.staged_bytes_source or "the sum of its tensors"
    yield f"weights staged = {plan.weights_bytes:,} bytes  [{source}]"
    cache = f" + {CACHE_BYTES // GIB} GiB of caches" if request.keep_cache else ""
    yield f"volume = kept revisions x weights + 10% of one{cache} = {plan.disk_bytes:,} bytes"
    yield f"download = {_download(request)} = {plan.download_seconds} s"
    yield f"load = weights / read bandwidth + engine start = {plan.load_seconds} s"
    if request.keep_cache:
        yield f"a later load with the same image and weights.cache: {COMPILE_SECONDS} s less  [{COMPILE_SOURCE}]"


def _download(request: FitRequest) -> str:
    if request.staging_nodes == 1:
        return "weights / bandwidth"
    if request.node_bytes_per_second is None:
        return f"{request.staging_nodes} nodes x weights / bandwidth"
    return f"weights / bandwidth + {request.staging_nodes - 1}/{request.staging_nodes} weights / node bandwidth"


def _verdict(plan: Plan) -> Iterator[str]:
    for problem in plan.problems:
        yield f"{problem.code}: {problem.message} {problem.fix}"
    for warning in plan.warnings:
        yield f"warning {warning.code}: {warning.message}"
    yield f"verdict: {plan.verdict}"
