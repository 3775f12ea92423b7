"""The tensors of a checkpoint, in groups that are stored and sharded alike.

Derived from the model's shape and its quantisation, or measured from the headers of its files. The derivation follows
the modules of each family and equals the published sizes of the unquantised checkpoints to the byte; what it leaves out
are scalars per tensor, such as the global scales of NVFP4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from config.checkpoint.attention import (
    INDEXED,
    CompressedAttention,
    GroupedAttention,
    LatentAttention,
    LinearAttention,
    Mamba,
)
from config.checkpoint.quantization import BF16, FP32, Quantization, Scheme
from config.checkpoint.shape import Experts, Shape
from config.checkpoint.vision import Vision

MTP_COPIES = "mtp_copies"
"""Group of the embedding and head that a layer for multi-token prediction repeats; an engine shares the model's."""


class Sharding(StrEnum):
    """What tensor parallelism does to a group."""

    SPLIT = "split"
    """Cut into equal parts."""
    WHOLE = "whole"
    """The same on every rank."""
    KEY_VALUE = "key_value"
    """Cut into at most as many parts as there are key and value heads."""
    WINDOW_KEY_VALUE = "window_key_value"
    """The same, of sliding layers that have another number of heads."""
    EXPERT = "expert"
    """Cut like `split`, or spread by whole experts where expert parallelism is on."""
    VISION = "vision"
    """Cut, or whole on every rank where the vision encoder is data-parallel."""


class Place(StrEnum):
    """Where in the model a group sits, which decides its pipeline stage."""

    EMBEDDING = "embedding"
    LAYERS = "layers"
    HEAD = "head"
    VISION = "vision"
    MTP = "mtp"
    """Multi-token prediction: loaded for speculative decoding only."""


@dataclass(frozen=True, slots=True)
class TensorGroup:
    """Tensors that share a role, a place, a sharding and a type."""

    group: str
    place: Place
    sharding: Sharding
    dtype: str
    parameters: int
    bytes: int
    layers: tuple[int, ...] = ()
    """Decoder layers that it spreads over evenly; empty for other places."""

    def bytes_within(self, layers: range) -> int:
        """Bytes that belong to the decoder layers of a range."""
        if not self.layers:
            return 0
        inside = sum(1 for layer in self.layers if layer in layers)
        return self.bytes * inside // len(self.layers)

    def as_fields(self) -> dict[str, Any]:
        """As the catalogue's files hold it."""
        fields = {
            "group": self.group,
            "place": str(self.place),
            "sharding": str(self.sharding),
            "dtype": self.dtype,
            "parameters": self.parameters,
            "bytes": self.bytes,
        }
        return fields | ({"layers": _spans(self.layers)} if self.layers else {})


def measured_groups(entries: Iterable[Mapping[str, Any]]) -> tuple[TensorGroup, ...]:
    """Groups as the catalogue's files hold them."""
    return tuple(
        TensorGroup(
            group=entry["group"],
            place=Place(entry["place"]),
            sharding=Sharding(entry["sharding"]),
            dtype=entry["dtype"],
            parameters=entry["parameters"],
            bytes=entry["bytes"],
            layers=tuple(layer for first, last in entry.get("layers", ()) for layer in range(first, last + 1)),
        )
        for entry in entries
    )


def _spans(layers: tuple[int, ...]) -> list[list[int]]:
    """Layer numbers as [first, last] pairs."""
    spans: list[list[int]] = []
    for layer in layers:
        if spans and spans[-1][1] == layer - 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    return spans


@dataclass(frozen=True, slots=True)
class _Tensor:
    """One tensor, or `count` equal ones, of one layer."""

    group: str
    module: str
    rows: int
    columns: int
    sharding: Sharding
    count: int = 1
    scheme: Scheme | None = None
    """Stored so whatever the quantisation says; `None`: a linear layer, which it decides on."""


def derived_groups(shape: Shape, quantization: Quantization) -> tuple[TensorGroup, ...]:
    """The groups that follow from a configuration."""
    collected = _Collection(quantization)
    for layer in range(shape.layers):
        prefix = "backbone" if shape.mamba else "model"
        collected.add(Place.LAYERS, f"{prefix}.layers.{layer}", _layer(shape, layer), layer)
    for index in range(shape.mtp_layers):
        prefix = "mtp.layers.0" if shape.linear else f"model.layers.{shape.layers + index}"
        collected.add(Place.MTP, prefix, _mtp(shape))
    hidden, vocabulary = shape.hidden, shape.vocabulary
    collected.add(Place.EMBEDDING, "model", [_plain("embeddings", vocabulary, hidden, Sharding.SPLIT)])
    head = [_plain("norms", 1, hidden)]
    if not shape.tied_embeddings:
        head.append(_plain("head", vocabulary, hidden, Sharding.SPLIT))
    collected.add(Place.HEAD, "model", head)
    if shape.vision:
        collected.add(Place.VISION, "vision_tower", _vision(shape.vision))
    return collected.groups()


