"""SGLang's kernels, which are not there: packages of its image, extensions, and what it compiles when it needs it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tests.oracle.engine.absent import Void

PACKAGES = {
    *("sgl_kernel", "deep_gemm", "flashinfer", "flash_mla", "deep_ep", "humming", "tilelang", "cutlass", "cuda"),
    *("quack", "torch_memory_saver", "triton_kernels"),
}
EXTENSIONS = re.compile(r"sglang\.srt\.(rust_extensions\._\w+|mem_cache\.rust_tree_core\.mem_cache)")
"""Packages and modules that the environment does not have."""


@dataclass
class PrecisionConfig:
    """How the kernels of MXFP4 experts read them: what SGLang states of it."""

    b_mx_scale: Any = None
    b_microblock_size: int | None = None
    flex_ctx: Any = None


def _as_it_is(tensor: Any, *args: Any, **kwargs: Any) -> Any:
    return tensor


_INTEGERS = {"uint4": 4, "uint4b8": 4, "uint8": 8, "uint8b128": 8}
"""Bits of the integers that weights are quantised to (sgl_kernel/scalar_type.py)."""

ANSWERS: Mapping[str, Mapping[str, Any]] = {
    "sgl_kernel": {
        "scalar_types": SimpleNamespace(**{name: SimpleNamespace(size_bits=bits) for name, bits in _INTEGERS.items()})
    },
    # Experts in MXFP4, whose tiles take as many bytes as the checkpoint's rows once these are padded.
    "triton_kernels": {
        "wrap_torch_tensor": _as_it_is,
        "convert_layout": _as_it_is,
        "PrecisionConfig": PrecisionConfig,
    },
}
"""What these packages say of integers, and their functions that lay weights out anew."""


def install() -> None:
    """Makes kernels that SGLang would compile do nothing: their Python callers allocate what they write."""
    import sglang.kernels.jit.utils as kernels
    from sglang.kernels.jit.utils.compile import loader

    kernels.load_jit = loader.load_jit = lambda *args, **kwargs: Void()
