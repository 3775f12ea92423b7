"""Reads the shape of a model from its `config.json`: everything that memory depends on.

Fields decide, not model names; families differ in spelling and nesting. What cannot be read is listed in `unknown`; the
planner reports it and never guesses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from config.checkpoint.rotary import rotary_table_bytes

Config = Mapping[str, Any]

_SAID_BY = {
    "linear_attn_config": "Kimi delta attention (linear_attn_config)",
    "compress_ratios": "compressed attention (compress_ratios)",
    "attention_chunk_size": "chunked local attention (attention_chunk_size)",
    "hybrid_override_pattern": "Mamba layers (hybrid_override_pattern)",
    "layers_block_type": "mixed block types (layers_block_type)",
    "mamba_d_state": "Mamba layers (mamba_d_state)",
    "ssm_cfg": "Mamba layers (ssm_cfg)",
    "num_kv_shared_layers": "layers that share a KV cache (num_kv_shared_layers)",
    "attention_k_eq_v": "keys that serve as values (attention_k_eq_v)",
    "num_global_key_value_heads": "layers with other heads (num_global_key_value_heads)",
    "sparse_attention_config": "sparse attention (sparse_attention_config)",
    "block_configs": "layers that differ one by one (block_configs)",
    "index_topk_freq": "an indexer shared between layers (index_topk_freq)",
    "index_topk_pattern": "an indexer shared between layers (index_topk_pattern)",
}
"""Fields whose presence means an attention that the planner has no formula for."""

_LAYER_KINDS = {"full_attention": "full", "sliding_attention": "sliding", "linear_attention": "linear"}


@dataclass(frozen=True, slots=True)
class Indexer:
    """The small attention that chooses which tokens a sparse attention looks at."""

    heads: int
    head_dim: int
    chosen: int
    """Tokens that it chooses."""


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


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """Gated delta rule: a state of fixed size per sequence instead of a cache that grows."""

    key_heads: int
    key_dim: int
    value_heads: int
    value_dim: int
    kernel: int

    @property
    def channels(self) -> int:
        """Channels of the short convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


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


@dataclass(frozen=True, slots=True)
class Vision:
    """The vision encoder with its projector."""

    depth: int
    hidden: int
    width: int
    patch_parameters: int
    position_parameters: int
    projector_parameters: int
    deep_levels: int
    """Layers of the encoder whose states go into the language model too, each through a projector of its own."""
    projector_split: bool
    """The projector is cut by tensor parallelism, not the same on every rank."""
    closing_norm: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's text part, and its vision encoder if it has one."""

    layers: int
    hidden: int
    vocabulary: int
    tied_embeddings: bool
    dense_width: int
    max_context: int
    attention: LatentAttention | GroupedAttention | None
    linear: LinearAttention | None
    layer_kinds: tuple[str, ...]
    """`full`, `sliding` or `linear`, one per layer."""
    window: int
    """Tokens that a sliding layer sees; 0: there is none."""
    experts: Experts | None
    vision: Vision | None
    layer_norms: int
    """Norms of the width of the hidden state in each layer."""
    rotary_table: int
    """Bytes of the table of rotary positions that an engine keeps."""
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
    unknown = [f"its {what}" for field, what in _SAID_BY.items() if text.get(field)]
    if text.get("index_topk") and not text.get("kv_lora_rank"):
        unknown.append("its sparse attention without a latent cache (index_topk)")
    missing = [field for field in ("num_hidden_layers", "hidden_size", "vocab_size") if not text.get(field)]
    if missing:
        unknown.append(f"its config.json, which has no {', '.join(missing)}")
    kinds, odd = _layer_kinds(text)
    unknown += [f"its {kind} layers" for kind in odd]
    attention = None if missing else _attention(text)
    if attention is None and not unknown:
        unknown.append("its attention: neither kv_lora_rank nor num_attention_heads is given")
    return Shape(
        layers=text.get("num_hidden_layers") or 0,
        hidden=text.get("hidden_size") or 0,
        vocabulary=text.get("vocab_size") or 0,
        tied_embeddings=bool(text.get("tie_word_embeddings", False)),
        dense_width=text.get("intermediate_size") or 0,
        max_context=text.get("max_position_embeddings") or 0,
        attention=attention,
        linear=_linear(text),
        layer_kinds=kinds,
        window=(text.get("sliding_window") or 0) if "sliding" in kinds else 0,
        experts=_experts(text),
        vision=_vision(config.get("vision_config") or {}, text),
        layer_norms=4 if _model_type(text) in _FOUR_NORMS else 2,
        rotary_table=rotary_table_bytes(text),
        mtp_layers=_mtp_layers(text),
        derivable=_model_type(text) in _DERIVABLE,
        checked=_model_type(text) in _DERIVABLE | _PLAIN,
        unknown=tuple(unknown),
    )


