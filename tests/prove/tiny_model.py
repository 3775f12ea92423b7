"""A Qwen3 of 0.2 million random weights, with a tokenizer of single bytes: files as on the hub, written by hand."""

import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, HEAD_SIZE = 64, 128, 2, 4, 2, 32
CONTEXT = 32768
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "</tool_call>")
VOCABULARY = 256 + 64
"""Tokens: the bytes, the special tokens, and unused ones up to a multiple of 64, which vLLM pads to."""
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "bos_token_id": 256,
    "eos_token_id": 258,
    "head_dim": HEAD_SIZE,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "initializer_range": 0.02,
    "intermediate_size": INTERMEDIATE,
    "max_position_embeddings": CONTEXT,
    "max_window_layers": LAYERS,
    "model_type": "qwen3",
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": VOCABULARY,
}
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def write(directory: Path) -> list[str]:
    """Writes the model and returns the names of its files."""
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    texts = {"config.json": CONFIG, "tokenizer.json": _tokenizer(), "tokenizer_config.json": config}
    for name, content in texts.items():
        (directory / name).write_text(json.dumps(content))
    (directory / "model.safetensors").write_bytes(_safetensors(dict(_shapes())))
    return [*texts, "model.safetensors"]


def _shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields name and shape of each tensor, as `Qwen3ForCausalLM` of transformers names them."""
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        names = f"model.layers.{layer}"
        for projection, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            yield f"{names}.self_attn.{projection}_proj.weight", (heads * HEAD_SIZE, HIDDEN)
        yield f"{names}.self_attn.o_proj.weight", (HIDDEN, HEADS * HEAD_SIZE)
        for norm in ("q_norm", "k_norm"):
            yield f"{names}.self_attn.{norm}.weight", (HEAD_SIZE,)
        for projection in ("gate", "up"):
            yield f"{names}.mlp.{projection}_proj.weight", (INTERMEDIATE, HIDDEN)
        yield f"{names}.mlp.down_proj.weight", (HIDDEN, INTERMEDIATE)
        for norm in ("input_layernorm", "post_attention_layernorm"):
            yield f"{names}.{norm}.weight", (HIDDEN,)
    yield "model.norm.weight", (HIDDEN,)


def _safetensors(shapes: dict[str, tuple[int, ...]]) -> bytes:
    """Returns a file of BF16 tensors (github.com/huggingface/safetensors, "Format"): ones for a norm, else random."""
    numbers, header, content = random.Random(1), dict[str, object](), bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        start = len(content)
        for _ in range(count):
            value = 1.0 if len(shape) == 1 else numbers.gauss(0, 0.05)
            # BF16 is the upper half of a float of 32 bits.
            content += struct.pack("<f", value)[2:]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, len(content)]}
    described = json.dumps(header).encode()
    return struct.pack("<Q", len(described)) + described + bytes(content)


def _tokenizer() -> dict[str, object]:
    """Returns `tokenizer.json` of a byte-level BPE without merges: one token a byte."""
    special = [
        {"id": 256 + index, "content": token, "special": True}
        | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        for index, token in enumerate(SPECIAL)
    ]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    vocabulary = {character: index for index, character in enumerate(_bytes_as_characters())}
    model = {"type": "BPE", "vocab": vocabulary, "merges": []}
    return {
        "version": "1.0",
        "added_tokens": special,
        "pre_tokenizer": byte_level,
        "decoder": byte_level,
        "model": model,
    }


def _bytes_as_characters() -> list[str]:
    """Returns a printable character for each byte, as GPT-2's byte-level BPE assigns them."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    stands_for = {byte: 0x100 + index for index, byte in enumerate(others)}
    return [chr(stands_for.get(byte, byte)) for byte in range(256)]
