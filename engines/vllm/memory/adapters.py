"""Bytes that vLLM reserves on a GPU for LoRA adapters: two matrices beside each linear layer, for each adapter.

From `vllm/lora/layers` (0.33.0): the first matrix takes what the layer takes, the second gives what the layer gives.
"""

from __future__ import annotations

from config.checkpoint.attention import GroupedAttention
from engines.vllm.resolved_request import ResolvedRequest, can_adapt

ADAPTER_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM takes (vllm/config/lora.py)."""

DEFAULT_ADAPTER_RANK = 16
_ELEMENT_BYTES = 2
_WITH_EMBEDDINGS = ("llama", "qwen2")
"""Model types whose classes name embedding and head among their `embedding_modules`."""


def adapter_bytes(resolved: ResolvedRequest, layers: int) -> float:
    """Bytes of the adapters of a stage with so many layers; 0: there are none, or they have no formula."""
    attention, loras = resolved.model.shape.attention, resolved.request.max_loras
    if loras is None or not can_adapt(resolved.model, resolved.layout) or not isinstance(attention, GroupedAttention):
        return 0.0
    shape, tp = resolved.model.shape, resolved.layout.tp
    hidden, width = shape.hidden, shape.dense_width / tp
    query = attention.heads * attention.head_dim / tp
    key = max(1, attention.kv_heads // tp) * attention.head_dim
    projections = 3 * hidden + query + 2 * key
    output = query + hidden
    network = 2 * hidden + 2 * width + width + hidden
    elements = layers * (projections + output + network)
    if resolved.model.family.config.get("model_type") in _WITH_EMBEDDINGS:
        elements += 2 * (shape.vocabulary + hidden)
    rank = resolved.request.max_lora_rank or DEFAULT_ADAPTER_RANK
    return loras * rank * elements * _ELEMENT_BYTES
