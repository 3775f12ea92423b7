"""What one rank reads, computes and sends for a token: the input of the bound.

A rank here is one GPU of each pipeline stage together: a token passes all of them. Shards are even, and routing spreads
tokens evenly over experts. What has no formula is left out (embeddings, states of linear attention, the indexer's
arithmetic, traffic between expert-parallel ranks), so that the result stays a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from config.catalogue import GpuSpeed
from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention
from config.checkpoint.model_spec import ModelSpec
from config.checkpoint.quantization import UNQUANTIZED
from config.checkpoint.shape import Shape
from config.checkpoint.tensors import Place, TensorGroup, derived_groups
from engines.plan import Layout
from engines.sharding import parts_of

_ACTIVATION_BYTES = 2
"""Hidden states travel between ranks in 16 bits."""

_ROUTED = "routed_experts"


@dataclass(frozen=True, slots=True)
class Cache:
    """Bytes of the KV cache that a rank reads of a request, by the tokens before the next one."""

    full: float
    """Per token, in layers that attend to every token."""
    chosen: int | None
    """Most tokens of which a sparse attention reads `full`. None: it reads all."""
    indexer: float
    """Per token, in the indexers of a sparse attention."""
    windowed: float
    """Per token within the window, in layers with a window."""
    window: int

    def bytes_of(self, tokens: float) -> float:
        """Bytes that one step reads for a request of so many tokens."""
        attended = tokens if self.chosen is None else min(tokens, self.chosen)
        return self.full * attended + self.indexer * tokens + self.windowed * min(tokens, self.window)


@dataclass(frozen=True, slots=True)
class Work:
    """What one rank does for a token."""

    layout: Layout
    layers: int
    experts: int
    """Routed experts of a layer; 0: none."""
    active: int
    """Of them, those that a token takes."""
    dense_bytes: float
    """Weights beside routed experts, which each step reads."""
    expert_bytes: float
    """All routed experts of the rank."""
    cache: Cache
    dense_seconds: float
    """Arithmetic of one token at the peak, beside routed experts and output head."""
    head_seconds: float
    expert_seconds: float
    """Arithmetic of one token in its experts at the peak, divided over all ranks."""
    pair_seconds: float
    """Arithmetic of a token that attends to one other token, over all full layers."""
    window_pair_seconds: float
    link_bytes: float
    """Sent for one token: each sum over tensor-parallel ranks once, two in each layer."""

    def weights_read(self, tokens: float) -> float:
        """Bytes of weights that a step over so many tokens reads.

        With even routing, T tokens take count x (1 - (1 - active / count)^T) different experts.
        """
        if not self.experts:
            return self.dense_bytes
        missed: float = (1 - self.active / self.experts) ** tokens
        return self.dense_bytes + self.expert_bytes * (1 - missed)


def work_of(model: ModelSpec, gpu: GpuSpeed, layout: Layout, kv_bytes_per_token: int) -> Work | None:
    """The work of a model in a layout. None: its tensors are not known.

    `kv_bytes_per_token`: on the fullest GPU, over its layers that grow.
    """
    groups = _groups(model)
    if not groups:
        return None
    shape, experts = model.shape, model.shape.experts
    read = [group for group in groups if group.place in _read_places(shape)]
    dense = [group for group in read if group.group != _ROUTED]
    routed = [group for group in read if group.group == _ROUTED]
    share = experts.active / experts.count if experts else 0.0
    body = [group for group in dense if group.place is Place.LAYERS]
    ahead = [group for group in dense if group.place is not Place.LAYERS]
    full, windowed = _attention_flops(shape, "full"), _attention_flops(shape, "sliding")
    heads_per_second = gpu.bf16_flops * layout.tp
    return Work(
        layout=layout,
        layers=shape.layers,
        experts=experts.count if experts else 0,
        active=experts.active if experts else 0,
        dense_bytes=sum(group.bytes / _parts(group, shape, layout) for group in dense),
        expert_bytes=sum(group.bytes / _parts(group, shape, layout) for group in routed),
        cache=_cache(shape, layout, kv_bytes_per_token),
        dense_seconds=_seconds(body, shape, layout, gpu),
        head_seconds=_seconds(ahead, shape, layout, gpu),
        expert_seconds=share * _seconds(routed, shape, layout, gpu),
        pair_seconds=full / heads_per_second,
        window_pair_seconds=windowed / heads_per_second,
        link_bytes=2 * shape.layers * shape.hidden * _ACTIVATION_BYTES * (layout.tp - 1) / layout.tp,
    )


_OF_GGUF: dict[str, tuple[TensorGroup, ...]] = {}


def _groups(model: ModelSpec) -> tuple[TensorGroup, ...]:
    """The tensors of a model. Those of a GGUF file whose tensors are not listed share its bytes by their parameters."""
    if model.groups or not model.is_gguf or not model.shape.derivable or model.unknown:
        return model.groups
    if model.checkpoint.name not in _OF_GGUF:
        groups = derived_groups(model.shape, UNQUANTIZED)
        parameters = sum(group.parameters for group in groups if group.place is not Place.MTP)
        each = (model.staged_bytes or 0) / parameters
        _OF_GGUF[model.checkpoint.name] = tuple(
            TensorGroup(
                group.group, group.place, group.sharding, "gguf", group.parameters, round(group.parameters * each)
            )
            for group in groups
        )
    return _OF_GGUF[model.checkpoint.name]


def _read_places(shape: Shape) -> set[Place]:
    """Where the weights are that a step reads whole. Of embeddings it reads some rows, unless they are the head."""
    return {Place.LAYERS, Place.HEAD} | ({Place.EMBEDDING} if shape.tied_embeddings else set())


def _parts(group: TensorGroup, shape: Shape, layout: Layout) -> int:
    """Parts into which a layout cuts a group."""
    attention = shape.attention
    kv_heads = attention.kv_heads if isinstance(attention, GroupedAttention) else 1
    window_kv_heads = shape.windowed.kv_heads if shape.windowed else kv_heads
    return parts_of(group.sharding, layout, kv_heads, window_kv_heads, vision_whole=False)


def _seconds(groups: Iterable[TensorGroup], shape: Shape, layout: Layout, gpu: GpuSpeed) -> float:
    """Two operations per parameter at the peak of its type."""
    return sum(2 * group.parameters / _parts(group, shape, layout) / _peak(group.dtype, gpu) for group in groups)


def _peak(dtype: str, gpu: GpuSpeed) -> float:
    """Operations per second on weights of a type. Types that the GPU does not multiply are widened first."""
    fp8 = gpu.fp8_flops or gpu.bf16_flops
    if dtype.startswith(("nvfp4", "mxfp4")):
        return gpu.fp4_flops or fp8
    if dtype.startswith("fp8"):
        return fp8
    return 2 * gpu.bf16_flops if dtype.startswith("int8") else gpu.bf16_flops


def _attention_flops(shape: Shape, kind: str) -> float:
    """Operations of one query token on one earlier token, over all layers of a kind: scores and values."""
    layers, attention = shape.layer_kinds.count(kind), shape.attention
    if kind == "sliding" and shape.windowed is not None:
        attention = shape.windowed
    match attention:
        case LatentAttention():
            width = attention.nope_dim + attention.rope_dim + attention.value_dim
            return 2.0 * layers * attention.heads * width
        case GroupedAttention():
            return 2.0 * layers * attention.heads * attention.key_value_width
        case _:
            return 0.0


def _cache(shape: Shape, layout: Layout, kv_bytes_per_token: int) -> Cache:
    """The cache of a rank, from that of its fullest GPU."""
    stage_layers = -(-shape.layers // layout.pp)
    growing = kv_bytes_per_token * shape.layers / stage_layers / layout.dcp
    match shape.attention:
        case LatentAttention(indexer=indexer) if indexer is not None:
            keys = len(indexer.layers) * (indexer.head_dim + _SCALE_BYTES) / layout.dcp
            return Cache(growing - keys, indexer.chosen, keys, 0.0, 0)
        case CompressedAttention(chosen=chosen):
            return Cache(growing, chosen, 0.0, 0.0, 0)
        case GroupedAttention() as attention:
            full, sliding = shape.layer_kinds.count("full"), shape.layer_kinds.count("sliding")
            windowed = shape.windowed or attention
            ratio = windowed.kv_heads * windowed.key_value_width / (attention.kv_heads * attention.key_value_width)
            return Cache(growing, None, 0.0, growing / full * sliding * ratio if full else 0.0, shape.window)
        case _:
            return Cache(growing, None, 0.0, 0.0, 0)


_SCALE_BYTES = 4
"""The indexer's keys have 8 bits and one scale of 32 bits for each token."""
