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

from config.checkpoint.quantization import BF16, FP32, Quantization, Scheme
from config.checkpoint.shape import Experts, GroupedAttention, LatentAttention, LinearAttention, Shape, Vision


class Sharding(StrEnum):
    """What tensor parallelism does to a group."""

    SPLIT = "split"
    """Cut into equal parts."""
    WHOLE = "whole"
    """The same on every rank."""
    KEY_VALUE = "key_value"
    """Cut into at most as many parts as there are key and value heads."""
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
        collected.add(Place.LAYERS, f"model.layers.{layer}", _layer(shape, layer), layer)
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
    kind = shape.layer_kinds[layer]
    yield _plain("norms", shape.layer_norms, shape.hidden)
    if kind == "linear" and shape.linear:
        yield from _linear_attention(shape.linear, shape.hidden)
    else:
        yield from _attention(shape)
    if shape.experts and layer not in shape.experts.dense_layers:
        yield from _expert_layer(shape.experts, shape.hidden)
    else:
        yield from _network("dense_mlp", "mlp", shape.hidden, shape.dense_width)


def _attention(shape: Shape) -> Iterator[_Tensor]:
    match shape.attention:
        case LatentAttention():
            yield from _latent_attention(shape.attention, shape.hidden)
        case GroupedAttention():
            yield from _grouped_attention(shape.attention, shape.hidden)


def _latent_attention(attention: LatentAttention, hidden: int) -> Iterator[_Tensor]:
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
    if attention.indexer and attention.q_rank:
        width = attention.indexer.heads * attention.indexer.head_dim
        yield _Tensor("indexer", "self_attn.indexer.wq_b", width, attention.q_rank, Sharding.WHOLE)
        yield _Tensor("indexer", "self_attn.indexer.wk", attention.indexer.head_dim, hidden, Sharding.WHOLE)
        yield _plain("indexer", 2, attention.indexer.head_dim)
        yield _plain("indexer", attention.indexer.heads, hidden)


def _grouped_attention(attention: GroupedAttention, hidden: int) -> Iterator[_Tensor]:
    query = attention.heads * attention.head_dim
    key = attention.kv_heads * attention.head_dim
    group = "attention"
    yield _Tensor(group, "self_attn.q_proj", query * (2 if attention.gated else 1), hidden, Sharding.SPLIT)
    yield _Tensor(group, "self_attn.k_proj", key, hidden, Sharding.KEY_VALUE)
    yield _Tensor(group, "self_attn.v_proj", key, hidden, Sharding.KEY_VALUE)
    yield _Tensor(group, "self_attn.o_proj", hidden, query, Sharding.SPLIT)
    if attention.bias:
        yield _plain(group, 1, query, Sharding.SPLIT)
        yield _plain(group, 2, key, Sharding.KEY_VALUE)
    if attention.head_norms == "head":
        yield _plain("norms", 2, attention.head_dim)
    if attention.head_norms == "layer":
        yield _plain("norms", 1, query + key)


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


def _expert_layer(experts: Experts, hidden: int) -> Iterator[_Tensor]:
    for projection, rows, columns in _projections(hidden, experts.width):
        module = f"mlp.experts.0.{projection}"
        yield _Tensor("routed_experts", module, rows, columns, Sharding.EXPERT, count=experts.count)
    if experts.shared_width:
        yield from _network("shared_experts", "mlp.shared_experts", hidden, experts.shared_width)
    yield _plain("router", experts.count, hidden, scheme=FP32 if experts.router_bytes == 4 else BF16)
    if experts.shared_gate:
        yield _plain("router", 1, hidden)
    if experts.bias:
        yield _plain("router", 1, experts.count, scheme=FP32)


def _network(group: str, module: str, hidden: int, width: int) -> Iterator[_Tensor]:
    for projection, rows, columns in _projections(hidden, width):
        yield _Tensor(group, f"{module}.{projection}", rows, columns, Sharding.SPLIT)


def _projections(hidden: int, width: int) -> tuple[tuple[str, int, int], ...]:
    return ("gate_proj", width, hidden), ("up_proj", width, hidden), ("down_proj", hidden, width)


def _mtp(shape: Shape) -> Iterator[_Tensor]:
    """A layer for multi-token prediction: a whole decoder layer, a projection of two states, and three norms."""
    yield _plain("norms", 2, shape.hidden)
    yield from _attention(shape)
    if shape.experts:
        yield from _expert_layer(shape.experts, shape.hidden)
    yield _plain("mtp", shape.hidden, 2 * shape.hidden)
    yield _plain("mtp", 3, shape.hidden)


def _vision(vision: Vision) -> Iterator[_Tensor]:
    hidden, width = vision.hidden, vision.width
    block = 3 * hidden * hidden + 3 * hidden + hidden * hidden + hidden
    block += 2 * hidden * width + width + hidden + 4 * hidden
    yield _plain("vision", 1, vision.depth * block, Sharding.VISION)
    yield _plain("vision", 1, vision.patch_parameters + vision.position_parameters)
    if vision.closing_norm:
        yield _plain("vision", 2, hidden)
    yield _plain(
        "vision", 1, vision.projector_parameters, Sharding.VISION if vision.projector_split else Sharding.WHOLE
    )
