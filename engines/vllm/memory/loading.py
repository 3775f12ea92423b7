"""Memory beside a checkpoint's tensors that vLLM allocates while loading, and counts as weights.

Found by building its own models (`make oracle`, 0.33.0). Earlier releases were not compared.
"""

from __future__ import annotations

from math import ceil

from config.checkpoint.attention import CompressedAttention, LatentAttention
from config.checkpoint.quantization import FP8_BLOCK, MXFP4, NVFP4, Scheme
from config.checkpoint.shape import Experts
from config.checkpoint.tensors import Place, Sharding
from engines.versions import Version
from engines.vllm.memory.kv_cache import is_fp8
from engines.vllm.resolved_request import ResolvedRequest

_PACKED_SHARE = 1 / 128 - 4 / 128**2
"""Additional bytes of scales for each weight if each row repeats its block's scale, in one byte."""

_WIDER_ZERO_POINT = 1.5
"""Additional bytes of a zero point of 16 bits instead of 4."""

_SWIZZLED_SCALES = 0.082
"""Share by which Triton's layout on compute capability 9.x pads the scales of MXFP4, and biases in 32 bits take."""

_INDEX_BYTES = 4
_UNPADDED_HEADS, _PADDED_HEADS = 16, 64
"""Most heads of a rank whose sparse kernel takes them as they are, and the multiple that the other kernel takes."""
_DECODE_WORKSPACE = {"FLASHINFER_MLA": 128 * 2**20, "FLASHINFER_MLA_SPARSE": 394 * 2**20}
"""Workspace that a backend allocates with its first layer (vllm/v1/attention/backends/mla)."""


_TRITON_EXPERTS_SINCE = Version(0, 14, 0)
"""First release whose log says that MXFP4 experts on Hopper run by Triton (github.com/vllm-project/vllm/issues/33155);
before it they run by Marlin (issue 23278)."""

_UNPADDED_TRITON_SINCE = Version(0, 33, 0)
"""The release that the oracle is of; 0.14.1 still padded the hidden state."""

_SPARSE_WORKSPACE_SINCE = Version(0, 33, 0)
"""The release that the oracle is of; earlier ones were not compared."""

_CONTEXTS = 5
"""Contexts of keys that sparse prefill has room for (`get_prefill_workspace_size`)."""


def made_while_loading(resolved: ResolvedRequest, layers: range, tensors: dict[str, float]) -> dict[str, float]:
    """Bytes on one GPU of the stage with these layers, by what they are for; `tensors`: its checkpoint's, by group."""
    made = {
        "rotary_table": _rotary_tables(resolved, layers),
        "latent_copies": _latent_copies(resolved, len(layers) + resolved.drafts_in(layers)),
        "indexer_buffers": _indexer_buffers(resolved, layers),
        "padded_queries": _padded_queries(resolved),
        "sparse_workspace": _sparse_workspace(resolved),
        "deep_states": _deep_states(resolved) if layers.start == 0 else 0.0,
        "packed_scales": _packed_scales(resolved, tensors),
        "zero_points": _zero_points(resolved, tensors),
        "padded_experts": _padded_experts(resolved, tensors),
        "workspace": float(_DECODE_WORKSPACE.get(resolved.backend.name, 0)) if resolved.backend else 0.0,
    }
    return {name: size for name, size in made.items() if size}


def _rotary_tables(resolved: ResolvedRequest, layers: range) -> float:
    """The tables of rotary positions: of compressed attention, those that the layers of this stage need."""
    shape = resolved.model.shape
    if not isinstance(shape.attention, CompressedAttention):
        return float(shape.rotary_table)
    ratios = shape.attention.ratios
    needed = {ratios[layer] == 0 for layer in layers}
    return shape.rotary_table * len(needed) / len({ratio == 0 for ratio in ratios})


def _latent_copies(resolved: ResolvedRequest, layers: int) -> float:
    """The 16-bit copies of the expanding projection that quantised latent attention makes."""
    attention = resolved.model.shape.attention
    if not isinstance(attention, LatentAttention):
        return 0.0
    if resolved.model.quantization.scheme("model.layers.0.self_attn.kv_b_proj").bits == 16:
        return 0.0
    expanded = attention.heads * (attention.nope_dim + attention.value_dim)
    return layers * attention.kv_rank * expanded * 2 / resolved.layout.tp


