"""Functions of the absent kernel packages that lay weights out anew: the size and type of what they return.

Their values do not matter here. Where a GPU's layout is not the checkpoint's, this is what it costs in bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any

import torch


def answers(capability: int, units: int) -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    """Functions by package, for a compute capability such as 90 and so many multiprocessors."""
    return {
        "deep_gemm": {
            "get_num_sms": lambda: units,
            "get_mk_alignment_for_contiguous_layout": lambda: 128,
            "get_theoretical_mk_alignment_for_contiguous_layout": lambda *_: 128,
            "transform_sf_into_required_layout": _block_scales_packed if capability >= 100 else _as_they_are,
            "get_mn_major_tma_aligned_tensor": _as_they_are,
            "get_mn_major_tma_aligned_packed_ue8m0_tensor": _row_scales_packed,
            "get_tma_aligned_size": lambda rows, size: ceil(rows * size / 16) * 16 // size,
        },
        "flashinfer": {**_FLASHINFER, "get_device_sm_count": lambda _: units},
    }


def _as_they_are(sf: Any, *args: Any, **kwargs: Any) -> Any:
    """Scales of 128 x 128 blocks stay as they are on compute capability 9.0."""
    return sf


def _block_scales_packed(sf: Any, *, mn: int, k: int, recipe: tuple[int, ...], **kwargs: Any) -> Any:
    """Scales of 128 x 128 blocks on compute capability 10.x: one byte for each row and 128 columns, four in an int32,
    rows in multiples of four (DeepGEMM, csrc/apis/layout.hpp `transform_sf_into_required_layout`)."""
    rows, columns = ceil(mn / 4) * 4, ceil(k / (4 * recipe[-1]))
    return torch.empty((*sf.shape[:-2], rows, columns), dtype=torch.int32, device=sf.device)


def _row_scales_packed(sf: Any) -> Any:
    """Scales of rows and 128 columns, four in an int32, rows in multiples of four (the same file,
    `get_mn_major_tma_aligned_packed_ue8m0_tensor`)."""
    rows, columns = ceil(sf.shape[-2] / 4) * 4, ceil(sf.shape[-1] / 4)
    packed = torch.empty((*sf.shape[:-2], columns, rows), dtype=torch.int32, device=sf.device)
    return packed.transpose(-1, -2)[..., : sf.shape[-2], :]


def _rows(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """A permutation of a matrix's rows."""
    return torch.arange(tensor.shape[0], device="meta")


def _rows_cached(cache: Any, tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return _rows(tensor)


def _like(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    """The same matrix with its rows in another order."""
    return torch.empty_like(tensor)


def _interleaved(scales: Any, *args: Any, **kwargs: Any) -> Any:
    """Scales in tiles of 128 rows and four columns, as one flat tensor (flashinfer 0.7.2,
    quantization/fp4_quantization.py `block_scale_interleave`)."""
    experts = scales.shape[0] if scales.ndim == 3 else 1
    rows, columns = ceil(scales.shape[-2] / 128) * 128, ceil(scales.shape[-1] / 4) * 4
    return torch.empty(experts * rows * columns, dtype=scales.dtype, device=scales.device)


def _in_blocks(matrix: Any, width: int) -> Any:
    """A matrix as blocks of columns."""
    rows, columns = matrix.shape
    return torch.empty((columns // width, rows, width), dtype=matrix.dtype, device=matrix.device)


def _counter_bytes(batch: int, heads: int, units: int) -> int:
    """Counters of the decode kernel (flashinfer 0.7.2, utils.py `get_trtllm_gen_multi_ctas_kv_counter_bytes`)."""
    return ceil(max(batch * heads, units) / 8) * 8 * 4


_FLASHINFER: Mapping[str, Callable[..., Any]] = {
    "get_shuffle_matrix_a_row_indices": _rows,
    "get_shuffle_matrix_sf_a_row_indices": _rows,
    "get_reorder_rows_for_gated_act_gemm_row_indices": _rows,
    "get_w2_permute_indices_with_cache": _rows_cached,
    "_maybe_get_cached_w3_w1_permute_indices": _rows_cached,
    "reorder_rows_for_gated_act_gemm": _like,
    "shuffle_matrix_a": _like,
    "shuffle_matrix_sf_a": _interleaved,
    "block_scale_interleave": _interleaved,
    "nvfp4_block_scale_interleave": _interleaved,
    "convert_to_block_layout": _in_blocks,
    "convert_sf_to_mma_layout": lambda scales, **_: scales,
    "get_trtllm_gen_multi_ctas_kv_counter_bytes": _counter_bytes,
}