class _Collection:
    """Adds tensors up by group."""

    def __init__(self, quantization: Quantization) -> None:
        self._quantization = quantization
        self._sums: dict[tuple[str, Place, Sharding, str], list[Any]] = {}

    def add(self, place: Place, prefix: str, tensors: Iterable[_Tensor], layer: int | None = None) -> None:
        for tensor in tensors:
            scheme = tensor.scheme or self._quantization.scheme(f"{prefix}.{tensor.module}")
            key = (tensor.group, place, tensor.sharding, scheme.name)
            total = self._sums.setdefault(key, [0, 0, set()])
            total[0] += tensor.count * tensor.rows * tensor.columns
            total[1] += tensor.count * scheme.bytes_of(tensor.rows, tensor.columns)
            if layer is not None:
                total[2].add(layer)

    def groups(self) -> tuple[TensorGroup, ...]:
        return tuple(
            TensorGroup(group, place, sharding, dtype, parameters, size, tuple(sorted(layers)))
            for (group, place, sharding, dtype), (parameters, size, layers) in self._sums.items()
        )


def _plain(group: str, rows: int, columns: int, sharding: Sharding = Sharding.WHOLE, scheme: Scheme = BF16) -> _Tensor:
    """A tensor that no quantisation touches."""
    return _Tensor(group, "", rows, columns, sharding, scheme=scheme)


def _layer(shape: Shape, layer: int) -> Iterator[_Tensor]:
    yield _plain("norms", shape.layer_norms, shape.hidden)
    yield from _layer_attention(shape, layer)
    network = shape.networks[layer]
    if network in ("dense", "both"):
        width = shape.widths[layer] if shape.widths else shape.dense_width
        yield from _network("dense_mlp", "mixer" if shape.mamba else "mlp", shape.hidden, width, gated=not shape.mamba)
    if network in ("experts", "both") and shape.experts:
        yield from _expert_layer(shape.experts, shape.hidden, experts_module(shape))


def _layer_attention(shape: Shape, layer: int) -> Iterator[_Tensor]:
    kind = shape.layer_kinds[layer]
    if kind == "linear" and shape.linear:
        yield from _linear_attention(shape.linear, shape.hidden)
    elif kind == "mamba" and shape.mamba:
        yield from _mamba(shape.mamba, shape.hidden)
    elif kind != "none":
        yield from _attention(shape, layer)


def _attention(shape: Shape, layer: int) -> Iterator[_Tensor]:
    match shape.attention:
        case LatentAttention():
            yield from _latent_attention(shape.attention, shape.hidden, layer)
        case CompressedAttention():
            yield from _compressed_attention(shape.attention, shape.hidden, layer)
        case GroupedAttention():
            windowed = shape.windowed is not None and layer < shape.layers and shape.layer_kinds[layer] == "sliding"
            attention = shape.windowed if windowed and shape.windowed else shape.attention
            cut = Sharding.WINDOW_KEY_VALUE if windowed else Sharding.KEY_VALUE
            yield from _grouped_attention(attention, shape.hidden, "mixer" if shape.mamba else "self_attn", cut)


def _latent_attention(attention: LatentAttention, hidden: int, layer: int) -> Iterator[_Tensor]:
    query = attention.heads * (attention.nope_dim + attention.rope_dim)
    group = "attention"
    if attention.q_rank:
        yield _Tensor(group, "self_attn.q_a_proj", attention.q_rank, hidden, Sharding.WHOLE)
        yield _plain(group, 1, attention.q_rank)
        yield _Tensor(group, "self_attn.q_b_proj", query, attention.q_rank, Sharding.SPLIT)
    else:
        yield _Tensor(group, "self_attn.q_proj", query, hidden, Sharding.SPLIT)
    latent = attention.kv_rank + attention.rope_dim
    yield _Tensor(group, "self_attn.kv_a_proj_with_mqa", latent, hidden, Sharding.WHOLE)
    yield _plain(group, 1, attention.kv_rank)
    expanded = attention.heads * (attention.nope_dim + attention.value_dim)
    yield _Tensor(group, "self_attn.kv_b_proj", expanded, attention.kv_rank, Sharding.SPLIT)
    yield _Tensor(group, "self_attn.o_proj", hidden, attention.heads * attention.value_dim, Sharding.SPLIT)
    own_indexer = attention.indexer and (layer in attention.indexer.layers or layer > max(attention.indexer.layers))
    if attention.indexer and attention.q_rank and own_indexer:
        width = attention.indexer.heads * attention.indexer.head_dim
        yield _Tensor("indexer", "self_attn.indexer.wq_b", width, attention.q_rank, Sharding.WHOLE)
        yield _Tensor("indexer", "self_attn.indexer.wk", attention.indexer.head_dim, hidden, Sharding.WHOLE)
        yield _plain("indexer", 2, attention.indexer.head_dim)
        yield _plain("indexer", attention.indexer.heads, hidden)


