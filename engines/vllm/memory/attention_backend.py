"""The attention backend that vLLM chooses, and the block size of its KV cache.

From `vllm/platforms/cuda.py` and `rocm.py` (0.33.0): priorities by compute capability, backends that take the
cache's type first. A model with sparse attention cannot be served on a GPU without a backend for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention
from config.checkpoint.shape import Shape

DEFAULT_BLOCK = 16


@dataclass(frozen=True, slots=True)
class Backend:
    """An attention backend."""

    name: str
    block: int
    """Tokens of a KV block; a stated block size must be a multiple of it."""
    latent: bool = True
    """Whether it is for latent attention (MLA)."""
    own_fp8_layout: bool = False
    """Whether an fp8 cache of latent attention has the layout `fp8_ds_mla`, with scales and rotary parts in 16 bits."""
    only_fp8_layout: bool = False
    """Whether a cache of every type has that layout."""


_SIXTEEN_BITS = ("auto", "float16", "bfloat16")
_FP8 = ("fp8", "fp8_e4m3")
_GROUPED_TYPES = (
    *_SIXTEEN_BITS, *_FP8, "fp8_e5m2", "int4_per_token_head", "int8_per_token_head", "fp8_per_token_head",
    "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc", "nvfp4", "nvfp4_4over6",
)  # fmt: skip
_AMD_GROUPED_TYPES = (*_SIXTEEN_BITS, *_FP8, "fp8_e5m2")
_SPARSE_TYPES = {
    9: (*_SIXTEEN_BITS, *_FP8, "fp8_ds_mla"),
    10: (*_SIXTEEN_BITS, *_FP8, "fp8_ds_mla", "nvfp4_ds_mla"),
    12: ("auto", *_FP8, "fp8_ds_mla"),
}


_COMPRESSED = {9: Backend("FLASHMLA_SPARSE_DSV4", 256), 10: Backend("FLASHMLA_SPARSE_DSV4", 256)}
"""Compressed attention, on the GPUs for which the sizes of its pages were compared with the engine."""


def cache_types(shape: Shape, capability: tuple[int, int] | None) -> tuple[str, ...]:
    """The cache types that a backend for that attention takes. No capability: an AMD GPU.

    From `supported_kv_cache_dtypes` of the backends that `vllm/platforms/cuda.py` and `rocm.py` choose among (0.33.0).
    vLLM's flag takes more: those of other attentions.
    """
    if isinstance(shape.attention, CompressedAttention):
        return ("auto", *_FP8, "fp8_ds_mla")
    if capability is None:
        return (*_SIXTEEN_BITS, *_FP8) if isinstance(shape.attention, LatentAttention) else _AMD_GROUPED_TYPES
    if not isinstance(shape.attention, LatentAttention):
        return _GROUPED_TYPES
    if shape.attention.indexer:
        return _SPARSE_TYPES.get(capability[0], ())
    return (*_SIXTEEN_BITS, *_FP8)


def attention_backend(shape: Shape, capability: tuple[int, int] | None, *, fp8: bool, dcp: int) -> Backend | None:
    """The backend for a model on a GPU of that compute capability, or on an AMD GPU if there is none.

    Returns None if vLLM has no backend, or none that is known.
    """
    if isinstance(shape.attention, CompressedAttention):
        return _COMPRESSED.get(capability[0]) if capability else None
    if capability is None:
        return _on_amd(shape)
    if not isinstance(shape.attention, LatentAttention):
        if capability[0] == 10 and _has_two_widths(shape):
            # Heads of two widths are served by Triton beside FlashInfer, whose blocks have 64 tokens then.
            return Backend("TRITON_FLASHINFER", 64, latent=False)
        return Backend("FLASHINFER" if capability[0] == 10 else "FLASH_ATTN", DEFAULT_BLOCK, latent=False)
    if shape.attention.indexer:
        return _sparse(capability, shape.attention.indexer.chosen, fp8=fp8)
    return _latent(shape.attention, capability, fp8=fp8, dcp=dcp)


def _has_two_widths(shape: Shape) -> bool:
    """Whether heads of sliding layers have another width than those of full layers."""
    full, windowed = shape.attention, shape.windowed
    return isinstance(full, GroupedAttention) and windowed is not None and full.head_dim != windowed.head_dim


def _on_amd(shape: Shape) -> Backend | None:
    """The backend without AITER, which is off by default. AITER's dense kernels take the same blocks."""
    if not isinstance(shape.attention, LatentAttention):
        return Backend("ROCM_ATTN", DEFAULT_BLOCK, latent=False)
    return None if shape.attention.indexer else Backend("TRITON_MLA", DEFAULT_BLOCK)


SPARSE_ON_12 = "FLASHINFER_MLA_SPARSE_SM120"
_CHOSEN_ON_12 = 2048
"""Tokens that an indexer must choose for the kernel of compute capability 12.x (flashinfer_mla_sparse.py)."""


def _sparse(capability: tuple[int, int], chosen: int, *, fp8: bool) -> Backend | None:
    """Sparse latent attention has kernels for compute capability 9.0, 10.x and 12.x (platforms/cuda.py, 0.33.0)."""
    if capability[0] == 10 and fp8:
        return Backend("FLASHINFER_MLA_SPARSE", 64)
    if capability[0] in (9, 10):
        return Backend("FLASHMLA_SPARSE", 64, own_fp8_layout=True)
    if capability[0] == 12 and chosen == _CHOSEN_ON_12:
        return Backend(SPARSE_ON_12, 64, own_fp8_layout=True, only_fp8_layout=True)
    return None


def _latent(attention: LatentAttention, capability: tuple[int, int], *, fp8: bool, dcp: int) -> Backend:
    if capability[0] == 10:
        # FlashInfer's kernel has one head size and returns no sums for a context split over ranks.
        flashinfer = attention.nope_dim == 128 and dcp == 1
        return Backend("FLASHINFER_MLA", 32) if flashinfer else Backend("CUTLASS_MLA", 128)
    if capability[0] == 9:
        return Backend("FLASHMLA", 64) if fp8 else Backend("FLASH_ATTN_MLA", DEFAULT_BLOCK)
    return Backend("TRITON_MLA", DEFAULT_BLOCK)
