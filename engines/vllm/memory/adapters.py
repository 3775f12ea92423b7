"""Bytes that vLLM reserves on a GPU for LoRA adapters: two matrices beside each linear layer, for each adapter.

From `vllm/lora/layers` (0.33.0): the first matrix takes what the layer takes, the second gives what the layer gives. A
layer that is made of several, as queries, keys and values, has two matrices for each of them.
"""

from __future__ import annotations

from config.checkpoint.attention import CompressedAttention, GroupedAttention, LatentAttention, LinearAttention, Mamba
from config.checkpoint.quantization import MXFP4
from config.checkpoint.shape import Experts
from config.checkpoint.tensors import Place
from engines.vllm.memory.loading import padded_experts
from engines.vllm.memory.sharding import held_everywhere
from engines.vllm.resolved_request import ResolvedRequest

ADAPTER_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Ranks that vLLM takes (vllm/config/lora.py)."""

DEFAULT_ADAPTER_RANK = 16
_MOST_VOCABULARY = 258_048
"""Largest vocabulary whose head vLLM adapts (vllm/lora/layers/logits_processor.py)."""
_ELEMENT_BYTES = 2

_WITH_EMBEDDINGS = {
    *("llama", "llama4_text", "mixtral", "nemotron_h", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe"),
    *("qwen3_vl_moe_text", "qwen3_vl_text"),
}
"""Model types whose classes name embedding and head among their `embedding_modules`."""

_ADAPTED = _WITH_EMBEDDINGS | {
    *(
        "deepseek_v3",
        "deepseek_v32",
        "gemma3_text",
        "gemma4_text",
        "glm_moe_dsa",
        "gpt_oss",
        "kimi_k2",
        "minimax_m2",
        "mistral",
    ),
    *("qwen2", "qwen3_next"),
}
"""Model types whose adapters have a formula here."""

_FUSED_GATE = {"gpt_oss", "qwen3_5_moe_text", "qwen3_vl_moe_text"}
"""Model types whose experts have one first matrix for gate and up projection (`is_3d_moe_weight`)."""

_NOT_ADAPTED = {
    *("KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration", "MiMoV2FlashForCausalLM"),
    "MiniMaxM3SparseForConditionalGeneration",
}
"""Architectures whose classes in vLLM are not `SupportsLoRA`: all such of the catalogue and of the oracle's
configurations, by the bases of 0.33.0's classes.

