"""The memory of each pipeline stage: budget, weights, overhead, and what is left for the KV cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from config.catalogue import overheads
from config.checkpoint.quantization import FP8_BLOCK
from config.checkpoint.shape import Shape
from config.units import GIB
from engines.plan import PerGpu, StageMemory
from engines.sharding import stage_weights
from engines.vllm.memory.adapters import adapter_bytes
from engines.vllm.memory.attention_backend import Backend
from engines.vllm.memory.calibration import observed
from engines.vllm.memory.kv_cache import Pool, stage_pool
from engines.vllm.memory.loading import bytes_per_token_of_context, longest_context, made_while_loading
from engines.vllm.memory.nearness import Conditions, Distance, distances
from engines.vllm.memory.overhead import Overhead, Workload, overhead
from engines.vllm.memory.sharding import held_everywhere, stage_layers
from engines.vllm.release_facts import pool_rules
from engines.vllm.resolved_request import ResolvedRequest


@dataclass(frozen=True, slots=True)
class PipelineStage:
    """One GPU of a pipeline stage, in bytes."""

    layers: range
    weights: float
    overhead: Overhead
    pool: Pool
    left_likely: float
    """Bytes beside weights and overhead; negative: there are too few."""
    left_worst: float
    context: int
    """The context of which the weights have what grows with it."""
    per_context: tuple[float, float]
    """What they and the overhead have for each token of it: [worst, likely]."""

    @property
    def kv_likely(self) -> float:
        """Bytes for the cache at the likely end."""
        return max(0.0, self.left_likely)

    @property
    def kv_worst(self) -> float:
        """Bytes for the cache at the worst end."""
        return max(0.0, self.left_worst)

    def longest(self, *, worst: bool) -> int:
        """Tokens of the longest request that fits, with what the engine reserves for a context of that length."""
        left, grows = (self.left_worst if worst else self.left_likely), self.per_context[0 if worst else 1]

        def holds(context: int) -> int:
            return self.pool.longest_request(self.pool.blocks(max(0.0, left - grows * (context - self.context))))

        if not grows:
            return holds(self.context)
        low, high = 0, holds(0)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if holds(middle) >= middle else (low, middle - 1)
        return low

    def rounded(self) -> StageMemory:
        """In GiB, to two decimals."""
        return StageMemory(
            layers=len(self.layers),
            weights_gib=_gib(self.weights),
            overhead_gib=(_gib(self.overhead.likely), _gib(self.overhead.worst)),
            kv_gib=(_gib(self.kv_worst), _gib(self.kv_likely)),
            kv_bytes_per_token=self.pool.bytes_per_token,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """All stages, and what limits them together."""

    budget: int
    stages: tuple[PipelineStage, ...]

    @property
    def fullest(self) -> PipelineStage:
        """The stage with the least left for its cache."""
        return min(self.stages, key=lambda stage: stage.kv_worst)

    def blocks(self, *, worst: bool) -> int:
        """KV blocks of the engine: those of the stage with the fewest."""
        return min(stage.pool.blocks(stage.kv_worst if worst else stage.kv_likely) for stage in self.stages)

    def reported_tokens(self, context: int) -> tuple[int, int]:
        """The KV cache size that the engine prints, in tokens: [worst, likely]."""
        pool = self.stages[0].pool
        worst, likely = self.blocks(worst=True), self.blocks(worst=False)
        return pool.reported_tokens(worst, context), pool.reported_tokens(likely, context)

    def max_concurrency(self, context: int) -> tuple[float, float]:
        """Requests of that context that the cache holds at once, to two decimals as the engine prints it: [worst,
        likely]."""
        needed = self.stages[0].pool.blocks_of_request(context)
        return round(self.blocks(worst=True) / needed, 2), round(self.blocks(worst=False) / needed, 2)

    def longest(self, *, worst: bool) -> int:
        """Tokens of the longest request that fits."""
        return min(stage.longest(worst=worst) for stage in self.stages)

    def per_gpu(self) -> PerGpu:
        """The fullest GPU in GiB, to two decimals."""
        stage = self.fullest.rounded()
        return PerGpu(
            budget_gib=_gib(self.budget),
            weights_gib=max(_gib(stage.weights) for stage in self.stages),
            overhead_gib=stage.overhead_gib,
            kv_gib=stage.kv_gib,
            kv_bytes_per_token=max(stage.pool.bytes_per_token for stage in self.stages),
        )


def budget_bytes(memory_bytes: int, utilization: float) -> int:
    """Bytes of a GPU that vLLM may use: `vllm/v1/worker/utils.py request_memory` (0.33.0)."""
    return ceil(memory_bytes * utilization)


def memory_of(resolved: ResolvedRequest, memory_bytes: int, backend: Backend) -> Memory:
    """The memory of every stage of a resolved request."""
    ranges = stage_layers(resolved.model.shape.layers, resolved.layout.pp)
    budget = budget_bytes(memory_bytes, resolved.utilization)
    stages = tuple(_stage(resolved, ranges, index, budget, backend) for index in range(len(ranges)))
    return Memory(budget, stages)


def weights_by_group(resolved: ResolvedRequest, index: int) -> dict[str, float]:
    """Bytes on one GPU of a stage after loading: the checkpoint's tensors, and those made from them."""
    layers = stage_layers(resolved.model.shape.layers, resolved.layout.pp)[index]
    tensors = tensors_by_group(resolved, index)
    adapters = adapter_bytes(resolved, layers)
    held = tensors | made_while_loading(resolved, layers, tensors) | _balanced_experts(resolved, layers, tensors)
    held |= {"adapters": adapters} if adapters else {}
    if resolved.draft is not None and index == resolved.layout.pp - 1:
        held["draft_model"] = sum(weights_by_group(resolved.draft, 0).values())
    return held | _kept_in_host_memory(resolved, tensors)


