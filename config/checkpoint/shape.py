"""Reads the shape of a model from its `config.json`: everything that memory depends on.

Fields decide, not model names; families differ in spelling and nesting. What cannot be read is listed in `unknown`; the
planner reports it and never guesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.checkpoint.attention import (
    Attention,
    GroupedAttention,
    LinearAttention,
    Mamba,
    read_attention,
    read_linear,
    read_mamba,
    read_windowed,
)
from config.checkpoint.layers import (
    blocks,
    layer_count,
    layer_kinds,
    network_widths,
    networks,
    odd_blocks,
)
from config.checkpoint.rotary import rotary_table_bytes, scaled_context
from config.checkpoint.vision import Vision, read_vision

Config = Mapping[str, Any]

_SAID_BY = {
    "linear_attn_config": "Kimi delta attention (linear_attn_config)",
    "mamba_d_state": "Mamba layers (mamba_d_state)",
    "ssm_cfg": "Mamba layers (ssm_cfg)",
    "num_kv_shared_layers": "layers that share a KV cache (num_kv_shared_layers)",
    "hidden_size_per_layer_input": "embeddings of each layer (hidden_size_per_layer_input)",
    "sparse_attention_config": "sparse attention (sparse_attention_config)",
    "unknown_windows": "sliding windows, whose layers are not known of this architecture",
}
"""Fields whose presence means an attention or network that the planner has no formula for."""

_READ_IN = {
    "attention_chunk_size": ({"llama4_text", "mimo_v2_flash"}, "chunked local attention (attention_chunk_size)"),
    "hybrid_override_pattern": ({"nemotron_h"}, "Mamba layers (hybrid_override_pattern)"),
    "layers_block_type": ({"nemotron_h"}, "mixed block types (layers_block_type)"),
    "attention_k_eq_v": ({"gemma4_text"}, "keys that serve as values (attention_k_eq_v)"),
    "num_global_key_value_heads": ({"gemma4_text"}, "layers with other heads (num_global_key_value_heads)"),
    "block_configs": ({"nemotron-nas"}, "layers that differ one by one (block_configs)"),
    "hybrid_layer_pattern": ({"mimo_v2_flash"}, "layers of two kinds (hybrid_layer_pattern)"),
    "moe_latent_size": ({"nemotron_h"}, "experts of another width than the hidden state (moe_latent_size)"),
    "compress_ratios": ({"deepseek_v4"}, "compressed attention (compress_ratios)"),
    "index_topk_freq": ({"glm_moe_dsa", "deepseek_v32"}, "an indexer shared between layers (index_topk_freq)"),
    "index_topk_pattern": ({"glm_moe_dsa", "deepseek_v32"}, "an indexer shared between layers (index_topk_pattern)"),
}
"""Fields that have a formula for some model types, by which vLLM reads them, and not for others."""


@dataclass(frozen=True, slots=True)
class Experts:
    """The mixture of experts of a layer."""

    count: int
    active: int
    width: int
    """Intermediate size of a routed expert."""
    shared_width: int
    """Intermediate size of the shared experts together; 0: none."""
    shared_gate: bool
    """The shared expert has a gate of its own beside the router."""
    bias: bool
    """The router has a correction bias in fp32."""
    router_bytes: int
    """Bytes per router weight as the engine holds it."""
    dense_layers: tuple[int, ...]
    """Layers that have a dense network instead."""
    hidden: int
    """Width of what goes in and out of a routed expert."""
    gated: bool
    """Three matrices, of which one is a gate; else two."""
    biased: bool
    """The matrices have biases."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's text part, and its vision encoder if it has one."""

    layers: int
    hidden: int
    vocabulary: int
    tied_embeddings: bool
    dense_width: int
    max_context: int
    attention: Attention | None
    windowed: GroupedAttention | None
    """The attention of sliding layers where it differs."""
    linear: LinearAttention | None
    mamba: Mamba | None
    layer_kinds: tuple[str, ...]
    """`full`, `sliding`, `chunked`, `linear`, `mamba` or `none`, one per layer."""
    networks: tuple[str, ...]
    """`dense`, `experts`, `both` or `none`, one per layer."""
    widths: tuple[int, ...]
    """Width of the dense network of each layer where layers differ."""
    window: int
    """Tokens that a sliding layer sees, or of a chunk; 0: there is none."""
    experts: Experts | None
    vision: Vision | None
    layer_norms: int
    """Norms of the width of the hidden state in each layer."""
    rotary_table: int
    """Bytes of the table of rotary positions that an engine keeps."""
    mtp_copies: bool
    """Whether the checkpoint repeats embedding and head for each of those layers."""
    mtp_layers: int
    """Layers for multi-token prediction in the checkpoint; an engine loads them for speculative decoding only."""
    derivable: bool
    """Whether the tensors of this model type follow from its configuration."""
    checked: bool
    """Whether this model type's attention was compared with the engine; else its fields are taken at their word."""
    unknown: tuple[str, ...]

    @property
    def heads(self) -> int:
        """Attention heads of the language model, which tensor parallelism must divide."""
        return self.attention.heads if self.attention else 0


