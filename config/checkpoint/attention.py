"""The attentions of decoder layers, and how a `config.json` describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from config.checkpoint.layers import indexer_layers

Config = Mapping[str, Any]

INDEXED = 4
"""The ratio whose layers have an indexer, and whose blocks overlap."""


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """DeepSeek V4's: every layer has a window, and most keep compressed entries of the whole context.

    From `vllm/models/deepseek_v4` (0.33.0): a layer of ratio 4 has an indexer and overlapping blocks, one of ratio 128
    attends to all of its entries, and one of ratio 0 has the window alone.
    """

    heads: int
    head_dim: int
    rope_dim: int
    q_rank: int
    output_rank: int
    output_groups: int
    window: int
    index_heads: int
    index_dim: int
    chosen: int
    """Entries that the indexer chooses."""
    ratios: tuple[int, ...]
    """Tokens of an entry, one per decoder layer; 0: no entries."""
    streams: int
    """Copies of the hidden state that the layers mix (hyper-connections)."""
    hash_layers: int
    """First layers, whose router is a table by token."""

    def states(self, ratio: int) -> int:
        """Vectors of a token that the compressor projects: keys and scores, twice where blocks overlap."""
        return 4 if ratio == INDEXED else 2


@dataclass(frozen=True, slots=True)
class Indexer:
    """The small attention that chooses which tokens a sparse attention looks at."""

    heads: int
    head_dim: int
    chosen: int
    """Tokens that it chooses."""
    layers: tuple[int, ...]
    """Layers that have one of their own."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention: one latent vector per token and layer, the same on every tensor-parallel rank."""

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    indexer: Indexer | None


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Attention whose query heads share a smaller number of key and value heads."""

    heads: int
    kv_heads: int
    head_dim: int
    gated: bool
    """A gate as wide as the queries is projected with them."""
    bias: bool
    head_norms: str
    """Norms of queries and keys: `none`, `head` (one per head width) or `layer` (over all heads)."""
    value_dim: int = 0
    """Width of a value head where it differs from that of a key; 0: it does not."""
    output_bias: bool = False
    sinks: bool = False
    """Each query head has a sink."""

    @property
    def key_value_width(self) -> int:
        """Elements that one key-value head keeps of a token."""
        return self.head_dim + (self.value_dim or self.head_dim)


Attention = LatentAttention | GroupedAttention | CompressedAttention


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Gated delta rule: a state of fixed size per sequence instead of a cache that grows."""

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int
    state_bytes: int
    """Bytes per element of the recurrent matrix."""

    @property
    def channels(self) -> int:
        """Channels of the short convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class Mamba:
    """Mamba-2: a state of fixed size per sequence."""

    heads: int
    head_dim: int
    groups: int
    state: int
    kernel: int
    state_bytes: int
    """Bytes per element of the state."""

    @property
    def inner(self) -> int:
        """Width of the heads together."""
        return self.heads * self.head_dim

    @property
    def channels(self) -> int:
        """Channels of the short convolution."""
        return self.inner + 2 * self.groups * self.state


_HEAD_NORMS = dict.fromkeys(
    (
        "gemma3_text", "gemma4_text", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next",
        "qwen3_vl_moe_text", "qwen3_vl_text",
    ),
    "head",
)  # fmt: skip


def read_attention(text: Config) -> Attention | None:
    heads = text.get("num_attention_heads")
    if not heads:
        return None
    if text.get("model_type") == "deepseek_v4":
        return _compressed(text) if text.get("compress_ratios") else None
    if text.get("kv_lora_rank"):
        indexer = None
        if text.get("index_topk"):
            chosen = text["index_topk"]
            indexer = Indexer(text["index_n_heads"], text["index_head_dim"], chosen, indexer_layers(text))
        return LatentAttention(
            heads=heads,
            q_rank=text.get("q_lora_rank"),
            kv_rank=text["kv_lora_rank"],
            nope_dim=text["qk_nope_head_dim"],
            rope_dim=text["qk_rope_head_dim"],
            value_dim=text["v_head_dim"],
            indexer=indexer,
        )
    return _grouped(text)


def _grouped(text: Config) -> GroupedAttention:
    heads, model_type = text["num_attention_heads"], str(text.get("model_type", ""))
    by_layer = text.get("qk_norm_type") == "per_layer" or model_type == "minimax_m2"
    group = next((found for block in text.get("block_configs") or () if (found := _group(block))), None)
    has_bias = bool(text.get("attention_bias", False))
    return GroupedAttention(
        heads=heads,
        kv_heads=text.get("num_global_key_value_heads")
        or text.get("num_key_value_heads")
        or (heads // group if group else heads),
        head_dim=text.get("global_head_dim")
        or text.get("head_dim")
        or text.get("attention_head_dim")
        or text["hidden_size"] // heads,
        gated=bool(text.get("attn_output_gate", model_type == "qwen3_next")),
        bias=has_bias or model_type == "qwen2",
        head_norms="layer" if by_layer else _HEAD_NORMS.get(model_type, "none"),
        value_dim=(text.get("v_head_dim") or 0) if model_type == "mimo_v2_flash" else 0,
        output_bias=has_bias and model_type == "gpt_oss",
        sinks=model_type == "gpt_oss" or bool(text.get("add_full_attention_sink_bias")),
    )


def _group(block: Config) -> int | None:
    """Query heads that share a key-value head in a block."""
    found: int | None = (block.get("attention") or {}).get("n_heads_in_group")
    return found


def read_windowed(text: Config, attention: Attention | None) -> GroupedAttention | None:
    """The attention of sliding layers where its fields differ from that of full layers."""
    if not isinstance(attention, GroupedAttention):
        return None
    if text.get("model_type") == "gemma4_text":
        return replace(
            attention,
            kv_heads=text.get("num_key_value_heads") or attention.kv_heads,
            head_dim=text.get("head_dim") or attention.head_dim,
        )
    if text.get("swa_num_key_value_heads"):
        return replace(
            attention,
            heads=text.get("swa_num_attention_heads") or attention.heads,
            kv_heads=text["swa_num_key_value_heads"],
            head_dim=text.get("swa_head_dim") or attention.head_dim,
            value_dim=text.get("swa_v_head_dim") or 0,
            sinks=bool(text.get("add_swa_attention_sink_bias")),
        )
    return None


def read_linear(text: Config) -> LinearAttention | None:
    if not text.get("linear_num_value_heads"):
        return None
    return LinearAttention(
        key_heads=text["linear_num_key_heads"],
        key_dim=text["linear_key_head_dim"],
        value_heads=text["linear_num_value_heads"],
        value_dim=text["linear_value_head_dim"],
        kernel=text["linear_conv_kernel_dim"],
        # vLLM reads mamba_ssm_dtype of Qwen3.5, and keeps Qwen3-Next's matrix in the model's 16 bits (0.33.0,
        # model_executor/models/config.py and layers/mamba/mamba_utils.py).
        state_bytes=2 if text.get("model_type") == "qwen3_next" else 4,
    )


def read_mamba(text: Config) -> Mamba:
    return Mamba(
        heads=text["mamba_num_heads"],
        head_dim=text["mamba_head_dim"],
        groups=text["n_groups"],
        state=text["ssm_state_size"],
        kernel=text["conv_kernel"],
        # vLLM takes float32 where the configuration is silent (models/config.py, 0.33.0).
        state_bytes={"float32": 4, "bfloat16": 2, "float16": 2}.get(str(text.get("mamba_ssm_cache_dtype")), 4),
    )


def _compressed(text: Mapping[str, Any]) -> CompressedAttention:
    """The attention of a `config.json` of DeepSeek V4."""
    return CompressedAttention(
        heads=text["num_attention_heads"],
        head_dim=text["head_dim"],
        rope_dim=text["qk_rope_head_dim"],
        q_rank=text["q_lora_rank"],
        output_rank=text["o_lora_rank"],
        output_groups=text["o_groups"],
        window=text["sliding_window"],
        index_heads=text["index_n_heads"],
        index_dim=text["index_head_dim"],
        chosen=text["index_topk"],
        ratios=tuple(text["compress_ratios"][: text["num_hidden_layers"]]),
        streams=text["hc_mult"],
        hash_layers=text.get("num_hash_layers") or 0,
    )
