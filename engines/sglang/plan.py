"""The plan of a model under SGLang: every rule, every stage's memory, and the verdict on both."""

from __future__ import annotations

from collections.abc import Iterator

from engines.finding import Finding
from engines.logistics import with_logistics
from engines.plan import CacheBlocks, PerGpu, Plan, Pods
from engines.request import FitRequest
from engines.rules.deployment import pods_of
from engines.rules.included import check_included
from engines.rules.layout import check_size
from engines.rules.machine import check_machine, host_of_ranks
from engines.sglang.arguments import requested_arguments, sglang_arguments
from engines.sglang.flags import FLAGS
from engines.sglang.memory import Memory, has_formula, memory_of
from engines.sglang.resolved_request import CACHE_TYPES, ResolvedRequest, resolve_layout
from engines.sglang.rules import check_memory, check_model, check_request, lacks_headroom, uneven_heads
from engines.verdict import judge, problems_of, warnings_of

_START_SECONDS = 234.0
"""From weights read to the first answer. Our own choice, as measured of vLLM: no public log shows a large model from
cold."""


def plan_sglang(resolved: ResolvedRequest) -> Plan:
    """The plan of a resolved request. A problem has no fix yet where something that works has to be looked for."""
    request, memory = resolved.request, _memory(resolved)
    context = _context(resolved, memory)
    weights = request.weights_bytes or resolved.model.staged_bytes
    findings = [
        *check_request(request),
        *check_model(resolved),
        *resolved.compatibility.findings,
        *check_included(request),
    ]
    if memory is not None:
        findings += check_memory(resolved, memory, context)
    findings += _check_machine(request, resolved.pods, weights)
    return with_logistics(_plan(resolved, findings, memory, context), request, weights, _START_SECONDS)


def plan_unknown_model(request: FitRequest, why: Finding) -> Plan:
    """The plan of a model that the planner does not know, or that SGLang cannot serve: what the request says, and
    nothing of its memory."""
    layout = resolve_layout(request)
    pods = pods_of(layout.gpus, request.gpus_per_node) if request.gpu else Pods()
    findings = [why, *check_request(request)]
    findings += check_size(layout, request) if request.gpu else ()
    findings += _check_machine(request, pods, request.weights_bytes)
    plan = Plan(
        verdict=judge(findings, tight=False),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=layout,
        pods=pods,
        per_gpu=PerGpu(None, None, None, None, None) if request.gpu else None,
        context=request.max_model_len,
        engine_args=requested_arguments(request, layout),
        host=host_of_ranks(request, pods),
    )
    return with_logistics(plan, request, request.weights_bytes, _START_SECONDS)


def _check_machine(request: FitRequest, pods: Pods, weights: int | None) -> Iterator[Finding]:
    return check_machine(request, FLAGS, pods, weights, ranks=pods.gpus_per_pod, start_seconds=_START_SECONDS)


def _memory(resolved: ResolvedRequest) -> Memory | None:
    """The memory of the stages, where everything that it needs is known and possible."""
    shape = resolved.model.shape
    if resolved.model.unknown or resolved.gpu.memory_bytes is None or not has_formula(shape):
        return None
    if resolved.layout.pp > shape.layers or uneven_heads(resolved) or resolved.kv_cache_dtype not in CACHE_TYPES:
        return None
    return memory_of(resolved, resolved.gpu.memory_bytes)


def _context(resolved: ResolvedRequest, memory: Memory | None) -> int:
    """The context to serve: as asked for, else the longest that surely fits, else the longest that likely does."""
    most = resolved.model.shape.max_context
    if resolved.request.max_model_len or memory is None:
        return resolved.request.max_model_len or most
    longest = memory.tokens(worst=True) or memory.tokens(worst=False)
    return min(most or longest, longest) or most


def _plan(resolved: ResolvedRequest, findings: list[Finding], memory: Memory | None, context: int) -> Plan:
    worst, likely = (memory.tokens(worst=True), memory.tokens(worst=False)) if memory else (0, 0)
    most = resolved.model.shape.max_context
    return Plan(
        verdict=judge(findings, tight=memory is not None and (worst < context or lacks_headroom(findings))),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=resolved.layout,
        pods=resolved.pods,
        per_gpu=memory.per_gpu() if memory else None,
        kv_tokens=(worst, likely) if memory else None,
        context=context or None,
        max_concurrency=(round(worst / context, 2), round(likely / context, 2)) if memory and context else None,
        max_context=min(most or worst, worst) if memory else None,
        engine_args=sglang_arguments(resolved, context),
        engine_env=resolved.compatibility.environment,
        stages=tuple(stage.rounded() for stage in memory.stages) if memory else (),
        host=host_of_ranks(resolved.request, resolved.pods, resolved.compatibility.masked_directory),
        kv_block_tokens=memory.page if memory else None,
        cache_blocks=CacheBlocks(worst // memory.page, memory.page) if memory else None,
        sequences=resolved.requests_at_a_time(worst, context) if memory else None,
    )
