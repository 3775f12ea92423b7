"""The memory of each pipeline stage under SGLang.

SGLang measures the free memory before and after it loads the weights. Its cache gets what is then free, less the share
`1 - mem_fraction_static` of what was free before (mem_cache/kv_cache_configurator.py `_profile_available_bytes`,
0.5.23). It profiles no activations: they, the CUDA graphs and the table of requests must fit in that share.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from config.checkpoint.attention import GroupedAttention, LatentAttention
from config.checkpoint.rotary import rotary_element_bytes
from config.checkpoint.shape import Shape
from config.units import GIB
from engines.plan import PerGpu, StageMemory
from engines.sglang.release_facts import sglang_defaults
from engines.sglang.resolved_request import CACHE_TYPES, ResolvedRequest
from engines.sharding import stage_weights

_SPARSE_FP8_BYTES = 656
"""Bytes per token and layer of a sparse latent cache in fp8: 512 elements, their scales, and 64 rotary elements in 16
bits (mem_cache/kv_cache_configurator.py `calculate_mla_kv_cache_dim`, 0.5.23)."""

_INDEXER_SCALE_BYTES = 4
"""The indexer's keys are fp8 with one fp32 scale per 128 elements (model_executor/pool_configurator.py, 0.5.23)."""

_VISION_CACHE_BYTES = 100 * 2**20
"""Cache of image embeddings, kept from the KV cache of a model with images (SGLANG_VLM_CACHE_SIZE_MB, 0.5.23)."""

