"""The KV cache: bytes per token on one GPU, and the tokens that vLLM reports for a number of bytes.

Latent attention keeps one vector per token and layer, whole on every tensor-parallel rank; only decode context
parallelism divides it. Grouped attention divides by its key and value heads. Linear attention keeps a fixed state per
sequence and sliding attention a window; both share the pool of blocks with the full layers, as
`vllm/v1/core/kv_cache_utils.py` lays it out (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from config.checkpoint.shape import GroupedAttention, LatentAttention, LinearAttention, Shape
from engines.vllm.memory.attention_backend import DEFAULT_BLOCK, Backend

_SPARSE_FP8_BYTES = 656
"""Bytes per token and layer of `fp8_ds_mla`: 512 in fp8, their scales, and 64 rotary elements in 16 bits."""

_SPARSE_FP4_BYTES = 352
"""The same of `nvfp4_ds_mla`."""

_CHECKPOINT_TOKENS = 64
"""Tokens between the prefill checkpoints of gated delta attention: its chunk (0.33.0)."""

_INDEXER_SCALE_BYTES = 4
"""The indexer's keys are fp8 with one fp32 scale per token."""

ELEMENT_BYTES = {"auto": 2, "bfloat16": 2, "float16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1}
"""Bytes per element of the cache types that have one size per element."""

LATENT_ONLY = {"fp8_ds_mla": _SPARSE_FP8_BYTES, "nvfp4_ds_mla": _SPARSE_FP4_BYTES}
"""Bytes per token and layer of the cache types that only latent attention has."""


def is_fp8(dtype: str) -> bool:
    """Whether a cache type stores eight bits per element."""
    return dtype.startswith("fp8")


def layer_bytes_per_token(shape: Shape, dtype: str, tp: int, backend: Backend) -> int:
    """Bytes of one token in one layer with a growing cache, on one GPU.

    Raises KeyError for a cache type without a formula.
    """
    if isinstance(shape.attention, LatentAttention):
        return _latent_bytes(shape.attention, dtype, backend)
    if not isinstance(shape.attention, GroupedAttention):
        raise TypeError("a shape without a known attention has no KV cache")
    heads = max(1, shape.attention.kv_heads // tp)
    return 2 * heads * shape.attention.head_dim * ELEMENT_BYTES[dtype]


def _latent_bytes(attention: LatentAttention, dtype: str, backend: Backend) -> int:
    latent = attention.kv_rank + attention.rope_dim
    if dtype in LATENT_ONLY:
        size = LATENT_ONLY[dtype]
    elif is_fp8(dtype) and backend.own_fp8_layout:
        size = _SPARSE_FP8_BYTES
    else:
        size = latent * ELEMENT_BYTES[dtype]
    if attention.indexer:
        size += attention.indexer.head_dim + _INDEXER_SCALE_BYTES
    return size


@dataclass(frozen=True, slots=True)
class PoolRules:
    """How a release lays out the pool of a model whose layers differ."""

    group_factor: float
    """Groups have the size of the commoner kind of layers if it is less than the rarer kind times this."""
    batches_in_flight: bool
    """Whether a window keeps the tokens of all batches in flight, not of one."""
    prefill_checkpoints: bool
    """Whether linear attention keeps a state at checkpoints of a prefill: one more block, and block sizes that are a
    multiple of the tokens between checkpoints."""


@dataclass(frozen=True, slots=True)
class Pool:
    """The cache of one pipeline stage on one GPU, as a pool of equal blocks."""

    block_tokens: int
    block_bytes: int
    """Bytes of one block over the layers that share it."""
    growing_groups: int
    """Groups of layers whose blocks grow with the context; 1 if all layers are alike."""
    fixed_blocks: int
    """Blocks of a sequence of any length: linear states and sliding windows."""
    bytes_per_token: int
    """Bytes of one token over all growing layers of the stage."""
    dcp: int

    @property
    def uniform(self) -> bool:
        """Whether all layers grow alike, so that the reported tokens are a capacity."""
        return self.fixed_blocks == 0

    def blocks(self, available_bytes: float) -> int:
        """Whole blocks in `available_bytes`."""
        return max(0, int(available_bytes // self.block_bytes))

    def blocks_of_request(self, context: int) -> int:
        """Blocks of one request of that context."""
        return self.growing_groups * ceil(context / (self.block_tokens * self.dcp)) + self.fixed_blocks

    def bytes_of_request(self, context: int) -> int:
        """Bytes of one request of that context on one GPU."""
        return self.blocks_of_request(context) * self.block_bytes

    def reported_tokens(self, blocks: int, context: int) -> int:
        """The tokens that vLLM prints. If layers differ, it prints concurrency times context, which is not a capacity
        (github.com/vllm-project/vllm/issues/51041)."""
        if self.uniform:
            return blocks * self.block_tokens * self.dcp
        return int(blocks / self.blocks_of_request(context) * context)

    def longest_request(self, blocks: int) -> int:
        """Tokens of the longest single request in `blocks` blocks."""
        return max(0, (blocks - self.fixed_blocks) // self.growing_groups) * self.block_tokens * self.dcp


def stage_pool(
    shape: Shape,
    layers: range,
    *,
    dtype: str,
    tp: int,
    dcp: int,
    backend: Backend,
    block: int,
    tokens_in_flight: int,
    prefix_caching: bool,
    rules: PoolRules,
) -> Pool:
    """The pool of the stage that holds these layers.

    `tokens_in_flight`: tokens of unfinished batches, which a window keeps beside its own.
    """
    per_layer = layer_bytes_per_token(shape, dtype, tp, backend)
    kinds = [shape.layer_kinds[layer] for layer in layers]
    growing, others = kinds.count("full"), len(kinds) - kinds.count("full")
    if not others:
        return Pool(block, block * per_layer * growing, 1, 0, per_layer * growing, dcp)
    if not growing:
        raise ValueError("a pipeline stage without a full attention layer has no formula")
    if "linear" in kinds and shape.linear:
        checkpoints = prefix_caching and rules.prefill_checkpoints
        block = _hybrid_block(shape.linear, per_layer, tp, checkpoints=checkpoints)
        fixed_per_group = (3 if checkpoints else 2) if prefix_caching else 1
    else:
        # A window, and what one step may add before the oldest blocks are freed.
        fixed_per_group = ceil((shape.window - 1 + tokens_in_flight) / block) + 1
    size = _group_size(growing, others, rules.group_factor)
    return Pool(
        block_tokens=block,
        block_bytes=block * per_layer * size,
        growing_groups=ceil(growing / size),
        fixed_blocks=ceil(others / size) * fixed_per_group,
        bytes_per_token=per_layer * growing,
        dcp=dcp,
    )


def _group_size(growing: int, others: int, factor: float) -> int:
    """Layers per pool: the count of the rarer kind, or of the other kind if that is little more."""
    rarer, commoner = sorted((growing, others))
    return commoner if commoner < factor * rarer else rarer


def _hybrid_block(linear: LinearAttention, per_layer: int, tp: int, *, checkpoints: bool) -> int:
    """Tokens of a block when an attention page is made as large as a linear layer's state."""
    alignment = _CHECKPOINT_TOKENS if checkpoints else DEFAULT_BLOCK
    return alignment * ceil(linear_state_bytes(linear, tp) / (alignment * per_layer))


def linear_state_bytes(linear: LinearAttention, tp: int) -> int:
    """Bytes of one layer's state per sequence: the recurrent matrix in fp32 and the convolution's tail in 16 bits."""
    recurrent = linear.value_heads // tp * linear.key_dim * linear.value_dim * 4
    return recurrent + linear.channels // tp * (linear.kernel - 1) * 2
