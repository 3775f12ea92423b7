"""Rules for parallel layouts: impossible and slow ones."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention
from engines.finding import Finding, rejected, unknown, warning
from engines.rules.layout import check_fabric, check_size
from engines.vllm.memory.sharding import stage_layers
from engines.vllm.resolved_request import ResolvedRequest

_VOCABULARY_PADDING = 64
"""vLLM pads the vocabulary to a multiple of this before it cuts it."""


def check_layout(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about the sizes of the parallel groups."""
    yield from check_size(resolved.layout, resolved.request)
    yield from _tensor(resolved)
    yield from _pipeline(resolved)
    yield from _context(resolved)
    yield from _prompts(resolved)
    yield from _experts(resolved)
    yield from _batch(resolved)


def _tensor(resolved: ResolvedRequest) -> Iterator[Finding]:
    heads, tp, vocabulary = resolved.model.shape.heads, resolved.layout.tp, resolved.model.shape.vocabulary
    if heads % tp:
        yield rejected(
            "heads_not_divisible",
            f"tensor_parallel {tp} does not divide the {heads} attention heads of the language model.",
            f"Use one of {_even_sizes(resolved)}.",
        )
    elif uneven := uneven_heads(resolved):
        yield rejected(
            "heads_not_divisible",
            f"tensor_parallel {tp} and the {uneven} of {resolved.model.name} do not divide one another: vLLM gives "
            "each rank the same number of heads, or each head to the same number of ranks.",
            f"Use one of {_even_sizes(resolved)}.",
        )
    padded = ceil(vocabulary / _VOCABULARY_PADDING) * _VOCABULARY_PADDING
    if padded % tp:
        yield rejected(
            "vocabulary_not_divisible",
            f"tensor_parallel {tp} does not divide the vocabulary of {padded} tokens, padded as vLLM does.",
            "Use a power of two.",
        )
    pods = resolved.pods
    spans_nodes = pods.nodes_per_server > 1 and pods.gpus_per_pod % tp > 0
    if spans_nodes and resolved.request.fabric not in ("infiniband", "roce"):
        yield warning(
            "tensor_parallel_across_nodes",
            f"tensor_parallel {tp} spans nodes with {pods.gpus_per_pod} GPUs each: every layer waits for the "
            "network. Pipeline parallelism between nodes sends far less data.",
        )


def uneven_heads(resolved: ResolvedRequest, tp: int | None = None) -> str:
    """The heads that tensor parallelism of that size, by default the layout's, cannot share evenly; empty: none.

    vLLM 0.33.0 divides in `QKVParallelLinear` (key and value heads may be copied, each as often) and in the linear
    attention of `mamba/gdn/qwen_gdn_linear_attn.py` (no copies). `mamba_mixer2.py` copies a single group only.
    """
    shape, tp = resolved.model.shape, tp or resolved.layout.tp
    if shape.heads % tp:
        return f"{shape.heads} attention heads"
    for attention in (shape.attention, shape.windowed):
        if isinstance(attention, GroupedAttention) and attention.kv_heads % tp and tp % attention.kv_heads:
            return f"{attention.kv_heads} key-value heads"
    if isinstance(shape.attention, CompressedAttention) and shape.attention.output_groups % tp:
        return f"{shape.attention.output_groups} groups of the attention's output"
    if shape.linear and (shape.linear.key_heads % tp or shape.linear.value_heads % tp):
        return f"{shape.linear.key_heads} key and {shape.linear.value_heads} value heads of the linear attention"
    if shape.mamba and (shape.mamba.heads % tp or (shape.mamba.groups % tp and shape.mamba.groups > 1)):
        return f"{shape.mamba.heads} heads in {shape.mamba.groups} groups of the Mamba layers"
    return ""


def _even_sizes(resolved: ResolvedRequest) -> str:
    sizes = range(1, resolved.gpus_present + 1)
    return ", ".join(str(size) for size in sizes if not uneven_heads(resolved, size))