def read_shape(config: Config) -> Shape:
    """The shape that a `config.json` describes; a nested text model is found, and its fields go first."""
    text = {**config, **(config.get("text_config") or {})}
    layers, model_type = layer_count(text), _model_type(text)
    kinds, odd = layer_kinds(text)
    linear = read_linear(text)
    if "linear" in kinds and linear is None:
        odd.append("linear attention (linear_num_value_heads is not given)")
    unknown = _unknown(text, layers) + [f"its {kind} layers" for kind in odd]
    attention = None if unknown and not _has_sizes(text, layers) else read_attention(text)
    if attention is None and not unknown:
        unknown.append("its attention: neither kv_lora_rank nor num_attention_heads is given")
    experts = _experts(text)
    return Shape(
        layers=layers,
        hidden=text.get("hidden_size") or 0,
        vocabulary=text.get("vocab_size") or 0,
        tied_embeddings=bool(text.get("tie_word_embeddings", False)),
        dense_width=text.get("intermediate_size_mlp") or text.get("intermediate_size") or 0,
        max_context=scaled_context(text),
        attention=attention,
        windowed=read_windowed(text, attention),
        linear=linear,
        mamba=read_mamba(text) if blocks(text) else None,
        layer_kinds=kinds,
        networks=networks(text, experts=experts is not None),
        widths=network_widths(text),
        window=_window(text, kinds),
        experts=experts,
        vision=read_vision(config, text) if _has_sizes(text, layers) else None,
        layer_norms=_layer_norms(text),
        rotary_table=rotary_table_bytes(text),
        mtp_copies=_model_type(text) == "deepseek_v3",
        mtp_layers=_mtp_layers(text),
        derivable=model_type in _DERIVABLE,
        checked=model_type in _DERIVABLE | _PLAIN,
        unknown=tuple(unknown),
    )


def _has_sizes(text: Config, layers: int) -> bool:
    return bool(layers and text.get("hidden_size") and text.get("vocab_size"))


def _unknown(text: Config, layers: int) -> list[str]:
    """What the fields say that has no formula, and the fields that are missing."""
    found = [f"its {what}" for field, what in _SAID_BY.items() if text.get(field)]
    found += [
        f"its {what}" for field, (types, what) in _READ_IN.items() if text.get(field) and _model_type(text) not in types
    ]
    if text.get("index_topk") and not (text.get("kv_lora_rank") or text.get("compress_ratios")):
        found.append("its sparse attention without a latent cache (index_topk)")
    sizes = {"num_hidden_layers": layers, "hidden_size": text.get("hidden_size"), "vocab_size": text.get("vocab_size")}
    if missing := [field for field, size in sizes.items() if not size]:
        found.append(f"its config.json, which has no {', '.join(missing)}")
    return found + [f"its {what} (block_configs)" for what in odd_blocks(text)]


_DERIVABLE = {
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4",
    "gemma3_text", "gemma4_text", "glm_moe_dsa", "gpt_oss", "kimi_k2",
    "llama", "llama4_text", "mimo", "mimo_v2_flash", "minimax_m2", "mistral", "mixtral", "nemotron-nas", "nemotron_h",
    "qwen2", "qwen3", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next",
    "qwen3_vl_moe_text", "qwen3_vl_text",
}  # fmt: skip
"""Model types whose tensors `config.checkpoint.tensors` derives."""

_PLAIN = {"phi3", "qwen2_moe"}
"""Further model types whose attention is what their fields say; their tensors need headers."""

_SHARED_GATE = {"qwen2_moe", "qwen3_5_moe_text", "qwen3_next"}
_ROUTER_BIAS = {"deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2", "mimo_v2_flash", "nemotron_h"}
_WIDE_ROUTER = {"minimax_m2", "mimo_v2_flash"}
"""Model types whose router the engine holds in 32 bits."""


def _model_type(text: Config) -> str:
    return str(text.get("model_type", ""))


def _layer_norms(text: Config) -> int:
    """Norms of the width of the hidden state in each layer."""
    match _model_type(text):
        case "gemma3_text":
            return 4
        case "gemma4_text":
            return 7 if text.get("enable_moe_block") else 4
        case "nemotron_h":
            return 1
        case _:
            return 2


def _window(text: Config, kinds: tuple[str, ...]) -> int:
    if "chunked" in kinds:
        return int(text.get("attention_chunk_size") or 0)
    return int(text.get("sliding_window") or 0) if "sliding" in kinds else 0


def _experts(text: Config) -> Experts | None:
    count = text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts")
    if not count:
        return None
    model_type = _model_type(text)
    width = text.get("moe_intermediate_size") or text.get("intermediate_size") or 0
    shared = text.get("n_shared_experts") or text.get("num_shared_experts") or (1 if model_type == "llama4_text" else 0)
    shared_width = text.get("shared_expert_intermediate_size")
    if text.get("moe_shared_expert_intermediate_size"):
        shared_width = shared * text["moe_shared_expert_intermediate_size"]
    of_layers = networks(text, experts=True)
    return Experts(
        count=count,
        active=text.get("num_experts_per_tok") or text.get("top_k_experts") or 1,
        width=width,
        shared_width=shared_width or shared * width,
        shared_gate=model_type in _SHARED_GATE,
        bias=model_type in _ROUTER_BIAS,
        router_bytes=4 if model_type in _WIDE_ROUTER else 2,
        dense_layers=tuple(layer for layer, network in enumerate(of_layers) if network == "dense"),
        hidden=text.get("moe_latent_size") or text.get("hidden_size") or 0,
        gated=model_type != "nemotron_h",
        biased=model_type == "gpt_oss",
    )


def _mtp_layers(text: Config) -> int:
    given = text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers")
    # Qwen3-Next has one, on which its config.json is silent (vllm/model_executor/models/qwen3_next_mtp.py, 0.33.0).
    return int(given or _model_type(text) == "qwen3_next")