def _grouped_attention(attention: GroupedAttention, hidden: int, module: str, cut: Sharding) -> Iterator[_Tensor]:
    query = attention.heads * attention.head_dim
    key = attention.kv_heads * attention.head_dim
    value = attention.kv_heads * (attention.value_dim or attention.head_dim)
    out = attention.heads * (attention.value_dim or attention.head_dim)
    group = "attention"
    yield _Tensor(group, f"{module}.q_proj", query * (2 if attention.gated else 1), hidden, Sharding.SPLIT)
    yield _Tensor(group, f"{module}.k_proj", key, hidden, cut)
    yield _Tensor(group, f"{module}.v_proj", value, hidden, cut)
    yield _Tensor(group, f"{module}.o_proj", hidden, out, Sharding.SPLIT)
    if attention.bias:
        yield _plain(group, 1, query, Sharding.SPLIT)
        yield _plain(group, 1, key + value, cut)
    if attention.output_bias:
        yield _plain(group, 1, hidden)
    if attention.sinks:
        yield _plain(group, 1, attention.heads, Sharding.SPLIT)
    if attention.head_norms == "head":
        yield _plain("norms", 2, attention.head_dim)
    if attention.head_norms == "layer":
        yield _plain("norms", 1, query + key)


def _compressed_attention(attention: CompressedAttention, hidden: int, layer: int) -> Iterator[_Tensor]:
    heads, rank, group = attention.heads * attention.head_dim, attention.q_rank, "attention"
    yield _Tensor(group, "attn.wqa_wkv", rank + attention.head_dim, hidden, Sharding.WHOLE)
    yield _plain("norms", 1, rank + attention.head_dim)
    yield _Tensor(group, "attn.wq_b", heads, rank, Sharding.SPLIT)
    yield _Tensor(group, "attn.wo_a", attention.output_rank, heads, Sharding.SPLIT)
    yield _Tensor(group, "attn.wo_b", hidden, attention.output_groups * attention.output_rank, Sharding.SPLIT)
    mixed = (2 + attention.streams) * attention.streams
    yield _plain("mixing", 2 * mixed, attention.streams * hidden, scheme=FP32)
    ratio = attention.ratios[layer] if layer < len(attention.ratios) else 0
    if ratio:
        yield from _compressor(attention.states(ratio) * attention.head_dim, ratio, hidden)
    if ratio == INDEXED:
        yield _Tensor("indexer", "attn.wq_b", attention.index_heads * attention.index_dim, rank, Sharding.WHOLE)
        yield _plain("indexer", attention.index_heads, hidden)
        yield from _compressor(attention.states(ratio) * attention.index_dim, ratio, hidden)


