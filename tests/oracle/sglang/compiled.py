"""SGLang's kernels, which are not there: packages of its image, extensions, and what it compiles when it needs it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


ANSWERS: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    # Experts in MXFP4, whose tiles take as many bytes as the checkpoint's rows once these are padded.
    "triton_kernels": {
        "wrap_torch_tensor": _as_it_is,
        "convert_layout": _as_it_is,
        "PrecisionConfig": PrecisionConfig,
    },
}
"""Functions of these packages that lay weights out anew."""


def install() -> None:
    """Makes every kernel that SGLang would compile one that does nothing: its Python callers allocate what it writes."""
    import sglang.kernels.jit.utils as kernels
    from sglang.kernels.jit.utils.compile import loader

    kernels.load_jit = loader.load_jit = lambda *args, **kwargs: Void()