def _balanced_experts(resolved: ResolvedRequest, layers: range, tensors: dict[str, float]) -> dict[str, float]:
    """The copies of experts, and the buffer of one layer through which experts move
    (vllm/distributed/eplb/eplb_state.py, 0.33.0)."""
    experts, copies = resolved.model.shape.experts, resolved.request.redundant_experts
    held = tensors.get("routed_experts", 0.0)
    if experts is None or copies is None or not held:
        return {}
    moe_layers = sum(layer not in experts.dense_layers for layer in layers)
    with_copies = held * (experts.count + copies) / experts.count
    return {"redundant_experts": with_copies - held, "expert_buffer": with_copies / moe_layers}


_OUTSIDE_LAYERS = ("embeddings", "head", "vision")
"""Groups that are never kept in host memory."""


def _kept_in_host_memory(resolved: ResolvedRequest, tensors: dict[str, float]) -> dict[str, float]:
    """What leaves the GPU: parameters of layers, until so many bytes are out (vllm/model_executor/offloader/uva.py,
    0.33.0)."""
    if resolved.request.cpu_offload_gb is None:
        return {}
    in_layers = sum(size for group, size in tensors.items() if group not in _OUTSIDE_LAYERS)
    return {"in_host_memory": -min(resolved.request.cpu_offload_gb * GIB, in_layers)}


def tensors_by_group(resolved: ResolvedRequest, index: int) -> dict[str, float]:
    """Bytes of the checkpoint's tensors on one GPU of a stage, by group."""
    ranges = stage_layers(resolved.model.shape.layers, resolved.layout.pp)
    return stage_weights(
        resolved.model.groups,
        ranges[index],
        resolved.layout,
        first=index == 0,
        last=index == len(ranges) - 1,
        kv_heads=resolved.kv_heads,
        window_kv_heads=resolved.window_kv_heads,
        vision_whole=resolved.request.mm_encoder_tp_mode == "data",
        tied=resolved.model.shape.tied_embeddings,
        drafts=resolved.drafts > 0,
        everywhere=held_everywhere(resolved.model_type),
    )


def _stage(
    resolved: ResolvedRequest, ranges: tuple[range, ...], index: int, budget: int, backend: Backend
) -> PipelineStage:
    weights = sum(weights_by_group(resolved, index).values())
    beside = _overhead(resolved, weights, last=index == len(ranges) - 1, first=index == 0)
    if resolved.draft is not None:
        pool = _with_draft_model(resolved, resolved.draft, ranges[index], backend)
    else:
        pool = _with_drafts(resolved, ranges[index], backend)
    given = resolved.request.available_kv_gib
    left, grows = budget - weights, bytes_per_token_of_context(resolved) if given is None else 0.0
    return PipelineStage(
        layers=ranges[index],
        weights=weights,
        overhead=beside,
        pool=pool,
        left_likely=given * GIB if given is not None else left - beside.likely,
        left_worst=given * GIB if given is not None else left - beside.worst,
        context=longest_context(resolved),
        per_context=(grows * (1 + overheads().weights_share), grows),
    )


def _overhead(resolved: ResolvedRequest, weights: float, *, last: bool, first: bool) -> Overhead:
    """The overhead of a stage. The draft model runs after the target, so that the larger peak of the two counts."""
    reserve = _reserve(resolved)
    beside = overhead(_workload(resolved, last=last, first=first), resolved.version, weights, reserve)
    if resolved.draft is not None:
        drafting = overhead(_workload(resolved.draft, last=True, first=True), resolved.version, weights, reserve)
        beside = replace(beside, activation=max(beside.activation, drafting.activation))
    return replace(beside, widening=sum(distance.widening for distance in unlike_observed(resolved)))


