"""Other vLLM settings to try on the same machine if a plan is rejected."""

from __future__ import annotations

from collections.abc import Iterator

from engines.engine import Alternative
from engines.plan import Plan
from engines.request import FitRequest
from engines.vllm.resolved_request import default_sequences, resolve_layout

_FEWER_SEQUENCES = 256


def other_settings(request: FitRequest, plan: Plan) -> Iterator[Alternative]:
    """A shorter context, an 8-bit cache, fewer sequences."""
    if plan.max_context and request.max_model_len:
        yield Alternative({"max_model_len": plan.max_context}, "context")
    elif request.max_model_len and plan.kv_tokens and plan.kv_tokens[1] > 0:
        yield Alternative({"max_model_len": min(plan.kv_tokens[1], request.max_model_len)}, "context")
    if request.kv_cache_dtype in (None, "auto", "bfloat16"):
        yield Alternative({"kv_cache_dtype": "fp8"})
    if (request.max_num_seqs or default_sequences(request)) > _FEWER_SEQUENCES:
        yield Alternative({"max_num_seqs": _FEWER_SEQUENCES})


def other_layouts(request: FitRequest, plan: Plan) -> Iterator[Alternative]:
    """Whole experts, and every power of two that a node holds, the widest first."""
    if not request.expert_parallel:
        yield Alternative({"expert_parallel": True})
    stated = {"pipeline_parallel": request.nodes, "data_parallel": 1}
    stated |= {"prefill_context_parallel": 1, "decode_context_parallel": 1}
    others = {name: size for name, size in stated.items() if getattr(request, name) is not None}
    for tp in (64, 32, 16, 8, 4, 2, 1):
        other = Alternative({"tensor_parallel": tp, **others}, "tensor")
        if tp <= request.gpus_per_node and resolve_layout(other.applied(request)) != plan.layout:
            yield other