def _compressor(width: int, ratio: int, hidden: int) -> Iterator[_Tensor]:
    yield _plain("compressor", width, hidden)
    yield _plain("compressor", ratio, width // 2, scheme=FP32)


def _mamba(mamba: Mamba, hidden: int) -> Iterator[_Tensor]:
    group = "mamba"
    projected = mamba.inner + mamba.channels + mamba.heads
    yield _Tensor(group, "mixer.in_proj", projected, hidden, Sharding.SPLIT)
    yield _plain(group, mamba.channels, mamba.kernel + 1, Sharding.SPLIT)
    yield _plain(group, 1, mamba.heads, Sharding.SPLIT, FP32)
    yield _plain(group, 2, mamba.heads, Sharding.SPLIT)
    yield _plain(group, 1, mamba.inner, Sharding.SPLIT)
    yield _Tensor(group, "mixer.out_proj", hidden, mamba.inner, Sharding.SPLIT)


def _linear_attention(linear: LinearAttention, hidden: int) -> Iterator[_Tensor]:
    value = linear.value_heads * linear.value_dim
    group = "linear_attention"
    yield _Tensor(group, "linear_attn.in_proj_qkv", linear.channels, hidden, Sharding.SPLIT)
    yield _Tensor(group, "linear_attn.in_proj_z", value, hidden, Sharding.SPLIT)
    yield _plain(group, 2 * linear.value_heads, hidden, Sharding.SPLIT)
    yield _plain(group, linear.channels, linear.kernel, Sharding.SPLIT)
    yield _plain(group, 2, linear.value_heads, Sharding.SPLIT)
    yield _plain(group, 1, linear.value_dim)
    yield _Tensor(group, "linear_attn.out_proj", hidden, value, Sharding.SPLIT)


def experts_module(shape: Shape) -> str:
    """The module of the experts within a layer, as the checkpoints of the model name it."""
    if shape.mamba:
        return "mixer"
    return "" if "both" in shape.networks else "mlp"


def first_expert(shape: Shape) -> str:
    """The name of the first matrix of the first expert."""
    layer = next((layer for layer, network in enumerate(shape.networks) if network in ("experts", "both")), 0)
    root, module = ("backbone" if shape.mamba else "model"), experts_module(shape)
    return f"{root}.layers.{layer}.{module}{'.' if module else ''}experts.0.up_proj"


def shared_module(experts: Experts) -> str:
    """The module of the shared experts: Qwen's is one expert with a gate."""
    return "shared_expert" if experts.shared_gate else "shared_experts"


def _expert_layer(experts: Experts, hidden: int, module: str) -> Iterator[_Tensor]:
    within = f"{module}." if module else ""
    for projection, rows, columns in _projections(experts.hidden, experts.width, gated=experts.gated):
        name = f"{within}experts.0.{projection}"
        yield _Tensor("routed_experts", name, rows, columns, Sharding.EXPERT, count=experts.count)
        if experts.biased:
            cut = Sharding.WHOLE if projection == "down_proj" else Sharding.EXPERT
            yield _plain("routed_experts", experts.count, rows, cut)
    if experts.shared_width:
        name = f"{within}{shared_module(experts)}"
        yield from _network("shared_experts", name, hidden, experts.shared_width, gated=experts.gated)
    yield _plain("router", experts.count, hidden, scheme=FP32 if experts.router_bytes == 4 else BF16)
    if experts.biased:
        yield _plain("router", 1, experts.count)
    if experts.hidden != hidden:
        yield _Tensor("latent_experts", f"{within}fc1_latent_proj", experts.hidden, hidden, Sharding.WHOLE)
        yield _Tensor("latent_experts", f"{within}fc2_latent_proj", hidden, experts.hidden, Sharding.WHOLE)
    if experts.shared_gate:
        yield _plain("router", 1, hidden)
    if experts.bias:
        yield _plain("router", 1, experts.count, scheme=FP32)


def _network(group: str, module: str, hidden: int, width: int, *, gated: bool = True) -> Iterator[_Tensor]:
    for projection, rows, columns in _projections(hidden, width, gated=gated):
        yield _Tensor(group, f"{module}.{projection}", rows, columns, Sharding.SPLIT)


def _projections(hidden: int, width: int, *, gated: bool) -> tuple[tuple[str, int, int], ...]:
    gate = (("gate_proj", width, hidden),) if gated else ()
    return (*gate, ("up_proj", width, hidden), ("down_proj", hidden, width))


def _mtp(shape: Shape) -> Iterator[_Tensor]:
    """A layer for multi-token prediction: a whole decoder layer, a projection of two states, and three norms."""
    yield _plain("norms", 2, shape.hidden)
    yield from _attention(shape, shape.layers)
    if shape.experts:
        yield from _expert_layer(shape.experts, shape.hidden, experts_module(shape))
    elif shape.dense_width:
        yield from _network("mtp", "mlp", shape.hidden, shape.dense_width)
    yield _plain("mtp", shape.hidden, 2 * shape.hidden)
    yield _plain("mtp", 3, shape.hidden)
    if shape.mtp_copies:
        yield _plain(MTP_COPIES, 2 * shape.vocabulary, shape.hidden)


def _vision(vision: Vision) -> Iterator[_Tensor]:
    yield _plain("vision", 1, vision.block_parameters, Sharding.WHOLE if vision.replicated else Sharding.VISION)
    yield _plain("vision", 1, vision.whole_parameters)
    cut = Sharding.VISION if vision.projector_split else Sharding.WHOLE
    yield _plain("vision", 1, vision.projector_parameters, cut)