def _indexer_buffers(resolved: ResolvedRequest, layers: range) -> float:
    """The tokens that an indexer chooses: for a whole batch, and for each layer and every sequence. Its key projection
    is held in 16 bits."""
    attention = resolved.model.shape.attention
    if isinstance(attention, CompressedAttention):
        return resolved.batched_tokens * attention.chosen * _INDEX_BYTES
    if not isinstance(attention, LatentAttention) or attention.indexer is None:
        return 0.0
    own = sum(1 for layer in attention.indexer.layers if layer in layers)
    own += resolved.drafts_in(layers)
    # The layers that draft have a buffer for a batch of their own (model_executor/models/deepseek_mtp.py).
    rows = resolved.batched_tokens * (1 + resolved.drafts_in(layers)) + own * (
        resolved.sequences * _queries(resolved) + 1
    )
    keys = own * attention.indexer.head_dim * resolved.model.shape.hidden
    stored = resolved.model.quantization.scheme("model.layers.0.self_attn.indexer.wk").bits
    return rows * attention.indexer.chosen * _INDEX_BYTES + keys * (16 - stored) / 8


def _queries(resolved: ResolvedRequest) -> int:
    """Queries of a sequence in a step: the last token, and those that are drafted."""
    return 1 + (resolved.request.speculative_tokens or 0)


def _padded_queries(resolved: ResolvedRequest) -> float:
    """A batch of queries with padded heads, which FlashMLA's sparse kernel takes on compute capability 10.x where a
    rank has many heads and the cache is 16-bit (v1/attention/backends/mla/flashmla_sparse.py, platforms/cuda.py)."""
    attention, cache = resolved.model.shape.attention, resolved.kv_cache_dtype
    if not isinstance(attention, LatentAttention) or attention.indexer is None or resolved.generation != 10:
        return 0.0
    heads = attention.heads / resolved.layout.tp
    if heads <= _UNPADDED_HEADS or is_fp8(cache):
        return 0.0
    padded = ceil(heads / _PADDED_HEADS) * _PADDED_HEADS
    return resolved.batched_tokens * padded * (attention.kv_rank + attention.rope_dim) * 2.0


def _sparse_workspace(resolved: ResolvedRequest) -> float:
    """What FlashMLA's sparse kernel reserves where the cache is fp8: five contexts of keys in 16 bits, and a batch of
    queries and outputs, each as they are and with padded heads (v1/attention/backends/mla/flashmla_sparse.py)."""
    attention = resolved.model.shape.attention
    if not _has_sparse_workspace(resolved) or not isinstance(attention, LatentAttention):
        return 0.0
    row = attention.kv_rank + attention.rope_dim
    heads = attention.heads / resolved.layout.tp
    padded = ceil(heads / _PADDED_HEADS) * _PADDED_HEADS
    of_batch = resolved.batched_tokens * (heads + padded) * (row + attention.kv_rank) * 2.0
    return of_batch + longest_context(resolved) * bytes_per_token_of_context(resolved)


def longest_context(resolved: ResolvedRequest) -> int:
    """The context that the engine is started with, or the model's."""
    return resolved.request.max_model_len or resolved.max_context


def bytes_per_token_of_context(resolved: ResolvedRequest) -> float:
    """Bytes on each GPU, beside the cache, for each token of the context: those of the sparse kernel's keys."""
    attention = resolved.model.shape.attention
    if not _has_sparse_workspace(resolved) or not isinstance(attention, LatentAttention):
        return 0.0
    return _CONTEXTS * (attention.kv_rank + attention.rope_dim) * 2.0


def _has_sparse_workspace(resolved: ResolvedRequest) -> bool:
    backend = resolved.backend
    if backend is None or backend.name != "FLASHMLA_SPARSE" or resolved.version < _SPARSE_WORKSPACE_SINCE:
        return False
    return is_fp8(resolved.kv_cache_dtype)