_DERIVABLE = {
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "gemma3_text", "glm_moe_dsa", "kimi_k2", "llama", "minimax_m2",
    "mistral", "mixtral", "qwen2", "qwen3", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe",
    "qwen3_vl_moe_text", "qwen3_vl_text",
}  # fmt: skip
"""Model types whose tensors `config.checkpoint.tensors` derives to the byte."""

_HEAD_NORMS = dict.fromkeys(
    ("gemma3_text", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_vl_moe_text", "qwen3_vl_text"),
    "head",
)
_PLAIN = {"gpt_oss", "phi3", "qwen2_moe"}
"""Further model types whose attention is what their fields say; their tensors need headers."""

_FOUR_NORMS = {"gemma3_text"}
_SHARED_GATE = {"qwen2_moe", "qwen3_5_moe_text"}
_ROUTER_BIAS = {"deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2"}


def _model_type(text: Config) -> str:
    return str(text.get("model_type", ""))


def _layer_kinds(text: Config) -> tuple[tuple[str, ...], list[str]]:
    """The kind of each layer, and the names of kinds that are not known."""
    layers = text.get("num_hidden_layers") or 0
    listed = text.get("layer_types")
    if listed:
        odd = sorted({kind for kind in listed if kind not in _LAYER_KINDS})
        return tuple(_LAYER_KINDS.get(kind, "full") for kind in listed), odd
    if any(kind != 1 for kind in text.get("attn_type_list") or ()):
        return ("full",) * layers, ["lightning attention (attn_type_list)"]
    if interval := text.get("full_attention_interval"):
        return _every(interval, layers, "linear"), []
    if (pattern := text.get("sliding_window_pattern")) and text.get("sliding_window"):
        return _every(pattern, layers, "sliding"), []
    if text.get("sliding_window") and text.get("use_sliding_window", "kv_lora_rank" not in text):
        return ("sliding",) * layers, []
    return ("full",) * layers, []


def _every(interval: int, layers: int, others: str) -> tuple[str, ...]:
    """Every `interval`-th layer full, the others of another kind."""
    return tuple("full" if (layer + 1) % interval == 0 else others for layer in range(layers))


def _attention(text: Config) -> LatentAttention | GroupedAttention | None:
    heads = text.get("num_attention_heads")
    if not heads:
        return None
    if text.get("kv_lora_rank"):
        indexer = None
        if text.get("index_topk"):
            indexer = Indexer(text["index_n_heads"], text["index_head_dim"], text["index_topk"])
        return LatentAttention(
            heads=heads,
            q_rank=text.get("q_lora_rank"),
            kv_rank=text["kv_lora_rank"],
            nope_dim=text["qk_nope_head_dim"],
            rope_dim=text["qk_rope_head_dim"],
            value_dim=text["v_head_dim"],
            indexer=indexer,
        )
    by_layer = text.get("qk_norm_type") == "per_layer" or (_model_type(text) == "minimax_m2")
    return GroupedAttention(
        heads=heads,
        kv_heads=text.get("num_key_value_heads") or heads,
        head_dim=text.get("head_dim") or text["hidden_size"] // heads,
        gated=bool(text.get("attn_output_gate", False)),
        bias=bool(text.get("attention_bias", False)) or _model_type(text) == "qwen2",
        head_norms="layer" if by_layer else _HEAD_NORMS.get(_model_type(text), "none"),
    )


def _linear(text: Config) -> LinearAttention | None:
    if not text.get("linear_num_value_heads"):
        return None
    return LinearAttention(
        key_heads=text["linear_num_key_heads"],
        key_dim=text["linear_key_head_dim"],
        value_heads=text["linear_num_value_heads"],
        value_dim=text["linear_value_head_dim"],
        kernel=text["linear_conv_kernel_dim"],
    )


def _experts(text: Config) -> Experts | None:
    count = text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts")
    if not count:
        return None
    width = text.get("moe_intermediate_size") or text.get("intermediate_size") or 0
    shared = text.get("n_shared_experts") or text.get("num_shared_experts") or 0
    dense = range(text.get("first_k_dense_replace") or 0)
    return Experts(
        count=count,
        active=text.get("num_experts_per_tok") or 1,
        width=width,
        shared_width=text.get("shared_expert_intermediate_size") or shared * width,
        shared_gate=_model_type(text) in _SHARED_GATE,
        bias=_model_type(text) in _ROUTER_BIAS,
        router_bytes=4 if _model_type(text) == "minimax_m2" else 2,
        dense_layers=tuple(sorted({*dense, *(text.get("mlp_only_layers") or ())})),
    )


def _mtp_layers(text: Config) -> int:
    return int(text.get("num_nextn_predict_layers") or text.get("mtp_num_hidden_layers") or 0)


def _vision(vision: Config, text: Config) -> Vision | None:
    if vision.get("vt_num_hidden_layers"):
        return _moonvit(vision)
    if vision.get("depth") and vision.get("num_position_embeddings"):
        return _qwen_vision(vision, text)
    return None


def _moonvit(vision: Config) -> Vision:
    """Kimi's encoder: patches of 14 x 14 pixels, learned positions, a projector over 2 x 2 patches."""
    hidden, merged = vision["vt_hidden_size"], 4 * vision["mm_hidden_size"]
    text_hidden = vision["text_hidden_size"]
    return Vision(
        depth=vision["vt_num_hidden_layers"],
        hidden=hidden,
        width=vision["vt_intermediate_size"],
        patch_parameters=3 * vision["patch_size"] ** 2 * hidden + hidden,
        position_parameters=vision["init_pos_emb_height"] * vision["init_pos_emb_width"] * hidden,
        projector_parameters=2 * hidden + merged * merged + merged + merged * text_hidden + text_hidden,
        deep_levels=0,
        projector_split=False,
        closing_norm=True,
    )


def _qwen_vision(vision: Config, text: Config) -> Vision:
    """Qwen's encoder: patches over two frames, learned positions, a merger over 2 x 2 patches."""
    hidden, merged = vision["hidden_size"], vision["spatial_merge_size"] ** 2 * vision["hidden_size"]
    out = vision.get("out_hidden_size") or text["hidden_size"]
    levels = len(vision.get("deepstack_visual_indexes") or ())
    projector = merged * merged + merged + merged * out + out
    patch = vision["in_channels"] * vision["temporal_patch_size"] * vision["patch_size"] ** 2
    return Vision(
        depth=vision["depth"],
        hidden=hidden,
        width=vision["intermediate_size"],
        patch_parameters=patch * hidden + hidden,
        position_parameters=vision["num_position_embeddings"] * hidden,
        projector_parameters=2 * hidden + projector + levels * (2 * merged + projector),
        deep_levels=levels,
        projector_split=True,
        closing_norm=False,
    )
