"""Settings that the chosen engine does not have: a person who made one believes that it does something."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from engines.finding import Finding, warning
from engines.request import Engine, FitRequest

_OF_THE_OTHER: dict[Engine, tuple[str, ...]] = {
    "vllm": ("expert_offload",),
    "llama.cpp": (
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "expert_parallel",
        "decode_context_parallel",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
        "block_size",
        "quantization",
        "mm_encoder_tp_mode",
        "language_model_only",
        "available_kv_gib",
    ),
}
_DEFAULTS = {field.name: field.default for field in fields(FitRequest)}


def check_unused(request: FitRequest) -> Iterator[Finding]:
    """One warning for all settings that only the other engine has."""
    made = [name for name in _OF_THE_OTHER[request.engine] if getattr(request, name) != _DEFAULTS[name]]
    if made:
        yield warning("setting_not_used", f"{', '.join(made)}: {request.engine} has no such setting, and ignores it.")
