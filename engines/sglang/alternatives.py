"""Other SGLang settings to try on the same machine if a plan is rejected."""

from __future__ import annotations

from collections.abc import Iterator

from engines.engine import Alternative
from engines.plan import Plan
from engines.request import FitRequest
from engines.sglang.resolved_request import resolve_layout


def other_settings(request: FitRequest, plan: Plan) -> Iterator[Alternative]:
    """A shorter context, an 8-bit cache."""
    if plan.max_context and request.max_model_len:
        yield Alternative({"max_model_len": plan.max_context}, "context")
    elif request.max_model_len and plan.kv_tokens and plan.kv_tokens[1] > 0:
        yield Alternative({"max_model_len": min(plan.kv_tokens[1], request.max_model_len)}, "context")
    if request.kv_cache_dtype in (None, "auto", "bf16", "bfloat16"):
        yield Alternative({"kv_cache_dtype": "fp8"})


def other_layouts(request: FitRequest, plan: Plan) -> Iterator[Alternative]:
    """Whole experts, and every power of two that a node holds, the widest first."""
    if not request.expert_parallel:
        yield Alternative({"expert_parallel": True})
    stated = {"pipeline_parallel": request.nodes} if request.pipeline_parallel is not None else {}
    for tp in (64, 32, 16, 8, 4, 2, 1):
        other = Alternative({"tensor_parallel": tp, **stated}, "tensor")
        if tp <= request.gpus_per_node and resolve_layout(other.applied(request)) != plan.layout:
            yield other
