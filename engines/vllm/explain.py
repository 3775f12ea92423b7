"""The arithmetic of vLLM's memory, line by line, each with its formula and source."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import find_gpu, overheads
from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention
from config.checkpoint.model_spec import ModelSpec
from config.units import GIB
from engines.plan import Plan
from engines.request import FitRequest
from engines.vllm.memory.stages import Memory, PipelineStage, memory_of, unlike_observed, weights_by_group
from engines.vllm.resolved_request import ResolvedRequest, resolve


def explain_vllm(request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
    """The memory of every stage. Empty: not known."""
    if request.gpu is None or not plan.stages:
        return
    resolved = resolve(request, model, find_gpu(request.gpu))
    if resolved.backend is not None and resolved.gpu.memory_bytes is not None:
        yield from _memory(resolved, memory_of(resolved, resolved.gpu.memory_bytes, resolved.backend), plan)


def _memory(resolved: ResolvedRequest, memory: Memory, plan: Plan) -> Iterator[str]:
    total = resolved.gpu.torch_gib or 0.0
    yield (
        f"budget = ceil({total} GiB x {resolved.utilization:g}) = {memory.budget / GIB:.2f} GiB  "
        "[vllm/v1/worker/utils.py request_memory; memory as torch reports it]"
    )
    for index, stage in enumerate(memory.stages):
        yield f"stage {index}: layers {stage.layers.start} to {stage.layers.stop - 1}"
        yield from _stage_weights(resolved, index, stage)
        yield from _overhead(resolved, stage)
        yield from _left(memory, stage)
    yield from _cache(resolved, memory, plan)


def _stage_weights(resolved: ResolvedRequest, index: int, stage: PipelineStage) -> Iterator[str]:
    parts = weights_by_group(resolved, index)
    for group, size in sorted(parts.items(), key=lambda part: -part[1]):
        yield f"  {group:<18} {size / GIB:8.2f} GiB"
    basis = "headers of its files" if resolved.model.measured else resolved.model.family.config_source
    cut = f"cut for TP{resolved.layout.tp} as vllm does"
    yield f"  weights            {stage.weights / GIB:8.2f} GiB per GPU  [{basis}; {cut}]"


def _overhead(resolved: ResolvedRequest, stage: PipelineStage) -> Iterator[str]:
    part, constants = stage.overhead, overheads()
    yield f"  outside torch      {part.non_torch / GIB:8.2f} GiB  [{constants.non_torch_source}]"
    yield (
        f"  activation peak    {part.activation / GIB:8.2f} GiB  [{resolved.batched_tokens:,} batched tokens, "
        f"{resolved.sequences:,} sequences; {constants.sampler_source}]"
    )
    graphs = f"{part.graphs_low / GIB:.2f} to {part.graphs_high / GIB:.2f}"
    yield f"  graphs             {graphs} GiB  [{constants.graphs_source}]"
    if part.reserve:
        yield f"  reserve            {part.reserve / GIB:8.2f} GiB  [not measured by the engine's profiling]"
    scaled = "x (outside + peak) + graphs + reserve"
    yield f"  overhead likely    {constants.low_ratio} {scaled} = {part.likely / GIB:.2f} GiB"
    yield (
        f"  overhead worst     {constants.high_ratio + part.widening:.2f} {scaled} + {constants.weights_share:.1%} of "
        f"weights = {part.worst / GIB:.2f} GiB"
    )
    for distance in unlike_observed(resolved):
        yield f"                     of which {distance.widening:.2f} because no public log is of {distance.reason}"


def _left(memory: Memory, stage: PipelineStage) -> Iterator[str]:
    yield (
        f"  KV cache = budget - weights - overhead = {memory.budget / GIB:.2f} - {stage.weights / GIB:.2f} - "
        f"{stage.overhead.worst / GIB:.2f} to {stage.overhead.likely / GIB:.2f} = "
        f"{stage.kv_worst / GIB:.2f} to {stage.kv_likely / GIB:.2f} GiB"
    )


def _cache(resolved: ResolvedRequest, memory: Memory, plan: Plan) -> Iterator[str]:
    pool = memory.fullest.pool
    source = "[vllm/v1/kv_cache_interface.py]"
    formula = " + ".join(_token_formula(each) for each in (resolved, resolved.draft) if each is not None)
    yield f"token = {formula} = {pool.bytes_per_token:,} B on each GPU  {source}"
    if resolved.backend:
        yield f"block = {pool.block_tokens} tokens, attention backend {resolved.backend.name}  [vllm/platforms/cuda.py]"
    if not pool.uniform:
        yield (
            f"pool: blocks of {pool.block_bytes:,} B are shared by layers of several kinds; a request takes "
            f"{pool.fixed_blocks} blocks whatever its length  [vllm/v1/core/kv_cache_utils.py]"
        )
    if plan.kv_tokens:
        worst, likely = plan.kv_tokens
        yield f"tokens = blocks x {pool.block_tokens} x DCP {resolved.layout.dcp} = {worst:,} to {likely:,}"
    yield f"longest request that surely fits = {plan.max_context:,} tokens"


def _token_formula(resolved: ResolvedRequest) -> str:
    shape = resolved.model.shape
    growing = shape.layer_kinds.count("full")
    match shape.attention:
        case LatentAttention() as latent:
            indexer = " + the indexer's key" if latent.indexer else ""
            size = f"({latent.kv_rank} + {latent.rope_dim}) x bytes of {resolved.kv_cache_dtype}{indexer}"
            return f"{growing} layers x {size}, whole on every rank"
        case CompressedAttention() as compressed:
            ratios = ", ".join(str(ratio) for ratio in sorted({*compressed.ratios} - {0}))
            return f"one entry for each {ratios} tokens and layer, beside windows, whole on every rank"
        case GroupedAttention() as grouped:
            heads = max(1, grouped.kv_heads // resolved.layout.tp)
            return f"{growing} layers x {heads} heads x {grouped.key_value_width} x bytes of {resolved.kv_cache_dtype}"
        case _:
            return "not known"