def _divisors(number: int, *, most: int) -> str:
    return ", ".join(str(size) for size in range(1, most + 1) if number % size == 0)


def _pipeline(resolved: ResolvedRequest) -> Iterator[Finding]:
    layers, pp = resolved.model.shape.layers, resolved.layout.pp
    if layers and pp > layers:
        yield rejected(
            "too_many_stages", f"pipeline_parallel {pp} is more than the {layers} layers.", f"Use at most {layers}."
        )
    elif layers and not every_stage_grows(resolved):
        alone = f"{resolved.model.name} has no layer with full attention: what its cache takes is not known."
        several = (
            f"pipeline_parallel {pp} makes a stage without a full attention layer, whose cache has no known layout."
        )
        fix = "Use fewer stages." if pp > 1 else "Measure it on the machine."
        yield unknown("stage_without_full_attention", several if pp > 1 else alone, fix)
    elif not pools_are_known(resolved):
        text = f"pipeline_parallel {pp} and layers of two sizes: how vLLM shares its cache between them is not known."
        yield unknown("cache_of_stages_not_known", text, "Use one stage.")
    yield from check_fabric(resolved.request, resolved.pods)


def every_stage_grows(resolved: ResolvedRequest) -> bool:
    """Whether each pipeline stage has a layer whose cache grows with the context, as the layout of the pool needs."""
    kinds = resolved.model.shape.layer_kinds
    stages = stage_layers(resolved.model.shape.layers, resolved.layout.pp)
    return all(any(kinds[layer] == "full" for layer in layers) for layers in stages)


def pools_are_known(resolved: ResolvedRequest) -> bool:
    """Whether the layout of the pool is known: over several stages not if sliding layers have other heads, which vLLM
    groups over all stages together."""
    return resolved.layout.pp == 1 or resolved.model.shape.windowed is None


