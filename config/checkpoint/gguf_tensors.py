"""The bytes of a GGUF file by layer: from the list of its tensors, or from the shape of the model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from config.checkpoint.quantization import UNQUANTIZED
from config.checkpoint.shape import Shape
from config.checkpoint.tensors import Place, derived_groups

_LAYER = re.compile(r"blk\.(\d+)\.")
_EMBEDDING = "token_embd.weight"
_OUTPUT = "output.weight"


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """A tensor of a file."""

    name: str
    bytes: float
    layer: int | None
    """Its layer; `None`: outside the layers."""


def listed_tensors(sizes: Iterable[tuple[str, int]]) -> tuple[GgufTensor, ...]:
    """Tensors by the names and sizes that files list."""
    found = []
    for name, size in sizes:
        match = _LAYER.match(name)
        found.append(GgufTensor(name, size, int(match[1]) if match else None))
    return tuple(found)


def is_embedding(tensor: GgufTensor) -> bool:
    """Whether llama.cpp keeps a tensor in host memory whatever is offloaded: the input layer."""
    return tensor.name == _EMBEDDING


def has_output(tensors: Iterable[GgufTensor]) -> bool:
    """Whether the output has a matrix of its own; else it is a copy of the embedding."""
    return any(tensor.name == _OUTPUT for tensor in tensors)


_ROLES = {
    "routed_experts": ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"),
    "shared_experts": ("ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"),
    "dense_mlp": ("ffn_gate", "ffn_up", "ffn_down"),
    "router": ("ffn_gate_inp",),
    "norms": ("attn_norm",),
}
"""Names of llama.cpp for groups of tensors; the others are attention (gguf-py/gguf/constants.py)."""


def derived_tensors(shape: Shape, total: int, *, at_most_16_bits: bool) -> tuple[GgufTensor, ...]:
    """Tensors of a file of `total` bytes whose list is not known, each with its share of the parameters.

    Quantisations give experts fewer bits than the rest. `at_most_16_bits`: the rest is counted with 16 bits, the most
    that it can have.
    """
    groups = [group for group in derived_groups(shape, UNQUANTIZED) if group.place not in (Place.VISION, Place.MTP)]
    scale = total / sum(group.parameters for group in groups)
    found = []
    for group in groups:
        bits = 2.0 if at_most_16_bits and group.group != "routed_experts" else scale
        size = min(total, group.parameters * bits)
        if group.place is Place.LAYERS:
            names = _ROLES.get(group.group, ("attn_q",))
            found += [
                GgufTensor(f"blk.{layer}.{name}.weight", size / len(group.layers) / len(names), layer)
                for layer in group.layers
                for name in names
            ]
        else:
            found.append(GgufTensor(_EMBEDDING if group.place is Place.EMBEDDING else _OUTPUT, size, None))
    return tuple(found)


def even_tensors(layers: int, total: int) -> tuple[GgufTensor, ...]:
    """A file of which only the size is known, in equal layers and an output."""
    size = total / (layers + 1)
    each = [GgufTensor(f"blk.{layer}.attn_q.weight", size, layer) for layer in range(layers)]
    return (*each, GgufTensor(_OUTPUT, size, None))
