"""The memory of a GGUF model under llama.cpp: layers over GPUs, or everything in host memory.

Each device holds the KV cache of its own layers, so memory divides by layers. The compute buffer is a range: with flash
attention it holds activations and the logits of a batch, without it the attention scores of the whole context too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from config.catalogue import Gpu, find_gpu
from config.checkpoint.model_spec import ModelSpec
from config.checkpoint.quantization import UNQUANTIZED
from config.checkpoint.shape import GroupedAttention, LatentAttention, Shape
from config.checkpoint.tensors import derived_groups
from config.units import GIB
from engines.request import FitRequest
from engines.rules.host import BASE_MEMORY

_UBATCH = 512
"""Tokens per compute batch, llama-server's default for --ubatch-size."""
_CONTEXT_BYTES = GIB // 2
"""CUDA context and library workspace on each GPU. Our own choice: llama.cpp's logs do not print it."""
_HIDDEN_COPIES = 8
"""Copies of the hidden state of a batch, in fp32, that the graph keeps alive. Our own choice: within 6% of the one
measured buffer (https://github.com/ollama/ollama/issues/5136)."""
_WORST_FACTOR = 2
"""How much larger than likely the compute buffer and the context may be. Our own choice: one measurement gives no
range."""
_CONTEXT_STEP = 256
"""Contexts are planned in multiples of this many tokens."""
_CPU_CONTEXT = 8192
"""Default context without a GPU: a CPU reads longer prompts too slowly to be useful."""

DEFAULT_CACHE_TYPE = "f16"
CACHE_BYTES = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
"""Bytes per element of llama.cpp's cache types (github.com/ggml-org/llama.cpp common/arg.cpp, ggml-common.h)."""


@dataclass(frozen=True, slots=True)
class GgufRequest:
    """A GGUF model of known shape and size, on GPUs or on the CPU."""

    request: FitRequest
    model: ModelSpec
    gpu: Gpu | None
    weights: int
    """Bytes of the files."""

    @property
    def devices(self) -> int:
        """Devices that share the layers."""
        return devices(self.request)

    @property
    def slots(self) -> int:
        """Requests at a time, which share the context."""
        return self.request.max_num_seqs or 1

    @property
    def cache_type(self) -> str:
        return self.request.kv_cache_dtype or DEFAULT_CACHE_TYPE

    @property
    def longest_of_model(self) -> int:
        """Tokens of all slots at the model's own maximum."""
        return self.model.shape.max_context * self.slots

    def with_experts_on_gpus(self) -> GgufRequest:
        """The same without expert offload."""
        return replace(self, request=replace(self.request, expert_offload=False))


def devices(request: FitRequest) -> int:
    """Devices that share the layers: all GPUs, or 1 for the CPU."""
    return request.nodes * request.gpus_per_node if request.gpu else 1


def gguf_request(request: FitRequest, model: ModelSpec, weights: int | None) -> GgufRequest | None:
    """The resolved request. None: its memory cannot be computed."""
    if weights is None or model.unknown or not model.is_gguf:
        return None
    resolved = GgufRequest(request, model, find_gpu(request.gpu) if request.gpu else None, weights)
    return resolved if resolved.cache_type in CACHE_BYTES else None


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on the fullest device."""

    weights: float
    cache: float
    compute_likely: float
    compute_worst: float

    @property
    def likely(self) -> float:
        return self.weights + self.cache + self.compute_likely

    @property
    def worst(self) -> float:
        return self.weights + self.cache + self.compute_worst


def cache_bytes_per_token(shape: Shape, cache_type: str = DEFAULT_CACHE_TYPE) -> int:
    """Bytes of one token over all layers. Latent attention keeps its latent vector; a sliding window counts as the
    whole context, and a linear layer keeps no tokens."""
    layers = sum(1 for kind in shape.layer_kinds if kind not in ("linear", "mamba", "none"))
    match shape.attention:
        case LatentAttention():
            elements = shape.attention.kv_rank + shape.attention.rope_dim
        case GroupedAttention():
            elements = 2 * shape.attention.kv_heads * shape.attention.head_dim
        case _:
            raise TypeError("a shape without a known attention has no KV cache")
    return round(layers * elements * CACHE_BYTES[cache_type])


def compute_buffer(shape: Shape, context_per_slot: int, *, flash: bool) -> float:
    """Bytes of the compute buffer: logits and activations of a batch, and without flash attention its scores, twice.

    github.com/ollama/ollama/issues/5136 measures 2,376 MiB without it for 16 heads and 32,768 tokens.
    """
    buffer = 4 * _UBATCH * (shape.vocabulary + _HIDDEN_COPIES * shape.hidden)
    return float(buffer if flash else buffer + 2 * 4 * _UBATCH * shape.heads * context_per_slot)


def device_need(resolved: GgufRequest, context: int) -> Need:
    """Bytes on the fullest device for a context over all slots."""
    shape = resolved.model.shape
    share = layers_on_device(resolved) / (shape.layers + 1)
    held = _held_on_gpus(resolved) if resolved.gpu else resolved.weights
    fixed = _CONTEXT_BYTES if resolved.gpu else 0
    buffer = compute_buffer(shape, ceil(context / resolved.slots), flash=True)
    return Need(
        weights=held * share,
        cache=cache_bytes_per_token(shape, resolved.cache_type) * context * share,
        compute_likely=buffer + fixed,
        compute_worst=_WORST_FACTOR * (buffer + fixed),
    )


def layers_on_device(resolved: GgufRequest) -> int:
    """Layers on the fullest device; the output counts as one more layer."""
    return ceil((resolved.model.shape.layers + 1) / resolved.devices)


def _held_on_gpus(resolved: GgufRequest) -> int:
    """Bytes of weights on the GPUs: all, or all but the experts, at 16 bits per weight at most."""
    shape = resolved.model.shape
    if not resolved.request.expert_offload or shape.experts is None or not shape.derivable:
        return resolved.weights
    others = [group for group in derived_groups(shape, UNQUANTIZED) if group.group != "routed_experts"]
    return min(resolved.weights, sum(group.bytes for group in others))


def planned_context(resolved: GgufRequest) -> int:
    """The context to serve, over all slots: as requested, else the longest that surely fits."""
    if resolved.request.max_model_len:
        return resolved.request.max_model_len
    if resolved.gpu is None:
        return min(resolved.model.shape.max_context, _CPU_CONTEXT)
    return longest_context(resolved) or resolved.longest_of_model


def longest_context(resolved: GgufRequest) -> int:
    """The longest context, at most the model's in each slot, that surely fits; 0: none."""
    most = resolved.longest_of_model
    if resolved.gpu is None or not most:
        return most
    empty, whole = device_need(resolved, 0).worst, device_need(resolved, most).worst
    left = (resolved.gpu.memory_bytes or 0) - empty
    if left <= 0:
        return 0
    per_token = (whole - empty) / most
    return min(most, int(left / per_token) // _CONTEXT_STEP * _CONTEXT_STEP)


def host_memory_of(resolved: GgufRequest, context: int) -> int:
    """Bytes of the container's memory: weights and cache outside the GPUs, and the server itself."""
    if resolved.gpu is None:
        return round(device_need(resolved, context).worst) + GIB
    return resolved.weights + BASE_MEMORY if resolved.request.expert_offload else BASE_MEMORY
