"""The cache of compressed attention: layers with pages of several sizes, packed into blocks that all have one size.

As `vllm/v1/core/kv_cache_planning.py` groups them (`_get_packed_kv_cache_groups`, 0.33.0): layers with the same tokens
per block and window make a bucket. A bucket that repeats a pattern of pages stays whole, and buckets with one page are
cut towards its repeats. A block is as large as the largest group.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from config.checkpoint.attention import INDEXED, CompressedAttention

_ALIGNMENT = 576
"""Bytes that a page is a multiple of (`vllm/models/deepseek_v4`)."""

_TOKENS = 256
"""Tokens of a block of compressed entries."""

_SCALE_BYTES = 8
_INDEX_SCALE_BYTES = 4
_WINDOW_TOKENS = 64
_STATE_TOKENS = {INDEXED: 4, 128: 8}
"""Tokens of a block of the compressor's states, by ratio."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Layers whose blocks have the same tokens."""

    pages: dict[int, int]
    """Number of layers by bytes of a page."""
    tokens: int
    window: int
    """Tokens that are kept; 0: all."""

    @property
    def repeats(self) -> int:
        return max(self.pages.values())

    @property
    def balanced(self) -> bool:
        """Whether it repeats a pattern of one layer of each page."""
        return len(set(self.pages.values())) == 1

    def page(self, groups: int) -> int:
        """Bytes of the largest of so many groups."""
        return sum(ceil(count / groups) * page for page, count in self.pages.items())

    def blocks(self, tokens_in_flight: int) -> int:
        """Blocks of a sequence of any length in a window."""
        return ceil((self.window - 1 + tokens_in_flight) / self.tokens) + 1


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """What the pool of these layers is made of."""

    tokens: int
    bytes: int
    fixed: int
    """Blocks of a sequence for windows and states."""
    bytes_per_token: int


def packed_blocks(attention: CompressedAttention, layers: range, tokens_in_flight: int) -> PackedBlocks:
    """The blocks of a pipeline stage with these layers."""
    ratios = [attention.ratios[layer] for layer in layers]
    growing, others = _entries(attention, ratios), _windows(attention, ratios)
    repeats = _repeats([growing, *others])
    groups = [(bucket, _groups(bucket, repeats)) for bucket in (growing, *others)]
    return PackedBlocks(
        tokens=_TOKENS,
        bytes=max(bucket.page(count) for bucket, count in groups),
        fixed=sum(count * bucket.blocks(tokens_in_flight) for bucket, count in groups[1:]),
        bytes_per_token=sum(count * page // _TOKENS for page, count in growing.pages.items()),
    )


def _entries(attention: CompressedAttention, ratios: list[int]) -> _Bucket:
    """The compressed entries, and the keys of the indexer."""
    pages: dict[int, int] = {}
    for ratio in filter(None, ratios):
        entries = _TOKENS // ratio
        sizes = [_entry_bytes(attention)]
        if ratio == INDEXED:
            sizes.append(attention.index_dim + _INDEX_SCALE_BYTES)
        for size in sizes:
            pages[_page(entries * size)] = pages.get(_page(entries * size), 0) + 1
    return _Bucket(pages, _TOKENS, 0)


def _windows(attention: CompressedAttention, ratios: list[int]) -> list[_Bucket]:
    """The windows of all layers, and the states of the compressors by ratio."""
    found = [_Bucket({_page(_WINDOW_TOKENS * _entry_bytes(attention)): len(ratios)}, _WINDOW_TOKENS, attention.window)]
    for ratio, tokens in _STATE_TOKENS.items():
        count = ratios.count(ratio)
        widths = [attention.head_dim] + [attention.index_dim] * (ratio == INDEXED)
        pages = {_page(tokens * attention.states(ratio) * width * 4): count for width in widths}
        if count:
            found.append(_Bucket(pages, tokens, 2 * ratio if ratio == INDEXED else ratio))
    return found


def _entry_bytes(attention: CompressedAttention) -> int:
    """Bytes of an entry: its rotary part in 16 bits, the rest in fp8 with scales."""
    return attention.head_dim + attention.rope_dim + _SCALE_BYTES


def _page(size: int) -> int:
    return ceil(size / _ALIGNMENT) * _ALIGNMENT


def _groups(bucket: _Bucket, repeats: int) -> int:
    return ceil(bucket.repeats / repeats) if repeats and bucket.balanced else 1


def _repeats(buckets: list[_Bucket]) -> int:
    """Repeats of a group: the number that pads the balanced buckets least, the larger of two that pad alike."""
    balanced = [bucket.repeats for bucket in buckets if bucket.balanced and bucket.pages]
    least = max((bucket.repeats for bucket in buckets if bucket.balanced and len(bucket.pages) > 1), default=0)
    if not least:
        return 0
    sizes = range(least, max(balanced) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in balanced), -size))
