"""Reads safetensors headers, and derives the role of each tensor from its name.

A header is an 8-byte length and a JSON object with type, shape and offsets of every tensor.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from config.checkpoint.tensors import Place, Sharding, TensorGroup

LENGTH_BYTES = 8
_MOST_BYTES = 100_000_000
"""Longest header that the format's own library reads (safetensors/src/tensor.rs, MAX_HEADER_SIZE)."""

Header = Mapping[str, Any]
"""Tensor name to `dtype`, `shape` and `data_offsets`."""


def header_length(start: bytes) -> int:
    """Length of the header that follows the first 8 bytes of a file. Raises ValueError for one that cannot be."""
    if len(start) < LENGTH_BYTES:
        raise ValueError("a safetensors file ends before its header")
    length = int.from_bytes(start[:LENGTH_BYTES], "little")
    if length > _MOST_BYTES:
        raise ValueError(f"a safetensors file says {length:,} bytes of header: expected at most {_MOST_BYTES:,}")
    return length


def parse_header(text: bytes) -> Header:
    """The tensors of a header. Raises ValueError where it is not one."""
    header = json.loads(text)
    if not isinstance(header, dict):
        raise TypeError("a safetensors header is a JSON object")
    return {name: tensor for name, tensor in header.items() if name != "__metadata__"}


_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")

_ROLES: tuple[tuple[re.Pattern[str], str, Sharding], ...] = tuple(
    (re.compile(pattern), group, sharding)
    for pattern, group, sharding in (
        (r"indexer", "indexer", Sharding.WHOLE),
        (r"shared_expert_gate", "router", Sharding.WHOLE),
        (r"shared_experts?\.", "shared_experts", Sharding.SPLIT),
        (r"\.experts?\.", "routed_experts", Sharding.EXPERT),
        (r"(mlp|block_sparse_moe)\.gate\.|e_score_correction_bias|router", "router", Sharding.WHOLE),
        (r"linear_attn\.", "linear_attention", Sharding.SPLIT),
        (r"self_attn\.(k_proj|v_proj)", "attention", Sharding.KEY_VALUE),
        (r"self_attn\.(q_a_|kv_a_)", "attention", Sharding.WHOLE),
        (r"norm", "norms", Sharding.WHOLE),
        (r"self_attn\.", "attention", Sharding.SPLIT),
        (r"mlp\.", "dense_mlp", Sharding.SPLIT),
    )
)
UNKNOWN_ROLE = "other"
"""Tensors whose role, and so whose sharding, their names do not tell."""

_VISION = re.compile(r"(^|\.)(vision_tower|vision_model|visual|mm_projector|multi_modal_projector)\.")
_PROJECTOR = re.compile(r"projector|merger")
_MTP = re.compile(r"(^|\.)mtp\.")
_SCALE = re.compile(r"scale|zeros|g_idx|weight_shape")


def header_groups(headers: Iterable[Header], layers: int) -> tuple[TensorGroup, ...]:
    """The tensors of all headers of a checkpoint with so many decoder layers, in groups."""
    sums: dict[tuple[str, Place, Sharding, str], list[Any]] = {}
    for header in headers:
        for name, tensor in header.items():
            group, place, sharding, layer = _role(name, layers)
            start, end = tensor["data_offsets"]
            if not 0 <= start <= end:
                raise ValueError(f"tensor {name} lies from {start} to {end}")
            total = sums.setdefault((group, place, sharding, tensor["dtype"]), [0, 0, {}])
            total[0] += _parameters(name, tensor)
            total[1] += end - start
            if layer is not None:
                total[2][layer] = total[2].get(layer, 0) + end - start
    return tuple(
        TensorGroup(*key, parameters=parameters, bytes=size, layers=tuple(sorted(by_layer)))
        for key, (parameters, size, by_layer) in sorted(sums.items())
    )


def unknown_tensors(headers: Iterable[Header], layers: int) -> tuple[str, ...]:
    """Names of the tensors whose sharding is not known, without the numbers of their layers."""
    names = (name for header in headers for name in header if _role(name, layers)[0] == UNKNOWN_ROLE)
    return tuple(sorted({re.sub(r"\.\d+\.", ".N.", name) for name in names}))


def _role(name: str, layers: int) -> tuple[str, Place, Sharding, int | None]:
    """Group, place, sharding and decoder layer of a tensor."""
    if _VISION.search(name):
        return "vision", Place.VISION, Sharding.WHOLE if _PROJECTOR.search(name) else Sharding.VISION, None
    match = _LAYER.search(name)
    if _MTP.search(name) or (match and int(match[1]) >= layers):
        return "mtp", Place.MTP, Sharding.WHOLE, None
    if match:
        for pattern, group, sharding in _ROLES:
            if pattern.search(name):
                return group, Place.LAYERS, sharding, int(match[1])
        return UNKNOWN_ROLE, Place.LAYERS, Sharding.WHOLE, int(match[1])
    if "embed_tokens" in name or "wte" in name:
        return "embeddings", Place.EMBEDDING, Sharding.SPLIT, None
    if "lm_head" in name:
        return "head", Place.HEAD, Sharding.SPLIT, None
    return "norms" if "norm" in name else UNKNOWN_ROLE, Place.HEAD, Sharding.WHOLE, None


def _parameters(name: str, tensor: Mapping[str, Any]) -> int:
    """Weights that a tensor stands for: packed ones count several times, scales not at all."""
    if _SCALE.search(name):
        return 0
    per_element = {"I32": 8, "U8": 2}.get(tensor["dtype"], 1)
    return int(per_element * prod(tensor["shape"]))
