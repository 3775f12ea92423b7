"""Small checkpoints with true headers, for tests: safetensors and GGUF files whose weights are holes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

_ITEM_BYTES = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "U8": 1, "I32": 4}
LAYERS, HIDDEN, WIDTH, VOCABULARY = 2, 64, 128, 512

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": LAYERS,
    "hidden_size": HIDDEN,
    "intermediate_size": WIDTH,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
"""A llama whose sizes can be worked out by hand."""


def llama_tensors() -> dict[str, tuple[str, list[int]]]:
    """Type and shape of every tensor of that llama."""
    tensors: dict[str, tuple[str, list[int]]] = {
        "model.embed_tokens.weight": ("BF16", [VOCABULARY, HIDDEN]),
        "model.norm.weight": ("BF16", [HIDDEN]),
        "lm_head.weight": ("BF16", [VOCABULARY, HIDDEN]),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}"
        shapes = {
            "input_layernorm": [HIDDEN],
            "post_attention_layernorm": [HIDDEN],
            "self_attn.q_proj": [HIDDEN, HIDDEN],
            "self_attn.k_proj": [HIDDEN // 2, HIDDEN],
            "self_attn.v_proj": [HIDDEN // 2, HIDDEN],
            "self_attn.o_proj": [HIDDEN, HIDDEN],
            "mlp.gate_proj": [WIDTH, HIDDEN],
            "mlp.up_proj": [WIDTH, HIDDEN],
            "mlp.down_proj": [HIDDEN, WIDTH],
        }
        tensors |= {f"{prefix}.{name}.weight": ("BF16", shape) for name, shape in shapes.items()}
    return tensors


def write_safetensors(path: Path, tensors: Mapping[str, tuple[str, list[int]]]) -> None:
    """A file with a true header and weights of zeros."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (dtype, shape) in tensors.items():
        size = prod(shape) * _ITEM_BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def write_llama(directory: Path, config: Mapping[str, Any] = LLAMA) -> Path:
    """A directory with that llama in two files."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    tensors = llama_tensors()
    first = {name: tensor for name, tensor in tensors.items() if "layers.1" not in name}
    write_safetensors(directory / "model-00001-of-00002.safetensors", first)
    rest = {name: tensor for name, tensor in tensors.items() if "layers.1" in name}
    write_safetensors(directory / "model-00002-of-00002.safetensors", rest)
    return directory


_EMBEDDING_BYTES = 256 * VOCABULARY * 144 // 256
TINY_GGUF = {"token_embd.weight": _EMBEDDING_BYTES, "output_norm.weight": 1024}
"""The tensors of the smallest file: an embedding in Q4_K and a norm in F32."""


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    fields: Mapping[str, int] | None = None,
    tensors: Mapping[str, int] = TINY_GGUF,
) -> None:
    """A GGUF file of version 3 with a tokenizer of 512 words, and tensors of so many bytes, in multiples of 32."""
    values = {
        "block_count": 2,
        "embedding_length": 256,
        "feed_forward_length": 512,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "context_length": 4096,
        **(fields or {}),
    }
    pairs = [_pair("general.architecture", 8, _string(architecture))]
    pairs += [_pair(f"{architecture}.{name}", 4, struct.pack("<I", value)) for name, value in values.items()]
    words = b"".join(_string(f"word{index}") for index in range(VOCABULARY))
    pairs.append(_pair("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, VOCABULARY) + words))
    pairs.append(_pair("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, VOCABULARY) + bytes(4 * VOCABULARY)))
    with path.open("wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)))
        file.write(b"".join(pairs))
        offset = 0
        for name, size in tensors.items():
            file.write(_string(name) + struct.pack("<IQIQ", 1, size // 4, 0, offset))
            offset += size
        file.truncate(-(-file.tell() // 32) * 32 + offset)


def _pair(key: str, kind: int, value: bytes) -> bytes:
    return _string(key) + struct.pack("<I", kind) + value


def _string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()
