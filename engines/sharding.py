"""Bytes of weights on one GPU, by pipeline stage, as engines shard them.

What tensor parallelism cuts and what it copies is stated per group in `config.checkpoint.tensors`. Everything is even
between the ranks of a stage.
"""

from __future__ import annotations

from collections.abc import Sequence

from config.checkpoint.tensors import MTP_COPIES, Place, Sharding, TensorGroup
from engines.plan import Layout


def stage_weights(
    groups: Sequence[TensorGroup],
    layers: range,
    layout: Layout,
    *,
    first: bool,
    last: bool,
    kv_heads: int,
    window_kv_heads: int,
    vision_whole: bool,
    tied: bool,
    drafts: bool,
    everywhere: frozenset[Place],
) -> dict[str, float]:
    """Bytes on one GPU of a stage by group.

    `vision_whole`: the vision encoder is data-parallel, so each rank holds all of it. `tied`: the head is the
    embedding, which the last stage then needs too. `drafts`: the layers for multi-token prediction are loaded, which
    begin with the embedding. `everywhere`: what every stage holds, whether it needs it or not.
    """
    present = {
        Place.LAYERS: True,
        Place.EMBEDDING: first or (last and (tied or drafts)),
        Place.HEAD: last,
        Place.VISION: first,
        Place.MTP: drafts and last,
    }
    sums: dict[str, float] = {}
    for group in groups:
        if not (present[group.place] or group.place in everywhere) or group.group == MTP_COPIES:
            continue
        size = group.bytes_within(layers) if group.place is Place.LAYERS else group.bytes
        parts = parts_of(_sharding(group, layout), layout, kv_heads, window_kv_heads, vision_whole=vision_whole)
        sums[group.group] = sums.get(group.group, 0.0) + size / parts
    return sums


def _sharding(group: TensorGroup, layout: Layout) -> Sharding:
    """How a group is cut: shared experts are whole where each rank of a tensor-parallel group takes other tokens to the
    experts (vllm/config/parallel.py `use_sequence_parallel_moe`, 0.33.0)."""
    sequence_parallel = layout.ep > 1 and layout.tp > 1 and layout.dp > 1
    return Sharding.WHOLE if group.group == "shared_experts" and sequence_parallel else group.sharding


def parts_of(sharding: Sharding, layout: Layout, kv_heads: int, window_kv_heads: int, *, vision_whole: bool) -> int:
    """The number of parts that a group is cut into. `vision_whole`: as for `stage_weights`."""
    match sharding:
        case Sharding.SPLIT:
            return layout.tp
        case Sharding.WHOLE:
            return 1
        case Sharding.KEY_VALUE:
            return min(layout.tp, kv_heads)
        case Sharding.WINDOW_KEY_VALUE:
            return min(layout.tp, window_kv_heads)
        case Sharding.EXPERT:
            # All ranks of a stage share the experts, spread or cut (vLLM 0.33.0, fused_moe/config.py).
            return layout.tp * layout.dp * layout.pcp
        case Sharding.VISION:
            return 1 if vision_whole else layout.tp
