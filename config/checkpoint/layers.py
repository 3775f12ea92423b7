"""Reads what each decoder layer of a model is: its attention, its network, and whether it has an indexer.

Families spell it in many ways: a list of kinds, a pattern of letters, an interval, or blocks that differ one by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

_KINDS = {
    "full_attention": "full",
    "deepseek_sparse_attention": "full",
    "sliding_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
}
_BLOCKS = {
    "M": ("mamba", "none"), "mamba": ("mamba", "none"),
    "*": ("full", "none"), "attention": ("full", "none"),
    "-": ("none", "dense"), "mlp": ("none", "dense"),
    "E": ("none", "experts"), "moe": ("none", "experts"),
}  # fmt: skip
"""Attention and network of the blocks of Nemotron-H, which have one of the two."""

_LONGEST_PATTERN_STEP = 4
"""Llama 4: every fourth layer has no rotary positions and sees the whole context."""


def blocks(text: Config) -> list[str]:
    """The blocks of a hybrid model, one per layer; empty: every layer has an attention and a network."""
    return list(text.get("hybrid_override_pattern") or text.get("layers_block_type") or ())


def layer_count(text: Config) -> int:
    """The number of decoder layers; 0: not given."""
    return int(text.get("num_hidden_layers") or len(blocks(text)))


def layer_kinds(text: Config) -> tuple[tuple[str, ...], list[str]]:
    """The attention of each layer (`full`, `sliding`, `chunked`, `linear`, `mamba` or `none`), and the names of kinds
    that are not known."""
    layers = layer_count(text)
    if text.get("compress_ratios"):
        return ("full",) * layers, []
    if hybrid := blocks(text):
        return tuple(_BLOCKS.get(block, ("full",))[0] for block in hybrid), sorted({*hybrid} - {*_BLOCKS})
    if listed := text.get("layer_types"):
        return tuple(_KINDS.get(kind, "full") for kind in listed), sorted({*listed} - {*_KINDS})
    if text.get("block_configs"):
        return tuple("none" if _skips(block, "attention") else "full" for block in text["block_configs"]), []
    if any(kind != 1 for kind in text.get("attn_type_list") or ()):
        return ("full",) * layers, ["lightning attention (attn_type_list)"]
    return _by_interval(text, layers), []


_DEFAULT_PATTERNS = {"cohere2": 4, "gemma2": 2, "gemma3_text": 6, "gpt_oss": 2}
"""Every so many layers one sees the whole context, where config.json leaves it to the class of the model type
(transformers, configuration_*.py)."""


def _by_interval(text: Config, layers: int) -> tuple[str, ...]:
    if interval := text.get("full_attention_interval"):
        return _every(interval, layers, "linear")
    if text.get("attention_chunk_size") and text.get("model_type") == "llama4_text":
        return _every(text.get("no_rope_layer_interval") or _LONGEST_PATTERN_STEP, layers, "chunked")
    if pattern := text.get("hybrid_layer_pattern"):
        return tuple("sliding" if windowed else "full" for windowed in pattern)
    if (pattern := text.get("sliding_window_pattern")) and text.get("sliding_window"):
        return _every(pattern, layers, "sliding")
    if text.get("sliding_window") and text.get("use_sliding_window", "kv_lora_rank" not in text):
        pattern = _DEFAULT_PATTERNS.get(str(text.get("model_type")))
        return _every(pattern, layers, "sliding") if pattern else ("sliding",) * layers
    return ("full",) * layers


def _every(interval: int, layers: int, others: str) -> tuple[str, ...]:
    """Every `interval`-th layer full, the others of another kind."""
    return tuple("full" if (layer + 1) % interval == 0 else others for layer in range(layers))


def networks(text: Config, *, experts: bool) -> tuple[str, ...]:
    """The network of each layer: `dense`, `experts`, `both` or `none`."""
    layers = layer_count(text)
    if hybrid := blocks(text):
        return tuple(_BLOCKS.get(block, ("", "dense"))[1] for block in hybrid)
    if text.get("block_configs"):
        return tuple("none" if _skips(block, "ffn") else "dense" for block in text["block_configs"])
    if not experts:
        return ("dense",) * layers
    if text.get("enable_moe_block"):
        return ("both",) * layers
    if step := text.get("interleave_moe_layer_step"):
        return tuple("experts" if (layer + 1) % step == 0 else "dense" for layer in range(layers))
    if (step := text.get("decoder_sparse_step") or 1) != 1:
        alone = set(text.get("mlp_only_layers") or ())
        return tuple(
            "experts" if (layer + 1) % step == 0 and layer not in alone else "dense" for layer in range(layers)
        )
    if isinstance(frequencies := text.get("moe_layer_freq"), list):
        return tuple("experts" if frequency else "dense" for frequency in frequencies)
    dense = {*range(text.get("first_k_dense_replace") or 0), *(text.get("mlp_only_layers") or ())}
    return tuple("dense" if layer in dense else "experts" for layer in range(layers))


def network_widths(text: Config) -> tuple[int, ...]:
    """The width of each layer's dense network where layers differ; empty: they are alike."""
    hidden = text.get("hidden_size") or 0
    return tuple(_width(block.get("ffn") or {}, hidden) for block in text.get("block_configs") or ())


def _width(network: Config, hidden: int) -> int:
    """From the multiple of the hidden size, as the model's own code rounds it."""
    wanted = int(2 * (network.get("ffn_mult") or 0) * hidden / 3)
    return -(-wanted // 256) * 256


def _skips(block: Config, part: str) -> bool:
    return bool((block.get(part) or {}).get("no_op"))


def odd_blocks(text: Config) -> list[str]:
    """What blocks that differ one by one have and the arithmetic does not."""
    parts = [block.get(part) or {} for block in text.get("block_configs") or () for part in ("attention", "ffn")]
    groups = {part["n_heads_in_group"] for part in parts if part.get("n_heads_in_group")}
    odd = (
        ["linear layers in place of attention or network"]
        if any(part.get("replace_with_linear") for part in parts)
        else []
    )
    windows = any(part.get("window_length") or part.get("sparsify") for part in parts)
    return odd + ["layers with other key and value heads"] * (len(groups) > 1) + ["windows"] * windows


def indexer_layers(text: Config) -> tuple[int, ...]:
    """Layers with an indexer of their own; the others use the choice of the layer before
    (`vllm/models/deepseek_v32/attention.py`, 0.33.0)."""
    layers = range(layer_count(text))
    if pattern := text.get("index_topk_pattern"):
        return tuple(layer for layer in layers if layer >= len(pattern) or pattern[layer] != "S")
    frequency, offset = text.get("index_topk_freq") or 1, text.get("index_skip_topk_offset")
    offset = 2 if offset is None else offset
    return tuple(layer for layer in layers if max(layer - offset + 1, 0) % frequency == 0)