def _deep_states(resolved: ResolvedRequest) -> float:
    """Room for the states of the vision encoder that go into deeper layers, for a whole batch of tokens."""
    vision = resolved.model.shape.vision
    levels = vision.deep_levels if vision else 0
    return levels * resolved.batched_tokens * resolved.model.shape.hidden * 2.0


def _packed_scales(resolved: ResolvedRequest, tensors: dict[str, float]) -> float:
    """Scales of block FP8 on compute capability 10.x, where its linear kernels take them row by row."""
    if resolved.generation != 10:
        return 0.0
    return _linear_bytes(resolved, tensors, FP8_BLOCK) * _PACKED_SHARE


def _zero_points(resolved: ResolvedRequest, tensors: dict[str, float]) -> float:
    """Zero points of AWQ on compute capability 9.x, where its linear kernel takes 16 bits for each instead of four."""
    if resolved.generation != 9 or resolved.model.quantization.method != "awq":
        return 0.0
    made = 0.0
    for scheme in {scheme for _, scheme in resolved.model.quantization.schemes if scheme.group}:
        stored = scheme.bits / 8 + scheme.scale_bytes / scheme.group
        made += _linear_bytes(resolved, tensors, scheme) / stored * _WIDER_ZERO_POINT / scheme.group
    return made


def _padded_experts(resolved: ResolvedRequest, tensors: dict[str, float]) -> float:
    """What the kernels of experts in four bits add: widths in multiples of their tiles, and biases in 32 bits."""
    experts, scheme = resolved.model.shape.experts, resolved.model.expert_scheme
    if experts is None or scheme not in (MXFP4, NVFP4):
        return 0.0
    of_scales = _tiles(resolved, scheme, experts)[2]
    width, hidden = padded_experts(resolved, experts)
    padded = width / _expert_width(resolved, experts) * hidden / experts.hidden
    scales = of_scales * scheme.scale_bytes / (scheme.group * scheme.bits / 8 + scheme.scale_bytes)
    return tensors.get("routed_experts", 0.0) * (padded * (1 + scales) - 1)


def padded_experts(resolved: ResolvedRequest, experts: Experts) -> tuple[float, int]:
    """The width of an expert on one GPU and that of its hidden state, as the kernels hold them."""
    scheme, width = resolved.model.expert_scheme, _expert_width(resolved, experts)
    if scheme not in (MXFP4, NVFP4):
        return width, experts.hidden
    of_width, of_hidden, _ = _tiles(resolved, scheme, experts)
    return ceil(width / of_width) * of_width, ceil(experts.hidden / of_hidden) * of_hidden


def _expert_width(resolved: ResolvedRequest, experts: Experts) -> float:
    return experts.width / (1 if resolved.layout.ep > 1 else resolved.layout.gpus // resolved.layout.pp)


def _tiles(resolved: ResolvedRequest, scheme: Scheme, experts: Experts) -> tuple[int, int, float]:
    """Multiples of the width and of the hidden state, and the share by which scales grow: by the kernels that vLLM
    prefers on the GPU (fused_moe/oracle/mxfp4.py, quantization/utils/flashinfer_fp4_moe.py)."""
    if scheme is NVFP4:
        return (64 if experts.gated else 128, 256, 0.0) if resolved.generation == 10 else (1, 1, 0.0)
    match resolved.generation:
        case None:
            return 256, 256, 0.0
        case 9 if not experts.biased or resolved.version < _TRITON_EXPERTS_SINCE:
            # Triton's kernels serve gpt-oss alone, whose experts have biases.
            return 128, 256, 0.0
        case 9 if resolved.request.max_loras is not None:
            return 128, 256, 0.0
        case 9 if resolved.version < _UNPADDED_TRITON_SINCE:
            return 64, 256, 0.0
        case 9:
            return 64, 1, _SWIZZLED_SCALES
        case _:
            return 128, 256, 0.0


def _linear_bytes(resolved: ResolvedRequest, tensors: dict[str, float], scheme: Scheme) -> float:
    """Bytes of the linear layers of that storage, without the routed experts."""
    linear = {
        group.group
        for group in resolved.model.groups
        if group.dtype == scheme.name and group.sharding is not Sharding.EXPERT and group.place is Place.LAYERS
    }
    return sum(tensors.get(group, 0.0) for group in linear)