def _pool(resolved: ResolvedRequest, shape: Shape, layers: range, backend: Backend) -> Pool:
    """The pool of these layers of a shape."""
    rules = pool_rules(resolved.version)
    batches = resolved.layout.pp + 1 if rules.batches_in_flight else 1
    return stage_pool(
        shape,
        layers,
        dtype=resolved.kv_cache_dtype,
        tp=resolved.layout.tp,
        dcp=resolved.layout.dcp,
        backend=backend,
        block=resolved.block,
        tokens_in_flight=resolved.batched_tokens * batches,
        prefix_caching=resolved.request.enable_prefix_caching,
        rules=rules,
        drafted=(resolved.request.speculative_tokens or 0) if resolved.drafts else 0,
    )


def _with_draft_model(resolved: ResolvedRequest, draft: ResolvedRequest, layers: range, backend: Backend) -> Pool:
    """The pool of a stage with the layers of the draft model, which vLLM plans as if they were the target's
    (vllm/v1/worker/gpu/attn_utils.py get_kv_cache_spec, 0.33.0)."""
    target, other = resolved.model.shape, draft.model.shape
    if {*target.layer_kinds, *other.layer_kinds} == {"full"}:
        pool = _pool(resolved, target, layers, backend)
        own = _pool(draft, other, range(other.layers), backend)
        return replace(
            pool,
            block_bytes=pool.block_bytes + own.block_bytes,
            bytes_per_token=pool.bytes_per_token + own.bytes_per_token,
        )
    kinds = (*(target.layer_kinds[layer] for layer in layers), *other.layer_kinds)
    return _pool(resolved, replace(target, layer_kinds=kinds), range(len(kinds)), backend)


def _with_drafts(resolved: ResolvedRequest, layers: range, backend: Backend) -> Pool:
    """The pool of a stage with the layers for multi-token prediction, which are like its others that grow."""
    shape, drafts = resolved.model.shape, resolved.drafts_in(layers)
    if drafts and shape.linear is not None:
        kinds = (*(shape.layer_kinds[layer] for layer in layers), *["full"] * drafts)
        return _pool(resolved, replace(shape, layer_kinds=kinds), range(len(kinds)), backend)
    pool = _pool(resolved, shape, layers, backend)
    per_block, per_token = pool.block_bytes // len(layers), pool.bytes_per_token // len(layers)
    return replace(
        pool,
        block_bytes=pool.block_bytes + drafts * per_block,
        bytes_per_token=pool.bytes_per_token + drafts * per_token,
    )


def unlike_observed(resolved: ResolvedRequest) -> tuple[Distance, ...]:
    """Every respect in which no public log that the overhead was fitted to is near the request."""
    settings = {
        "data parallelism": resolved.layout.dp > 1,
        "prefill context parallelism": resolved.layout.pcp > 1,
        "decode context parallelism": resolved.layout.dcp > 1,
        "linear attention": resolved.model.shape.linear is not None,
        "adapters": resolved.request.max_loras is not None,
        "speculative decoding": resolved.request.speculative_tokens is not None,
        "eager mode": resolved.request.enforce_eager,
        "balanced experts": resolved.request.redundant_experts is not None,
        "weights in host memory": resolved.request.cpu_offload_gb is not None,
    }
    conditions = Conditions(
        release=resolved.version.release,
        gpu=resolved.gpu.name,
        gpu_title=resolved.gpu.title,
        batched_tokens=resolved.batched_tokens,
        settings=tuple(name for name, has in settings.items() if has),
    )
    return distances(conditions, observed())


def _workload(resolved: ResolvedRequest, *, last: bool, first: bool) -> Workload:
    shape, experts = resolved.model.shape, resolved.model.shape.experts
    block_fp8 = resolved.model.expert_scheme is FP8_BLOCK
    copies = resolved.request.redundant_experts or 0
    aligned = experts is not None and block_fp8 and resolved.at_least((9, 0))
    return Workload(
        tp=resolved.layout.tp,
        pp=resolved.layout.pp,
        dp=resolved.layout.dp,
        expert_parallel=resolved.layout.ep > 1,
        last_stage=last,
        hidden=shape.hidden,
        dense_width=shape.dense_width if experts is None or experts.dense_layers else 0,
        vocabulary=shape.vocabulary,
        experts_active=experts.active if experts else 0,
        expert_width=experts.width if experts else 0,
        experts_local=-(-(experts.count + copies) // resolved.layout.ep) if aligned and experts else 0,
        vision=first and shape.vision is not None,
        batched_tokens=resolved.batched_tokens,
        sequences=resolved.sequences,
        graphs=not resolved.request.enforce_eager,
    )


def sparse_scratch_bytes(batched_tokens: int) -> int:
    """Scratch of the sparse decode kernel: 64 heads x 512 in fp32 for every query token, twice for its parts
    (github.com/vllm-project/vllm/issues/53413)."""
    return 2 * batched_tokens * 64 * 512 * 4


def _reserve(resolved: ResolvedRequest) -> float:
    """Bytes that are needed, but that the engine's profiling does not see."""
    return sparse_scratch_bytes(resolved.batched_tokens) if resolved.sparse_scratch_missed else 0.0


def _gib(size: float) -> float:
    return round(size / GIB, 2)
