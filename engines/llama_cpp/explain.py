"""The arithmetic of llama.cpp's memory, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from config.checkpoint.model_spec import ModelSpec
from config.units import GIB
from engines.llama_cpp.memory import (
    cache_bytes_per_token,
    device_need,
    gguf_request,
    planned_context,
    window_tokens,
)
from engines.plan import Plan
from engines.request import FitRequest


def explain_llama_cpp(request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
    """The memory of the fullest device, line by line. Empty: not known."""
    resolved = gguf_request(request, model, plan.weights_bytes)
    if resolved is None:
        return
    context = planned_context(resolved)
    need = device_need(resolved, context)
    yield f"fullest of {resolved.devices} devices: layers in proportion, the output counts as one"
    yield f"  weights            {need.weights / GIB:8.2f} GiB"
    token = cache_bytes_per_token(model.shape, resolved.cache_type)
    windows = window_tokens(resolved, context)
    held = f"{context:,} tokens x {token:,.0f} B in each layer"
    if windows < context:
        held += f", {windows:,} in a layer with a sliding window"
    yield f"  KV cache           {need.cache / GIB:8.2f} GiB  [{held}]"
    buffer = f"{need.compute_likely / GIB:.2f} to {need.compute_worst / GIB:.2f}"
    yield f"  compute buffer     {buffer} GiB  [flash attention on]"
