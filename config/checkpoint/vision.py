"""Reads the shape of a vision encoder with its projector from `vision_config`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Vision:
    """The vision encoder with its projector."""

    block_parameters: int
    """Parameters of its layers together, which tensor parallelism cuts unless `replicated`."""
    whole_parameters: int
    """Patches, positions and norms, the same on every rank."""
    projector_parameters: int
    deep_levels: int
    """Layers of the encoder whose states go into the language model too, each through a projector of its own."""
    projector_split: bool
    """The projector is cut by tensor parallelism, not the same on every rank."""
    replicated: bool
    """The encoder is the same on every rank."""


def read_vision(config: Config, text: Config) -> Vision | None:
    """The vision encoder of a `config.json`; None: it has none, or none that is known."""
    vision = config.get("vision_config") or {}
    if config.get("model_type") == "llama4":
        return _llama4(vision, text)
    if vision.get("model_type") == "gemma4_vision" and vision.get("position_embedding_size"):
        return _gemma4(vision, text)
    if vision.get("model_type") == "siglip_vision_model" and config.get("model_type") == "gemma3":
        return _siglip(vision, text) if vision.get("image_size") else None
    if vision.get("model_type") == "pixtral" and config.get("model_type") == "mistral3":
        return _pixtral(config, vision, text)
    if vision.get("vt_num_hidden_layers"):
        return _moonvit(vision)
    if vision.get("depth") and vision.get("num_position_embeddings"):
        return _qwen(vision, text)
    return None


def _layers(count: int, hidden: int, width: int) -> int:
    """Parameters of layers with biases: attention, a network of two matrices, and two norms."""
    attention = 4 * hidden * hidden + 4 * hidden
    return count * (attention + 2 * hidden * width + width + hidden + 4 * hidden)


def _moonvit(vision: Config) -> Vision:
    """Kimi's encoder: patches of 14 x 14 pixels, learned positions, a projector over 2 x 2 patches."""
    hidden, merged = vision["vt_hidden_size"], 4 * vision["mm_hidden_size"]
    text_hidden = vision["text_hidden_size"]
    patch = 3 * vision["patch_size"] ** 2 * hidden + hidden
    positions = vision["init_pos_emb_height"] * vision["init_pos_emb_width"] * hidden
    return Vision(
        block_parameters=_layers(vision["vt_num_hidden_layers"], hidden, vision["vt_intermediate_size"]),
        whole_parameters=patch + positions + 2 * hidden,
        projector_parameters=2 * hidden + merged * merged + merged + merged * text_hidden + text_hidden,
        deep_levels=0,
        projector_split=False,
        replicated=False,
    )


def _qwen(vision: Config, text: Config) -> Vision:
    """Qwen's encoder: patches over two frames, learned positions, a merger over 2 x 2 patches."""
    hidden, merged = vision["hidden_size"], vision["spatial_merge_size"] ** 2 * vision["hidden_size"]
    out = vision.get("out_hidden_size") or text["hidden_size"]
    levels = len(vision.get("deepstack_visual_indexes") or ())
    projector = merged * merged + merged + merged * out + out
    patch = vision["in_channels"] * vision["temporal_patch_size"] * vision["patch_size"] ** 2 * hidden + hidden
    return Vision(
        block_parameters=_layers(vision["depth"], hidden, vision["intermediate_size"]),
        whole_parameters=patch + vision["num_position_embeddings"] * hidden,
        projector_parameters=2 * hidden + projector + levels * (2 * merged + projector),
        deep_levels=levels,
        projector_split=True,
        replicated=False,
    )


def _llama4(vision: Config, text: Config) -> Vision:
    """Llama 4's encoder, with the defaults of transformers for fields that are left out."""
    hidden, width = vision.get("hidden_size") or 768, vision.get("intermediate_size") or 5632
    inner, out = vision.get("projector_input_dim") or 4096, vision.get("projector_output_dim") or 4096
    patch = vision.get("patch_size") or 14
    positions = ((vision.get("image_size") or 448) // patch) ** 2 + 1
    language = (vision.get("vision_output_dim") or 7680) * text["hidden_size"]
    return Vision(
        block_parameters=_layers(vision.get("num_hidden_layers") or 34, hidden, width),
        whole_parameters=3 * patch * patch * hidden + hidden * (positions + 5),
        projector_parameters=width * inner + inner * out + language,
        deep_levels=0,
        projector_split=True,
        replicated=False,
    )


def _siglip(vision: Config, text: Config) -> Vision:
    """Gemma 3's encoder: learned positions, and a projector of one matrix and a norm."""
    hidden, patch = vision["hidden_size"], vision["patch_size"]
    positions = (vision["image_size"] // patch) ** 2
    return Vision(
        block_parameters=_layers(vision["num_hidden_layers"], hidden, vision["intermediate_size"]),
        whole_parameters=3 * patch * patch * hidden + hidden * (positions + 3),
        projector_parameters=hidden * text["hidden_size"] + hidden,
        deep_levels=0,
        projector_split=False,
        replicated=False,
    )


def _pixtral(config: Config, vision: Config, text: Config) -> Vision:
    """Mistral's encoder: gated networks without biases, and a projector whose first matrix merges patches."""
    hidden, out = vision["hidden_size"], text["hidden_size"]
    block = 4 * hidden * hidden + 3 * hidden * vision["intermediate_size"] + 2 * hidden
    patch = vision.get("num_channels", 3) * vision["patch_size"] ** 2 * hidden
    merging = config.get("spatial_merge_size", 2) ** 2 * hidden * hidden
    return Vision(
        block_parameters=vision["num_hidden_layers"] * block,
        whole_parameters=patch + hidden + hidden + merging,
        projector_parameters=hidden * out + out * out,
        deep_levels=0,
        projector_split=True,
        replicated=False,
    )


def _gemma4(vision: Config, text: Config) -> Vision:
    """Gemma 4's encoder: gated networks, norms of heads, positions of two axes; whole on every rank."""
    hidden, width = vision["hidden_size"], vision["intermediate_size"]
    heads = vision["num_attention_heads"] * vision["head_dim"]
    norms = 4 * hidden + 2 * vision["head_dim"]
    block = 4 * hidden * heads + 3 * hidden * width + norms
    patch = 3 * vision["patch_size"] ** 2 * hidden
    return Vision(
        block_parameters=vision["num_hidden_layers"] * block,
        whole_parameters=patch + 2 * vision["position_embedding_size"] * hidden,
        projector_parameters=hidden * text["hidden_size"],
        deep_levels=0,
        projector_split=False,
        replicated=True,
    )