_REQUEST_SLOT_BYTES = 4
"""Bytes of each token of a request in the table of requests."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One GPU of a pipeline stage, in bytes; pairs are [likely, worst]."""

    layers: range
    groups: dict[str, float]
    """Weights by group."""
    overhead: tuple[float, float]
    cell: int
    """Bytes of one token over the layers of the stage."""
    cache: tuple[float, float]

    @property
    def weights(self) -> float:
        return sum(self.groups.values())

    def tokens(self, page: int, *, worst: bool) -> int:
        """Tokens of the cache, in whole pages."""
        return int(self.cache[worst] // self.cell) // page * page

    def rounded(self) -> StageMemory:
        """In GiB, to two decimals."""
        return StageMemory(
            layers=len(self.layers),
            weights_gib=_gib(self.weights),
            overhead_gib=(_gib(self.overhead[0]), _gib(self.overhead[1])),
            kv_gib=(_gib(self.cache[1]), _gib(self.cache[0])),
            kv_bytes_per_token=self.cell,
        )


@dataclass(frozen=True, slots=True)
class Memory:
    """All stages, and what limits them together."""

    budget: float
    """Bytes for weights and cache if nothing else were on the GPU."""
    page: int
    stages: tuple[Stage, ...]

    @property
    def fullest(self) -> Stage:
        """The stage with the least left for its cache."""
        return min(self.stages, key=lambda stage: stage.cache[1])

    def tokens(self, *, worst: bool) -> int:
        """Tokens of the server's cache: the fewest of all stages (`_apply_token_constraints`)."""
        return min(stage.tokens(self.page, worst=worst) for stage in self.stages)

    def per_gpu(self) -> PerGpu:
        """The fullest GPU in GiB, to two decimals."""
        stage = self.fullest.rounded()
        return PerGpu(
            budget_gib=_gib(self.budget),
            weights_gib=max(_gib(each.weights) for each in self.stages),
            overhead_gib=stage.overhead_gib,
            kv_gib=stage.kv_gib,
            kv_bytes_per_token=max(each.cell for each in self.stages),
        )


def cache_bytes(free_before: float, free_after: float, fraction: float) -> float:
    """Bytes of the cache by the free memory before and after the load of the weights."""
    return max(0.0, free_after - free_before * (1 - fraction))


def stage_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The decoder layers of each pipeline stage: equal parts, of which the last ones get the surplus layers
    (sglang/srt/distributed/utils.py `get_pp_indices`, 0.5.23)."""
    surplus = layers % stages
    sizes = [layers // stages + (stage >= stages - surplus) for stage in range(stages)]
    ends = list(accumulate(sizes))
    return tuple(range(end - size, end) for size, end in zip(sizes, ends, strict=True))


def memory_of(resolved: ResolvedRequest, memory_bytes: int) -> Memory:
    """The memory of every stage of a resolved request whose cache has a formula (`engines.sglang.rules`)."""
    ranges = stage_layers(resolved.model.shape.layers, resolved.layout.pp)
    stages = tuple(_stage(resolved, ranges, index, memory_bytes) for index in range(len(ranges)))
    return Memory(memory_bytes * resolved.fraction, resolved.page, stages)


def _stage(resolved: ResolvedRequest, ranges: tuple[range, ...], index: int, memory_bytes: int) -> Stage:
    groups = weights_by_group(resolved, ranges, index)
    likely, worst = _overhead(resolved, sum(groups.values()))
    left = memory_bytes * resolved.fraction - sum(groups.values())
    given = resolved.request.available_kv_gib
    cache = (max(0.0, left - likely), max(0.0, left - worst)) if given is None else (given * GIB, given * GIB)
    return Stage(ranges[index], groups, (likely, worst), token_bytes(resolved, _cached(resolved, ranges[index])), cache)


def _cached(resolved: ResolvedRequest, layers: range) -> range:
    """The layers for which a stage with these sizes its cache."""
    every = resolved.architecture in sglang_defaults().caches_all_layers
    return range(resolved.model.shape.layers) if every else layers


def weights_by_group(resolved: ResolvedRequest, ranges: tuple[range, ...], index: int) -> dict[str, float]:
    """Bytes on one GPU of a stage after loading: the checkpoint's tensors, and those made from them."""
    shape = resolved.model.shape
    attention = shape.attention
    held = stage_weights(
        resolved.model.groups,
        ranges[index],
        resolved.layout,
        first=index == 0,
        last=index == len(ranges) - 1,
        kv_heads=attention.kv_heads if isinstance(attention, GroupedAttention) else shape.heads or 1,
        window_kv_heads=1,
        vision_whole=resolved.request.mm_encoder_tp_mode == "data",
        tied=shape.tied_embeddings,
        drafts=False,
        everywhere=sglang_defaults().stages.get(resolved.architecture, frozenset()),
    )
    if "vision" in held:
        held["vision"] += _whole_of_encoder(resolved)
    held["rotary_table"] = _rotary_table(resolved)
    if isinstance(attention, LatentAttention):
        # Both halves of the expanding projection are copied in 16 bits, and it stays
        # (models/deepseek_common/deepseek_weight_loader.py, 0.5.23).
        expanded = attention.heads * (attention.nope_dim + attention.value_dim)
        held["latent_copies"] = len(ranges[index]) * attention.kv_rank * expanded * 2 / resolved.layout.tp
    return {group: size for group, size in held.items() if size}


def _whole_of_encoder(resolved: ResolvedRequest) -> float:
    """Bytes of an encoder that each rank holds although tensor parallelism would cut them."""
    cut_alone = resolved.architecture in sglang_defaults().cuts_attention_of_encoder
    if not cut_alone or resolved.request.mm_encoder_tp_mode == "data":
        return 0.0
    vision = resolved.model.family.config["vision_config"]
    layers, width, inner = (vision[f"vt_{name}"] for name in ("num_hidden_layers", "hidden_size", "intermediate_size"))
    network: int = layers * (2 * width * inner + width + inner) * 2
    return network * (1 - 1 / resolved.layout.tp)


def _rotary_table(resolved: ResolvedRequest) -> float:
    """Bytes of the table of sines and cosines, which SGLang keeps in 32 bits (layers/rotary_embedding/base.py,
    0.5.23)."""
    config = resolved.model.family.config
    return resolved.model.shape.rotary_table * 4 / rotary_element_bytes(config.get("text_config") or config)


def outside_gib(resolved: ResolvedRequest) -> tuple[float, float]:
    """GiB of a GPU that are taken before the weights are loaded: [likely, worst]."""
    defaults = sglang_defaults()
    return defaults.outside_tensor if resolved.layout.gpus > 1 else defaults.outside_single


def _overhead(resolved: ResolvedRequest, weights: float) -> tuple[float, float]:
    """Bytes that are missing from the cache beside the weights: [likely, worst]."""
    likely, worst = outside_gib(resolved)
    images = _VISION_CACHE_BYTES if resolved.model.shape.vision else 0
    share = sglang_defaults().weights_share * weights
    return likely * GIB * resolved.fraction + images, worst * GIB * resolved.fraction + images + share


def token_bytes(resolved: ResolvedRequest, layers: range) -> int:
    """Bytes of one token in the cache of one GPU, over these layers (model_executor/pool_configurator.py
    `_compute_cell_size`, 0.5.23). Raises TypeError for an attention without a formula."""
    attention, element = resolved.model.shape.attention, CACHE_TYPES[resolved.kv_cache_dtype]
    if isinstance(attention, LatentAttention):
        size = (attention.kv_rank + attention.rope_dim) * element
        if attention.indexer is None:
            return len(layers) * size
        own = sum(layer in layers for layer in attention.indexer.layers)
        keys = attention.indexer.head_dim + attention.indexer.head_dim // 128 * _INDEXER_SCALE_BYTES
        return len(layers) * (_SPARSE_FP8_BYTES if element == 1 else size) + own * keys
    if isinstance(attention, GroupedAttention):
        heads = max(1, attention.kv_heads // resolved.layout.tp)
        return len(layers) * heads * attention.key_value_width * element
    raise TypeError("an attention without a formula")


def has_formula(shape: Shape) -> bool:
    """Whether the cache of a model is known: layers that all grow alike."""
    known = isinstance(shape.attention, LatentAttention | GroupedAttention)
    return known and set(shape.layer_kinds) == {"full"}


def headroom_bytes(resolved: ResolvedRequest, memory_bytes: int, tokens: int, context: int) -> float:
    """Bytes beside weights and cache for activations and CUDA graphs, at the worst: without the table of requests,
    which has a slot for each token of each request (mem_cache/memory_pool.py `ReqToTokenPool`)."""
    before = memory_bytes - outside_gib(resolved)[1] * GIB
    table = resolved.requests_at_a_time(tokens, context) * context * _REQUEST_SLOT_BYTES
    return before * (1 - resolved.fraction) - table


def _gib(size: float) -> float:
    return round(size / GIB, 2)
