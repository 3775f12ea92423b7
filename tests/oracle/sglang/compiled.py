"""SGLang's kernel packages, which are not there."""

from __future__ import annotations

import re

PACKAGES = {
    *("sgl_kernel", "deep_gemm", "flashinfer", "flash_mla", "deep_ep", "humming", "tilelang", "cutlass", "cuda"),
    *("quack", "torch_memory_saver", "torchaudio", "torchcodec", "flash_attn"),
}
EXTENSIONS = re.compile(r"sglang\.srt\.(rust_extensions\._\w+|mem_cache\.rust_tree_core\.mem_cache)")
"""Packages and modules that the environment does not have."""
