"""Reads the metadata of GGUF files.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Metadata comes first, as typed key-value pairs, then
the list of tensors with their offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO

from stager.listing import SHARD

MAGIC = b"GGUF"

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9

_ALIGNMENT = 32
"""Of the first tensor, where the metadata states no other."""

_MOST_BYTES = 256 * 2**20
"""Of one string or array. A tokenizer's tables take tens of megabytes; more is a length that was misread."""


class GgufError(ValueError):
    """A file that is not GGUF, or uses an unknown version or type."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array of the metadata, without its elements."""

    length: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """Metadata of one file."""

    metadata: Mapping[str, Any]
    tensors: tuple[tuple[str, int], ...] = ()
    """Names, and offsets from the first tensor."""
    data_start: int = 0
    """Where the first tensor is in the file."""

    def tensor_sizes(self, file_bytes: int) -> tuple[tuple[str, int], ...]:
        """Names and bytes of the tensors of a file of that size, padding included: up to the next tensor."""
        ordered = sorted(self.tensors, key=lambda tensor: tensor[1])
        ends = (("", file_bytes - self.data_start),)
        return tuple((name, end - offset) for (name, offset), (_, end) in pairwise((*ordered, *ends)))

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def field(self, name: str) -> Any:
        """A field of the architecture, such as `block_count`."""
        return self.metadata.get(f"{self.architecture}.{name}")

    def _windows(self) -> dict[str, Any]:
        """The fields of sliding windows; where their layers are not known, one that says so."""
        window = self.field("attention.sliding_window")
        if not window or self.architecture in _WITHOUT_WINDOWS:
            return {}
        stated = self.field("attention.sliding_window_pattern")
        pattern = stated if isinstance(stated, int) else _WINDOW_PATTERNS.get(self.architecture)
        if not pattern:
            return {"unknown_windows": self.architecture or "no architecture"}
        return {"sliding_window": window, "sliding_window_pattern": pattern}

    def config(self) -> dict[str, Any]:
        """The metadata under the field names of a `config.json`."""
        latent = self.field("attention.kv_lora_rank") if self.field("attention.key_length_mla") else None
        heads = self.field("attention.head_count")
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        key, value = self.field("attention.key_length"), self.field("attention.value_length")
        config = {
            "model_type": self.architecture,
            "num_hidden_layers": self.field("block_count"),
            "hidden_size": self.field("embedding_length"),
            "intermediate_size": self.field("feed_forward_length"),
            "num_attention_heads": heads,
            "num_key_value_heads": self.field("attention.head_count_kv"),
            "max_position_embeddings": self.field("context_length"),
            "vocab_size": tokens.length if isinstance(tokens, Array) else None,
            "num_experts": self.field("expert_count"),
            "num_experts_per_tok": self.field("expert_used_count"),
            "moe_intermediate_size": self.field("expert_feed_forward_length"),
            "full_attention_interval": self.field("full_attention_interval"),
            "head_dim": (key + value) // 2 if key and value else None,
        }
        if latent:
            rope = self.field("rope.dimension_count")
            config |= {
                "kv_lora_rank": latent,
                "q_lora_rank": self.field("attention.q_lora_rank"),
                "qk_rope_head_dim": rope,
                "qk_nope_head_dim": self.field("attention.key_length_mla") - rope,
                "v_head_dim": self.field("attention.value_length_mla"),
            }
        config |= self._windows()
        varying = [name for name, found in config.items() if isinstance(found, Array)]
        if varying:
            config |= dict.fromkeys(varying) | {"layers_block_type": varying}
        return {name: found for name, found in config.items() if found is not None}


_WINDOW_PATTERNS = {"cohere2": 4, "gemma2": 2, "gemma3": 6, "gpt-oss": 2}
"""Every so many layers one sees the whole context, by architecture (llama.cpp src/models, set_swa_pattern)."""

_WITHOUT_WINDOWS = ("phi3",)
"""Architectures whose window llama.cpp does not use (src/llama-model.cpp)."""


def read_gguf(file: BinaryIO) -> GgufHeader:
    """The header at the start of an open file. Raises GgufError."""
    if file.read(4) != MAGIC:
        raise GgufError("it does not begin with the letters GGUF")
    version, count, pairs = struct.unpack("<IQQ", _exactly(file, 20))
    if version not in (2, 3):
        raise GgufError(f"its version is {version}: expected 2 or 3")
    metadata = {}
    for _ in range(pairs):
        key = _string(file)
        metadata[key] = _value(file, _scalar(file, 4))
    tensors = tuple(_tensor(file) for _ in range(count))
    alignment = int(metadata.get("general.alignment", _ALIGNMENT))
    return GgufHeader(metadata, tensors, -(-file.tell() // alignment) * alignment)


def _tensor(file: BinaryIO) -> tuple[str, int]:
    """Name and offset of the next tensor of the list; its shape and type are skipped."""
    name, dimensions = _string(file), _scalar(file, 4)
    _exactly(file, dimensions * struct.calcsize(_SCALARS[10]) + struct.calcsize(_SCALARS[4]))
    return name, _scalar(file, 10)


def shard_of(name: str) -> tuple[int, int]:
    """Shard number and count from a file name; (1, 1) for a single file."""
    match = SHARD.fullmatch(name)
    return (int(match["number"]), int(match["count"])) if match else (1, 1)


def _exactly(file: BinaryIO, count: int) -> bytes:
    if count > _MOST_BYTES:
        raise GgufError(f"it has a field of {count:,} bytes: expected at most {_MOST_BYTES:,}")
    found = file.read(count)
    if len(found) != count:
        raise GgufError("it ends within its header")
    return found


def _scalar(file: BinaryIO, kind: int) -> Any:
    form = _SCALARS[kind]
    return struct.unpack(form, _exactly(file, struct.calcsize(form)))[0]


def _string(file: BinaryIO) -> str:
    return _exactly(file, _scalar(file, 10)).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        return _array(file)
    if kind not in _SCALARS:
        raise GgufError(f"its metadata has the type {kind}, which is not known")
    return _scalar(file, kind)


def _array(file: BinaryIO) -> Array:
    """Skips the elements of an array."""
    kind, count = _scalar(file, 4), _scalar(file, 10)
    if kind == _ARRAY:
        raise GgufError("its metadata has an array of arrays, which no model needs")
    if kind in _SCALARS:
        _exactly(file, count * struct.calcsize(_SCALARS[kind]))
    else:
        for _ in range(count):
            _value(file, kind)
    return Array(count)
