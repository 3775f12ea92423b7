"""The table of sines and cosines that an engine keeps for rotary positions: one for all layers, whole on every GPU.
A sparse attention's indexer has one more.

From `vllm/model_executor/layers/rotary_embedding` (0.33.0): as many rows as positions that the scaling reaches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def rotary_table_bytes(text: Mapping[str, Any]) -> int:
    """Bytes of the tables of a text model; 0 where it has no rotary positions."""
    if text.get("model_type") == "nemotron_h":
        return 0
    if ratios := text.get("compress_ratios"):
        # One table for layers with a window alone, and one with another base for those with compressed entries.
        layers = ratios[: text.get("num_hidden_layers") or 0]
        return (
            4
            * len({ratio == 0 for ratio in layers})
            * (text.get("max_position_embeddings") or 0)
            * int(text.get("qk_rope_head_dim") or 0)
        )
    by_kind = text.get("rope_parameters") or text.get("rope_scaling") or {}
    kinds = {kind: each for kind, each in by_kind.items() if isinstance(each, Mapping)} or {"": by_kind}
    size = sum(_positions(text, table) * _dimensions(text, kind, table) for kind, table in kinds.items())
    return _tables(text) * rotary_element_bytes(text) * size


_ALREADY_SCALED = ("su", "longrope", "llama3", "yarn", "deepseek_yarn", "deepseek_llama_scaling")
"""Kinds of scaling with which max_position_embeddings is the scaled context (vllm/config/model.py, 0.33.0)."""


def scaled_context(text: Mapping[str, Any]) -> int:
    """The longest context that the engine derives: max_position_embeddings, stretched by scalings that do not say so
    there."""
    most = int(text.get("max_position_embeddings") or 0)
    if "gemma3" in str(text.get("model_type")):
        return most
    factor = 1.0
    for scaling in _scalings(text):
        kind = scaling.get("rope_type") or scaling.get("type") or "default"
        if kind not in _ALREADY_SCALED:
            factor = scaling.get("factor") or factor
    return int(most * factor)


def yarn_reach(text: Mapping[str, Any]) -> int:
    """Positions that YaRN reaches, whatever max_position_embeddings says; 0: it is not used."""
    return max((_positions(text, scaling) for scaling in _scalings(text) if _is_yarn(scaling)), default=0)


def with_yarn(text: Mapping[str, Any], factor: float, original: int) -> dict[str, Any]:
    """The fields of a configuration whose context YaRN stretches from `original` tokens by a factor."""
    [base] = _scalings(text)
    scaling = {name: value for name, value in base.items() if name != "type"}
    scaling |= {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    scaling |= {"rope_theta": _theta(text)}
    return {"max_position_embeddings": int(original * factor), "rope_parameters": scaling}


def can_be_stretched(text: Mapping[str, Any]) -> bool:
    """Whether a configuration has positions that are not scaled, and says their base, which an override replaces."""
    found = _scalings(text)
    kinds = {scaling.get("rope_type") or scaling.get("type") or "default" for scaling in found}
    return len(found) == 1 and kinds == {"default"} and bool(_theta(text))


def _theta(text: Mapping[str, Any]) -> float | None:
    """The base of the rotary positions."""
    [scaling] = _scalings(text)
    found = scaling.get("rope_theta") or text.get("rope_theta")
    return float(found) if found else None


def _scalings(text: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The scaling of all layers, or of each kind of layers."""
    by_kind = text.get("rope_parameters") or text.get("rope_scaling") or {}
    return [each for each in by_kind.values() if isinstance(each, Mapping)] or [by_kind]


def _tables(text: Mapping[str, Any]) -> int:
    """Tables of each kind: one more for an indexer that rotates in another order, or for windows with another base."""
    indexer = bool(text.get("index_topk")) and not text.get("indexer_rope_interleave")
    windows = bool(text.get("swa_rope_theta", text.get("rope_theta")) != text.get("rope_theta"))
    return 1 + indexer + windows


def rotary_element_bytes(text: Mapping[str, Any]) -> int:
    """Bytes of an element: 16 bits, but 32 beside a sparse attention and in gpt-oss."""
    return 4 if text.get("index_topk") or text.get("model_type") == "gpt_oss" else 2


def _is_yarn(scaling: Mapping[str, Any]) -> bool:
    return (scaling.get("rope_type") or scaling.get("type")) in ("yarn", "deepseek_yarn")


def _positions(text: Mapping[str, Any], scaling: Mapping[str, Any]) -> int:
    """Rows of a table."""
    most = text.get("max_position_embeddings") or 0
    factor = scaling.get("factor") or 1
    if _is_yarn(scaling):
        return int((scaling.get("original_max_position_embeddings") or most) * factor)
    return int(most * factor) if (scaling.get("rope_type") or scaling.get("type")) == "linear" else most


def _dimensions(text: Mapping[str, Any], kind: str, scaling: Mapping[str, Any]) -> int:
    """Elements of a row: a sine and a cosine for each pair of rotated dimensions."""
    if text.get("qk_rope_head_dim"):
        return int(text["qk_rope_head_dim"])
    heads = text.get("num_attention_heads")
    if not heads:
        return 0
    head = text.get("head_dim") or (text.get("hidden_size") or 0) // heads
    if kind == "full_attention":
        head = text.get("global_head_dim") or head
    if scaling.get("rope_type") == "proportional":
        # The dimensions that do not turn have an angle of zero.
        return int(head)
    share = scaling.get("partial_rotary_factor") or text.get("partial_rotary_factor") or 1
    return int(text.get("rotary_dim") or head * share)
