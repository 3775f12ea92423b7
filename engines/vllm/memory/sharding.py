"""What vLLM holds on each pipeline stage: `vllm/distributed/utils.py get_pp_indices` (0.33.0)."""

from __future__ import annotations

from itertools import accumulate

from config.checkpoint.tensors import Place


def stage_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The decoder layers of each pipeline stage.

    Equal parts; surplus layers go to the stages from the last but one backwards, because the last has the head and the
    first the embeddings.
    """
    sizes = [layers // stages] * stages
    for back in range(layers % stages):
        sizes[-2 - back] += 1
    ends = list(accumulate(sizes))
    return tuple(range(end - size, end) for size, end in zip(sizes, ends, strict=True))


_EMBEDDING_AND_HEAD = (
    *("gpt_oss", "mixtral", "nemotron_h", "qwen3_moe", "qwen3_next", "qwen3_vl_moe_text"),
    *("gemma3_text", "gemma4_text"),  # whose head is the embedding
)
_EMBEDDING = ("qwen3_5_moe_text", "qwen3_5_text")


def held_everywhere(model_type: str) -> frozenset[Place]:
    """What vLLM's class of a model type makes on each pipeline stage (vllm/model_executor/models, 0.33.0)."""
    if model_type in _EMBEDDING_AND_HEAD:
        return frozenset({Place.EMBEDDING, Place.HEAD})
    return frozenset({Place.EMBEDDING}) if model_type in _EMBEDDING else frozenset()
