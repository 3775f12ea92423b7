"""The plan of a model under vLLM: every rule, every stage's memory, and the verdict on both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from engines.finding import Finding
from engines.logistics import with_logistics
from engines.plan import CacheBlocks, Layout, PerGpu, Plan, Pods
from engines.request import FitRequest
from engines.rules.arguments import check_arguments
from engines.rules.deployment import pods_of
from engines.rules.included import check_included
from engines.rules.layout import check_size
from engines.rules.machine import check_machine, host_of_ranks
from engines.rules.unused import check_unused
from engines.verdict import judge, problems_of, warnings_of
from engines.vllm.arguments import requested_arguments, vllm_arguments, vllm_environment
from engines.vllm.flags import FLAGS
from engines.vllm.memory.kv_cache import ELEMENT_BYTES, LATENT_ONLY
from engines.vllm.memory.loading import bytes_per_token_of_context
from engines.vllm.memory.stages import Memory, memory_of, unlike_observed
from engines.vllm.resolved_request import MISSING_SETTINGS, ResolvedRequest, resolve_layout
from engines.vllm.rules.formats import check_formats
from engines.vllm.rules.layout import check_layout, every_stage_grows, pools_are_known, uneven_heads
from engines.vllm.rules.memory import check_known, check_memory
from engines.vllm.rules.release import check_engine
from engines.vllm.rules.speculative import check_drafting, is_counted
from engines.vllm.rules.widths import check_widths

_START_SECONDS = 234.0
"""From weights read to the first answer: compilation, profiling, graphs, warm-up. A public log of Kimi-K2.6 on 8 B300
takes 8.3 minutes from cold, 4.4 of them loading."""


def plan_vllm(resolved: ResolvedRequest) -> Plan:
    """The plan of a resolved request. A problem has no fix yet where something that works has to be looked for."""
    request, memory = resolved.request, _memory(resolved)
    context = _context(resolved, memory)
    if memory is not None and request.max_model_len is None and bytes_per_token_of_context(resolved):
        memory = _memory(replace(resolved, request=replace(request, max_model_len=context)))
    weights = _staged_bytes(resolved)
    findings = [
        *check_engine(resolved),
        *check_drafting(resolved),
        *check_layout(resolved),
        *check_formats(resolved),
        *check_widths(resolved),
        *resolved.compatibility.findings,
        *check_known(resolved),
        *check_included(request),
    ]
    if memory is not None:
        findings += check_memory(resolved, memory, context)
    findings += _check_machine(request, resolved.layout, resolved.pods, weights)
    return with_logistics(_plan(resolved, findings, memory, context), request, weights, _START_SECONDS)


def plan_unknown_model(request: FitRequest, why: Finding) -> Plan:
    """The plan of a model that the planner does not know, or that vLLM cannot serve: what the request says, and nothing
    of its memory."""
    layout = resolve_layout(request)
    pods = pods_of(layout.gpus, request.gpus_per_node) if request.gpu else Pods()
    findings = [why, *check_unused(request, MISSING_SETTINGS), *check_arguments(FLAGS, request.extra_args)]
    findings += check_size(layout, request) if request.gpu else ()
    weights = _with_draft(request, request.weights_bytes, request.draft_weights_bytes)
    findings += _check_machine(request, layout, pods, weights)
    plan = Plan(
        verdict=judge(findings, tight=False),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=layout,
        pods=pods,
        per_gpu=PerGpu(None, None, None, None, None) if request.gpu else None,
        context=request.max_model_len,
        engine_args=requested_arguments(request, layout),
        host=host_of_ranks(request, pods, kv_offload=_offloaded_bytes(request, layout, pods)),
    )
    return with_logistics(plan, request, weights, _START_SECONDS)


def _check_machine(request: FitRequest, layout: Layout, pods: Pods, weights: int | None) -> Iterator[Finding]:
    return check_machine(
        request,
        FLAGS,
        pods,
        weights,
        ranks=pods.gpus_per_pod,
        start_seconds=_START_SECONDS,
        kv_offload=_offloaded_bytes(request, layout, pods),
    )


def _offloaded_bytes(request: FitRequest, layout: Layout, pods: Pods) -> int:
    """Bytes of `/dev/shm` for KV cache that leaves the GPUs of one pod.

    Each data-parallel rank maps a file of the whole size and needs so much free space, also where the pods of several
    nodes share the rank (vllm/v1/kv_offload/cpu/shared_offload_region.py, 0.33.0).
    """
    ranks = max(1, pods.gpus_per_pod * layout.dp // layout.gpus)
    return (request.kv_offload or 0) * ranks


def _staged_bytes(resolved: ResolvedRequest) -> int | None:
    """Bytes to stage: the model, and its draft model. None: not known."""
    request = resolved.request
    of_draft = request.draft_weights_bytes or (resolved.draft.model.staged_bytes if resolved.draft else None)
    return _with_draft(request, request.weights_bytes or resolved.model.staged_bytes, of_draft)


def _with_draft(request: FitRequest, of_model: int | None, of_draft: int | None) -> int | None:
    """The sum of two sizes if the request has a draft model. None: one of them is not known."""
    if request.draft is None or of_model is None:
        return of_model
    return None if of_draft is None else of_model + of_draft


def _memory(resolved: ResolvedRequest) -> Memory | None:
    """The memory of the stages, where everything that it needs is known and possible."""
    backend, layout, shape = resolved.backend, resolved.layout, resolved.model.shape
    if resolved.model.unknown or resolved.gpu.memory_bytes is None or backend is None:
        return None
    if layout.pp > shape.layers or uneven_heads(resolved) or not every_stage_grows(resolved):
        return None
    if not pools_are_known(resolved):
        return None
    if resolved.draft is not None and not is_counted(resolved, resolved.draft):
        return None
    if resolved.kv_cache_dtype not in ELEMENT_BYTES and not (backend.latent and resolved.kv_cache_dtype in LATENT_ONLY):
        return None
    return memory_of(resolved, resolved.gpu.memory_bytes, backend)


def _context(resolved: ResolvedRequest, memory: Memory | None) -> int:
    """The context to serve: as asked for, else the longest that surely fits, else the longest that likely does."""
    most = resolved.max_context
    if resolved.request.max_model_len or memory is None:
        return resolved.request.max_model_len or most
    longest = memory.longest(worst=True) or memory.longest(worst=False)
    return min(most or longest, longest) or most


def _plan(resolved: ResolvedRequest, findings: list[Finding], memory: Memory | None, context: int) -> Plan:
    request = resolved.request
    tight = memory is not None and memory.longest(worst=True) < context
    return Plan(
        verdict=judge(findings, tight=tight),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=resolved.layout,
        pods=resolved.pods,
        per_gpu=memory.per_gpu() if memory else None,
        kv_tokens=memory.reported_tokens(context) if memory else None,
        context=context or None,
        max_concurrency=memory.max_concurrency(context) if memory and context else None,
        max_context=_max_context(resolved, memory),
        engine_args=vllm_arguments(resolved, context),
        engine_env=vllm_environment(resolved),
        stages=tuple(stage.rounded() for stage in memory.stages) if memory else (),
        host=host_of_ranks(
            request,
            resolved.pods,
            resolved.compatibility.masked_directory,
            _offloaded_bytes(request, resolved.layout, resolved.pods),
        ),
        overhead_widened_by=tuple(each.reason for each in unlike_observed(resolved)) if memory else (),
        attention_backend=resolved.backend.name if resolved.backend else None,
        kv_block_tokens=memory.fullest.pool.block_tokens if memory else None,
        cache_blocks=_cache_blocks(memory) if memory else None,
        sequences=resolved.sequences,
    )


def _cache_blocks(memory: Memory) -> CacheBlocks:
    pool = memory.stages[0].pool
    tokens = pool.block_tokens * pool.dcp
    return CacheBlocks(memory.blocks(worst=True), tokens, pool.growing_groups, pool.fixed_blocks)


def _max_context(resolved: ResolvedRequest, memory: Memory | None) -> int | None:
    if memory is None:
        return None
    longest = memory.longest(worst=True)
    return min(resolved.max_context or longest, longest)
