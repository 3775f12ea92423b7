"""The KV cache: bytes per token on one GPU, and the tokens that vLLM reports for a number of bytes.

Latent attention keeps one vector per token and layer, whole on every tensor-parallel rank; only decode context
parallelism divides it. Grouped attention divides by its key and value heads. Linear attention keeps a fixed state per
sequence and sliding attention a window; both share the pool of blocks with the full layers, as
`vllm/v1/core/kv_cache_utils.py` lays it out (0.33.0).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention, LinearAttention, Mamba
from config.checkpoint.shape import Shape
from engines.vllm.memory.attention_backend import DEFAULT_BLOCK, Backend
from engines.vllm.memory.packed_pool import packed_blocks

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
    """Bytes of one token in one layer with a growing cache, on one GPU, without an indexer's.

    Raises KeyError for a cache type without a formula.
    """
    if isinstance(shape.attention, LatentAttention):
        return _latent_bytes(shape.attention, dtype, backend)
    if not isinstance(shape.attention, GroupedAttention):
        raise TypeError("a shape without a known attention has no KV cache")
    return _grouped_bytes(shape.attention, dtype, tp)


def _grouped_bytes(attention: GroupedAttention, dtype: str, tp: int) -> int:
    return max(1, attention.kv_heads // tp) * attention.key_value_width * ELEMENT_BYTES[dtype]


def _latent_bytes(attention: LatentAttention, dtype: str, backend: Backend) -> int:
    if dtype in LATENT_ONLY:
        return LATENT_ONLY[dtype]
    if backend.only_fp8_layout or (is_fp8(dtype) and backend.own_fp8_layout):
        return _SPARSE_FP8_BYTES
    return (attention.kv_rank + attention.rope_dim) * ELEMENT_BYTES[dtype]


def indexer_bytes_per_token(shape: Shape, layers: range) -> int:
    """Bytes of one token in the indexers of these layers."""
    attention = shape.attention
    if not isinstance(attention, LatentAttention) or attention.indexer is None:
        return 0
    own = sum(1 for layer in attention.indexer.layers if layer in layers)
    return own * (attention.indexer.head_dim + _INDEXER_SCALE_BYTES)


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
    drafted: int = 0,
) -> Pool:
    """The pool of the stage that holds these layers.

    `tokens_in_flight`: tokens of unfinished batches, which a window keeps beside its own. `drafted`: tokens that are
    drafted at a time, for each of which linear attention keeps a state.
    """
    if isinstance(shape.attention, CompressedAttention):
        packed = packed_blocks(shape.attention, layers, tokens_in_flight)
        return Pool(packed.tokens, packed.bytes, 1, packed.fixed, packed.bytes_per_token, dcp)
    kinds = [shape.layer_kinds[layer] for layer in layers if shape.layer_kinds[layer] != "none"]
    growing, others = kinds.count("full"), len(kinds) - kinds.count("full")
    per_layer = layer_bytes_per_token(shape, dtype, tp, backend)
    per_token = per_layer * growing + indexer_bytes_per_token(shape, layers)
    if not others:
        return Pool(block, block * per_token, 1, 0, per_token, dcp)
    if not growing:
        raise ValueError("a pipeline stage without a full attention layer has no formula")
    size = _group_size(growing, others, rules.group_factor)
    if "linear" in kinds or "mamba" in kinds:
        block, fixed = _with_states(shape, per_layer, tp, prefix_caching=prefix_caching, rules=rules, drafted=drafted)
        page = block * per_layer
    else:
        window = _grouped_bytes(shape.windowed, dtype, tp) if shape.windowed else per_layer
        page = block * max(per_layer, window)
        fixed = _window_blocks(shape, kinds, _block_of_page(page, window, block), tokens_in_flight)
        block = _block_of_page(page, per_layer, block)
    return Pool(
        block_tokens=block,
        block_bytes=page * size,
        growing_groups=ceil(growing / size),
        fixed_blocks=ceil(others / size) * fixed,
        bytes_per_token=per_token,
        dcp=dcp,
    )


def _with_states(
    shape: Shape, per_layer: int, tp: int, *, prefix_caching: bool, rules: PoolRules, drafted: int
) -> tuple[int, int]:
    """Tokens of a block, and blocks per group of layers that keep a state of a sequence."""
    checkpoints = prefix_caching and rules.prefill_checkpoints
    fixed = ((3 if checkpoints else 2) if prefix_caching else 1) + drafted
    if shape.mamba:
        return _hybrid_block(mamba_state_bytes(shape.mamba, tp), per_layer, DEFAULT_BLOCK), fixed
    if shape.linear is None:
        raise ValueError("linear layers without a linear attention have no formula")
    alignment = _CHECKPOINT_TOKENS if checkpoints else DEFAULT_BLOCK
    return _hybrid_block(linear_state_bytes(shape.linear, tp, drafted), per_layer, alignment), fixed


def _window_blocks(shape: Shape, kinds: list[str], block: int, tokens_in_flight: int) -> int:
    """Blocks per group of layers with a window or chunk, and what a step may add before the oldest blocks are freed."""
    if "chunked" in kinds:
        return ceil((shape.window + tokens_in_flight) / block)
    return ceil((shape.window - 1 + tokens_in_flight) / block) + 1


def _block_of_page(page: int, per_token: int, block: int) -> int:
    """Tokens of a block in a page as large as that of other layers: more of them, or padding if they do not divide."""
    return page // per_token if page % (block * per_token) == 0 else block


def _group_size(growing: int, others: int, factor: float) -> int:
    """Layers per pool: the count of the rarer kind, or of the other kind if that is little more."""
    rarer, commoner = sorted((growing, others))
    return commoner if commoner < factor * rarer else rarer


def _hybrid_block(state_bytes: int, per_layer: int, alignment: int) -> int:
    """Tokens of a block when an attention page is made as large as a layer's state."""
    return alignment * ceil(state_bytes / (alignment * per_layer))


def mamba_state_bytes(mamba: Mamba, tp: int) -> int:
    """Bytes of one layer's state per sequence: the state of each head, and the convolution's tail in 16 bits."""
    return mamba.heads // tp * mamba.head_dim * mamba.state * mamba.state_bytes + (
        mamba.channels // tp * (mamba.kernel - 1) * 2
    )


def linear_state_bytes(linear: LinearAttention, tp: int, drafted: int = 0) -> int:
    """Bytes of one layer's state per sequence: the recurrent matrix, and the convolution's tail in 16 bits, which is
    longer by the tokens that are drafted."""
    recurrent = linear.value_heads // tp * linear.key_dim * linear.value_dim * linear.state_bytes
    return recurrent + linear.channels // tp * (linear.kernel - 1 + drafted) * 2
