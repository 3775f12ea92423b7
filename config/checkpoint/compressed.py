"""DeepSeek V4's attention: every layer has a window, and most keep compressed entries of the whole context.

From `vllm/models/deepseek_v4` (0.33.0): a layer of ratio 4 has an indexer and overlapping blocks, one of ratio 128
attends to all of its entries, and one of ratio 0 has the window alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

INDEXED = 4
"""The ratio whose layers have an indexer, and whose blocks overlap."""


@dataclass(frozen=True, slots=True)
class CompressedAttention:
    """Attention over a window and over compressed entries, shared by all heads."""

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


def read_compressed(text: Mapping[str, Any]) -> CompressedAttention:
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
