"""Validates the fields of a `config.json` that the planner reads.

Every `config.json` is validated first, so that the arithmetic only sees numbers within bounds. All errors are reported
at once. Unused fields are not validated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

MOST_LAYERS = 10_000
MOST = 100_000_000
"""Bound of every other count; the largest published are contexts of ten million tokens."""

_COUNTS = (
    "hidden_size", "vocab_size", "intermediate_size", "max_position_embeddings", "num_attention_heads",
    "num_key_value_heads", "head_dim", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
    "v_head_dim", "index_n_heads", "index_head_dim", "index_topk", "linear_num_key_heads", "linear_key_head_dim",
    "linear_num_value_heads", "linear_value_head_dim", "linear_conv_kernel_dim", "n_routed_experts", "num_experts",
    "num_local_experts", "moe_intermediate_size", "n_shared_experts", "num_shared_experts", "num_experts_per_tok",
    "shared_expert_intermediate_size", "full_attention_interval", "sliding_window", "sliding_window_pattern",
    "global_head_dim", "num_global_key_value_heads", "attention_head_dim", "attention_chunk_size",
    "no_rope_layer_interval", "swa_num_attention_heads", "swa_num_key_value_heads", "swa_head_dim", "swa_v_head_dim",
    "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel", "moe_latent_size",
    "moe_shared_expert_intermediate_size", "top_k_experts", "interleave_moe_layer_step", "intermediate_size_mlp",
    "index_topk_freq", "index_skip_topk_offset", "rotary_dim", "o_lora_rank", "o_groups", "hc_mult", "num_hash_layers",
    "decoder_sparse_step",
)  # fmt: skip
_LAYER_COUNTS = (
    "num_hidden_layers", "first_k_dense_replace", "num_nextn_predict_layers", "mtp_num_hidden_layers",
)  # fmt: skip
_VISION_COUNTS = (
    "vt_num_hidden_layers", "vt_hidden_size", "vt_intermediate_size", "mm_hidden_size", "text_hidden_size",
    "patch_size", "init_pos_emb_height", "init_pos_emb_width", "depth", "hidden_size", "intermediate_size",
    "num_position_embeddings", "spatial_merge_size", "temporal_patch_size", "in_channels", "out_hidden_size",
    "num_hidden_layers", "num_attention_heads", "head_dim", "position_embedding_size", "projector_input_dim",
    "projector_output_dim", "vision_output_dim", "image_size",
)  # fmt: skip
_NESTED = ("text_config", "vision_config", "quantization_config", "rope_parameters", "rope_scaling")
_LISTS = {
    "layer_types": str, "mlp_only_layers": int, "attn_type_list": int, "layers_block_type": str,
    "hybrid_layer_pattern": int, "block_configs": Mapping, "compress_ratios": int,
}  # fmt: skip
"""Lists, and what they are of."""

_TOGETHER = {
    "kv_lora_rank": ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    "linear_num_value_heads": (
        "linear_num_key_heads", "linear_key_head_dim", "linear_value_head_dim", "linear_conv_kernel_dim",
    ),
}  # fmt: skip
_COMPRESSED_TOGETHER = {"compress_ratios": (
    "num_hidden_layers", "num_attention_heads", "head_dim", "qk_rope_head_dim", "q_lora_rank", "o_lora_rank",
    "o_groups", "sliding_window", "index_n_heads", "index_head_dim", "index_topk", "hc_mult",
)}  # fmt: skip
_MAMBA = ("mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
_TOGETHER |= {"hybrid_override_pattern": _MAMBA, "layers_block_type": _MAMBA}
_ONE_PER_LAYER = (
    "layer_types", "layers_block_type", "hybrid_override_pattern", "hybrid_layer_pattern", "block_configs",
)  # fmt: skip
_SPARSE_TOGETHER = {"index_topk": ("index_n_heads", "index_head_dim")}
_VISION_TOGETHER = {
    "vt_num_hidden_layers": (
        "vt_hidden_size", "vt_intermediate_size", "mm_hidden_size", "text_hidden_size", "patch_size",
        "init_pos_emb_height", "init_pos_emb_width",
    ),
    "num_position_embeddings": (
        "depth", "hidden_size", "intermediate_size", "spatial_merge_size", "temporal_patch_size", "patch_size",
        "in_channels",
    ),
    "image_size": ("hidden_size", "intermediate_size", "patch_size", "num_hidden_layers"),
    "position_embedding_size": (
        "hidden_size", "intermediate_size", "num_attention_heads", "head_dim", "patch_size", "num_hidden_layers",
    ),
}  # fmt: skip
"""With a field come others, without which it says nothing; the indexer is read beside a latent cache only."""


def config_faults(config: object) -> tuple[str, ...]:
    """The errors of a `config.json`, one message for each field."""
    if not isinstance(config, Mapping):
        return ("is not an object",)
    nested = [f"{name} is {config[name]!r}: expected an object" for name in _NESTED if not _is_object(config, name)]
    if nested:
        return tuple(nested)
    text, vision = {**config, **(config.get("text_config") or {})}, config.get("vision_config") or {}
    deep = _lists(vision, {"deepstack_visual_indexes": int})
    outer = _lists(config, {"architectures": str})
    return (
        *_text_faults(text),
        *outer,
        *deep,
        *_numbers(vision, _VISION_COUNTS, MOST),
        *_lacking(vision, _VISION_TOGETHER),
    )


def _is_object(config: Mapping[str, Any], name: str) -> bool:
    return config.get(name) is None or isinstance(config[name], Mapping)


def _text_faults(text: Mapping[str, Any]) -> tuple[str, ...]:
    """Errors of single fields; if there are none, errors between fields."""
    single = (
        *_numbers(text, _COUNTS, MOST),
        *_numbers(text, _LAYER_COUNTS, MOST_LAYERS),
        *_lists(text, _LISTS),
        *_patterns(text),
        *_rotary(text),
    )
    return single or (*_lacking(text, _TOGETHER), *_contradictions(text))


def _lists(fields: Mapping[str, Any], lists: Mapping[str, type]) -> Iterator[str]:
    for name, kind in lists.items():
        value = fields.get(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(each, kind) for each in value)):
            yield f"{name} is {value!r}: expected a list of {_PLURALS[kind]}"


_PLURALS = {str: "names", int: "whole numbers", Mapping: "objects"}


def _rotary(text: Mapping[str, Any]) -> Iterator[str]:
    """Numbers of the rotary positions, of all layers or of each kind."""
    for name in ("rope_parameters", "rope_scaling"):
        given = text.get(name) or {}
        of_kinds = [each for each in given.values() if isinstance(each, Mapping)] or [given]
        for field in ("factor", "original_max_position_embeddings", "partial_rotary_factor"):
            for value in (each.get(field) for each in of_kinds):
                if value is not None and not (isinstance(value, int | float) and 0 <= value <= MOST):
                    yield f"{name}.{field} is {value!r}: expected a number from 0 to {MOST:,}"
    share = text.get("partial_rotary_factor")
    if share is not None and not (isinstance(share, int | float) and 0 <= share <= 1):
        yield f"partial_rotary_factor is {share!r}: expected a number from 0 to 1"


def _patterns(text: Mapping[str, Any]) -> Iterator[str]:
    """Fields that are one value for all layers, or one for each."""
    pattern, frequency = text.get("hybrid_override_pattern"), text.get("moe_layer_freq")
    if pattern is not None and not isinstance(pattern, str):
        yield f"hybrid_override_pattern is {pattern!r}: expected a letter for each layer"
    each = frequency if isinstance(frequency, list) else [frequency or 0]
    if not all(isinstance(value, int) for value in each):
        yield f"moe_layer_freq is {frequency!r}: expected a whole number, or one for each layer"
    shared = text.get("index_topk_pattern")
    if shared is not None and not isinstance(shared, str | list):
        yield f"index_topk_pattern is {shared!r}: expected a letter for each layer"
    parts = [part for block in text.get("block_configs") or () if isinstance(block, Mapping) for part in block.values()]
    if not all(isinstance(part, Mapping | None) for part in parts):
        yield "block_configs has a part that is not an object: expected attention and ffn of each layer"
        return
    numbers = [part.get(name) for part in parts if part for name in ("ffn_mult", "n_heads_in_group")]
    if not all(number is None or (isinstance(number, int | float) and 0 < number <= MOST_LAYERS) for number in numbers):
        yield "block_configs has a ffn_mult or n_heads_in_group that is not a positive number"


def _contradictions(text: Mapping[str, Any]) -> Iterator[str]:
    if text.get("kv_lora_rank"):
        yield from _lacking(text, _SPARSE_TOGETHER)
    layers = text.get("num_hidden_layers") or len(text.get("layers_block_type") or ())
    for name in _ONE_PER_LAYER:
        if (kinds := text.get(name)) and len(kinds) != layers:
            yield f"{name} has {len(kinds)} entries: expected one for each of the {layers} layers"
    if text.get("model_type") == "deepseek_v4" and (ratios := text.get("compress_ratios")):
        yield from _lacking(text, _COMPRESSED_TOGETHER)
        odd = sorted({*ratios} - {0, 4, 128})
        if odd or len(ratios) < layers:
            yield f"compress_ratios is {ratios!r}: expected 0, 4 or 128 for each of the {layers} layers"
    frequencies = text.get("moe_layer_freq")
    if isinstance(frequencies, list) and len(frequencies) != layers:
        yield f"moe_layer_freq has {len(frequencies)} entries: expected one for each of the {layers} layers"
    hidden, heads = text.get("hidden_size") or 0, text.get("num_attention_heads") or 0
    if 0 < hidden < heads and not text.get("head_dim"):
        yield f"hidden_size is {hidden} and num_attention_heads {heads}: expected at least one for each head"


def _numbers(fields: Mapping[str, Any], names: tuple[str, ...], most: int) -> Iterator[str]:
    for name in names:
        value = fields.get(name)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not (whole and 0 <= value <= most):
            yield f"{name} is {value!r}: expected a whole number from 0 to {most:,}"


def _lacking(fields: Mapping[str, Any], together: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for name, others in together.items():
        missing = [other for other in others if not fields.get(other)]
        if fields.get(name) and missing:
            yield f"{name} is {fields[name]!r} and {', '.join(missing)} missing: expected them together"


def quantization_faults(config: object) -> tuple[str, ...]:
    """Errors of the numbers in a `quantization_config`. Its scheme is read by `config.checkpoint.quantization`."""
    odd = [number for number in _all_numbers(config) if not (isfinite(number) and abs(number) <= MOST)]
    return tuple(f"quantization_config has the number {number!r}: expected at most {MOST:,}" for number in odd[:1])


def _all_numbers(value: object) -> Iterator[float]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _all_numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _all_numbers(inner)
    elif isinstance(value, int | float):
        yield value
