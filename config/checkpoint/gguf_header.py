"""Reads the metadata of GGUF files.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Metadata comes first, as typed key-value pairs. The
list of tensors that follows is not read.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

from stager.listing import SHARD

MAGIC = b"GGUF"

_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9

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

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def field(self, name: str) -> Any:
        """A field of the architecture, such as `block_count`."""
        return self.metadata.get(f"{self.architecture}.{name}")

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
            "sliding_window": self.field("attention.sliding_window"),
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
        varying = [name for name, found in config.items() if isinstance(found, Array)]
        if varying:
            config |= dict.fromkeys(varying) | {"layers_block_type": varying}
        return {name: found for name, found in config.items() if found is not None}


def read_gguf(file: BinaryIO) -> GgufHeader:
    """The header at the start of an open file. Raises GgufError."""
    if file.read(4) != MAGIC:
        raise GgufError("it does not begin with the letters GGUF")
    version, _, pairs = struct.unpack("<IQQ", _exactly(file, 20))
    if version not in (2, 3):
        raise GgufError(f"its version is {version}: expected 2 or 3")
    metadata = {}
    for _ in range(pairs):
        key = _string(file)
        metadata[key] = _value(file, _scalar(file, 4))
    return GgufHeader(metadata)


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