def _context(resolved: ResolvedRequest) -> Iterator[Finding]:
    tp, dcp, attention = resolved.layout.tp, resolved.layout.dcp, resolved.model.shape.attention
    if dcp == 1:
        return
    if tp % dcp:
        yield rejected(
            "context_parallel_not_divisor",
            f"decode_context_parallel {dcp} does not divide tensor_parallel {tp}.",
            f"Use one of {_divisors(tp, most=tp)}.",
        )
    mixed = resolved.model.shape.linear or resolved.model.shape.mamba or resolved.model.shape.window
    if mixed or isinstance(attention, CompressedAttention):
        yield unknown(
            "context_parallel_of_mixed_layers",
            f"decode_context_parallel {dcp} with layers of several kinds: its effect on the cache is not known.",
            "Leave it out.",
        )
    elif isinstance(attention, GroupedAttention) and dcp > max(1, tp // attention.kv_heads):
        most = max(1, tp // attention.kv_heads)
        yield rejected(
            "context_parallel_too_wide",
            f"decode_context_parallel {dcp} is more than tensor_parallel {tp} / {attention.kv_heads} key-value heads.",
            f"Use at most {most}.",
        )


_PROMPTS_WITH_GRAPHS = ("deepseek_v32", "glm_moe_dsa")
"""Model types with sparse attention whose prompts are shared between ranks while CUDA graphs are on."""


def _prompts(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Prompts that cannot be shared between ranks (vLLM 0.33.0, v1/worker/gpu/pcp_manager.py `validate_config`)."""
    shape, pcp = resolved.model.shape, resolved.layout.pcp
    if pcp == 1:
        return
    asked = f"prefill_context_parallel {pcp}"
    if isinstance(shape.attention, CompressedAttention):
        text = f"{asked} with the attention of {resolved.model.name}: its effect on the cache is not known."
        yield unknown("shared_prompts_not_known", text, "Leave it out.")
        return
    if not isinstance(shape.attention, LatentAttention):
        text = f"{asked}: vLLM shares prompts of models with latent attention (MLA) only."
        yield rejected("shared_prompts_without_latent_attention", text, "Leave it out.")
        return
    if shape.vision and not resolved.request.language_model_only:
        text = f"{asked}: vLLM shares no prompts with images."
        yield rejected("shared_prompts_with_images", text, "Set language_model_only, or leave it out.")
    if resolved.layout.dcp > 1:
        text = f"{asked} with decode_context_parallel {resolved.layout.dcp}: "
        if shape.attention.indexer is None:
            text += "vLLM takes both for models with sparse attention only."
            yield rejected("both_context_parallel", text, "Leave one of them out.")
        else:
            text += "their effect on the cache is not known."
            yield unknown("both_context_parallel_not_known", text, "Leave one of them out.")
    kind = resolved.model.family.config.get("model_type")
    if shape.attention.indexer and kind not in _PROMPTS_WITH_GRAPHS and not resolved.request.enforce_eager:
        text = f"{asked}: vLLM shares prompts of {resolved.model.name} without CUDA graphs only."
        yield rejected("shared_prompts_with_graphs", text, "Set enforce_eager, or leave it out.")


def _experts(resolved: ResolvedRequest) -> Iterator[Finding]:
    if resolved.request.expert_parallel and resolved.model.shape.experts is None:
        yield rejected(
            "no_experts",
            f"{resolved.model.name} has no experts for expert_parallel to distribute.",
            "Leave it out.",
        )
    yield from _balanced(resolved)


_BALANCED = {
    "deepseek_v2", "deepseek_v3", "deepseek_v32", "glm_moe_dsa", "kimi_k2", "mixtral", "qwen3_5_moe",
    "qwen3_5_moe_text", "qwen3_moe", "qwen3_next", "qwen3_vl_moe", "qwen3_vl_moe_text",
}  # fmt: skip
"""Model types whose classes implement `MixtureOfExperts` (vLLM 0.33.0, model_executor/models)."""

_UNBALANCED_METHODS = ("awq", "gptq")
"""Methods whose experts do not say `supports_eplb` (vLLM 0.33.0, layers/quantization)."""


def _balanced(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Experts that are balanced by load (vLLM 0.33.0, config/parallel.py and fused_moe/layer.py)."""
    copies, experts, ranks = resolved.request.redundant_experts, resolved.model.shape.experts, resolved.layout.ep
    if copies is None or experts is None:
        return
    total = experts.count + copies
    if ranks == 1:
        text = "redundant_experts balances experts between ranks, and expert_parallel spreads them over one."
        yield rejected("experts_not_spread", text, "Set expert_parallel with more than one rank, or leave it out.")
    elif total % ranks:
        yield rejected(
            "redundant_experts_not_even",
            f"{experts.count} experts and {copies} copies are {total}, which {ranks} ranks cannot share evenly.",
            f"Set redundant_experts to {copies + -total % ranks}.",
        )
    kind, method = str(resolved.model.family.config.get("model_type")), resolved.model.quantization.method
    if kind not in _BALANCED or method in _UNBALANCED_METHODS:
        text = (
            f"Whether vLLM balances experts of {resolved.model.name} ({kind}, {method or 'unquantised'}) is not known."
        )
        yield unknown("balancing_not_known", text, "Leave redundant_experts out.")


def _batch(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Fewer tokens in a batch than requests, each of which takes one (vLLM 0.33.0, config/scheduler.py)."""
    tokens, sequences = resolved.batched_tokens, resolved.sequences
    if tokens < sequences:
        yield rejected(
            "batch_below_sequences",
            f"max_num_batched_tokens {tokens:,} is less than max_num_seqs {sequences:,}, with "
            "which vLLM does not start.",
            f"Set max_num_batched_tokens to {sequences} or more, or max_num_seqs to {tokens} or less.",
        )