Written by hand, as a class has the base from others in any of 400 files, of which `tests/oracle/release_facts.py` reads
none. One that is missing here is `unknown` unless its model type is in `_ADAPTED`, and the oracle asks vLLM about LoRA
for each of those but qwen2.
"""


def refuses_adapters(resolved: ResolvedRequest) -> bool:
    """Whether vLLM serves no adapters of the model."""
    return not _NOT_ADAPTED.isdisjoint(resolved.model.family.config.get("architectures") or ())


def can_adapt(resolved: ResolvedRequest) -> bool:
    """Whether what LoRA adapters take is known: a model type that vLLM's own code was asked about, with experts in 16
    or 8 bits or those of gpt-oss on compute capability 9.x, spread over tensor-parallel ranks alone."""
    layout, shape = resolved.layout, resolved.model.shape
    if resolved.model_type not in _ADAPTED or refuses_adapters(resolved):
        return False
    if resolved.model_type in _WITH_EMBEDDINGS and shape.vocabulary > _MOST_VOCABULARY:
        return False
    if shape.experts is None:
        return True
    if layout.dp > 1 or layout.pcp > 1 or resolved.request.redundant_experts is not None:
        return False
    scheme = resolved.model.expert_scheme
    return resolved.generation == 9 and (scheme.bits >= 8 or scheme is MXFP4)


def adapter_bytes(resolved: ResolvedRequest, layers: range) -> float:
    """Bytes of the adapters of a stage with these layers; 0: there are none, or they have no formula."""
    shape, loras = resolved.model.shape, resolved.request.max_loras
    if loras is None or not can_adapt(resolved):
        return 0.0
    elements = sum(_layer(resolved, layer) for layer in layers)
    if resolved.model_type in _WITH_EMBEDDINGS:
        first, last = layers.start == 0, layers.stop == shape.layers
        everywhere = held_everywhere(resolved.model_type)
        embedded = first or Place.EMBEDDING in everywhere or (last and shape.tied_embeddings)
        elements += (shape.vocabulary + shape.hidden) * (embedded + (last or Place.HEAD in everywhere))
    rank = resolved.request.max_lora_rank or DEFAULT_ADAPTER_RANK
    return loras * rank * elements * _ELEMENT_BYTES


def _beside(takes: float, *gives: float) -> float:
    """Elements for each unit of rank beside a linear layer, or beside several that take the same."""
    return len(gives) * takes + sum(gives)


def _layer(resolved: ResolvedRequest, layer: int) -> float:
    """Elements of a decoder layer for each unit of rank."""
    shape, tp = resolved.model.shape, resolved.layout.tp
    elements, network = _attention(resolved, layer), shape.networks[layer]
    if network in ("dense", "both"):
        width = shape.widths[layer] if shape.widths else shape.dense_width
        elements += _network(shape.hidden, width / tp, gated=shape.mamba is None)
    if network in ("experts", "both") and shape.experts:
        elements += _experts(resolved, shape.experts)
    return elements


def _attention(resolved: ResolvedRequest, layer: int) -> float:
    shape, tp = resolved.model.shape, resolved.layout.tp
    kind, attention = shape.layer_kinds[layer], shape.attention
    if kind == "none":
        return 0.0
    if kind == "linear" and shape.linear:
        return _linear_attention(shape.linear, shape.hidden, tp)
    if kind == "mamba" and shape.mamba:
        return _mamba(shape.mamba, shape.hidden, tp)
    match attention:
        case GroupedAttention():
            own = shape.windowed if kind == "sliding" and shape.windowed else attention
            return _grouped_attention(own, shape.hidden, tp)
        case LatentAttention():
            return _latent_attention(attention, shape.hidden, tp, layer)
        case CompressedAttention() | None:
            return 0.0


def _grouped_attention(attention: GroupedAttention, hidden: int, tp: int) -> float:
    heads, kv_heads = attention.heads / tp, max(1, attention.kv_heads // tp)
    value_dim = attention.value_dim or attention.head_dim
    query = heads * attention.head_dim * (2 if attention.gated else 1)
    projections = _beside(hidden, query, kv_heads * attention.head_dim, kv_heads * value_dim)
    return projections + _beside(heads * value_dim, hidden)


def _latent_attention(attention: LatentAttention, hidden: int, tp: int, layer: int) -> float:
    heads = attention.heads / tp
    query, latent = heads * (attention.nope_dim + attention.rope_dim), attention.kv_rank + attention.rope_dim
    if attention.q_rank:
        elements = _beside(hidden, attention.q_rank, latent) + _beside(attention.q_rank, query)
    else:
        elements = _beside(hidden, query) + _beside(hidden, latent)
    elements += _beside(attention.kv_rank, heads * (attention.nope_dim + attention.value_dim))
    elements += _beside(heads * attention.value_dim, hidden)
    if attention.indexer and attention.q_rank and layer in attention.indexer.layers:
        # The indexer's other projections are one layer, which vLLM does not adapt.
        elements += _beside(attention.q_rank, attention.indexer.heads * attention.indexer.head_dim)
    return elements


def _linear_attention(linear: LinearAttention, hidden: int, tp: int) -> float:
    key, value = linear.key_heads * linear.key_dim / tp, linear.value_heads * linear.value_dim / tp
    gates = linear.value_heads / tp
    projections = _beside(hidden, key, key, value, value) + _beside(hidden, gates, gates)
    return projections + _beside(linear.kernel, linear.channels / tp) + _beside(value, hidden)


def _mamba(mamba: Mamba, hidden: int, tp: int) -> float:
    inner, state = mamba.inner / tp, mamba.groups * mamba.state / tp
    convolution = _beside(mamba.kernel, inner, state, state)
    return convolution + _beside(hidden, inner, inner, state, state, mamba.heads / tp) + _beside(inner, hidden)


def _network(hidden: int, width: float, *, gated: bool) -> float:
    return _beside(hidden, *([width] * (2 if gated else 1))) + _beside(width, hidden)


def _experts(resolved: ResolvedRequest, experts: Experts) -> float:
    """The routed experts with what kernels pad, the shared ones, and the router."""
    shape, layout = resolved.model.shape, resolved.layout
    width, hidden = padded_experts(resolved, experts)
    local = experts.count / layout.ep
    gates = 2 if experts.gated else 1
    takes = 1 if resolved.model_type in _FUSED_GATE else gates
    elements = local * (takes * hidden + gates * width + width + hidden)
    if not shape.mamba:
        # The router of Nemotron-H is left out (vllm/lora/model_manager.py).
        elements += _beside(shape.hidden, experts.count)
    if experts.shared_width:
        elements += _network(shape.hidden, experts.shared_width / layout.tp, gated=experts.gated)
    return elements + (_beside(shape.hidden, 1) if experts.shared_gate else 0)
