"""Other llama.cpp settings to try on the same machine if a plan is rejected."""

from __future__ import annotations

from collections.abc import Iterator

from engines.engine import Alternative
from engines.plan import Plan
from engines.request import FitRequest


def other_settings(request: FitRequest, plan: Plan) -> Iterator[Alternative]:
    """A shorter context."""
    if plan.max_context and request.max_model_len:
        yield Alternative({"max_model_len": plan.max_context * (request.max_num_seqs or 1)}, "context")
    elif request.max_model_len and plan.kv_tokens and plan.kv_tokens[1] > 0:
        yield Alternative({"max_model_len": min(plan.kv_tokens[1], request.max_model_len)}, "context")
