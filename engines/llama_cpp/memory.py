"""The memory of a GGUF model under llama.cpp: layers over GPUs, or everything in host memory.

Each device holds the tensors and the KV cache of its own layers, as `llama-model.cpp` hands them out; what stays in
host memory is stated in `engines.llama_cpp.placement`. The compute buffer is a range: with flash attention it holds
activations and the logits of a batch, without it the attention scores of the whole context too.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil

from config.catalogue import Gpu, find_gpu
from config.checkpoint.attention import GroupedAttention, LatentAttention
from config.checkpoint.gguf_tensors import (
    GgufTensor,
    derived_tensors,
    even_tensors,
    has_output,
    is_embedding,
    listed_tensors,
)
from config.checkpoint.model_spec import ModelSpec
from config.checkpoint.shape import Shape
from config.units import GIB
from engines.llama_cpp.placement import DEFAULT_UBATCH, Placement, placement_of
from engines.request import FitRequest
from engines.rules.host import BASE_MEMORY

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
_WINDOW_STEP = 256
"""The cache of a sliding window has a multiple of this many tokens (src/llama-kv-cache-iswa.cpp)."""
_CPU_CONTEXT = 8192
"""Default context without a GPU: a CPU reads longer prompts too slowly to be useful."""

DEFAULT_CACHE_TYPE = "f16"
CACHE_BYTES = {
    "f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32,
    "q4_0": 18 / 32, "iq4_nl": 18 / 32,
}  # fmt: skip
"""Bytes per element of llama.cpp's cache types (github.com/ggml-org/llama.cpp common/arg.cpp, ggml-common.h)."""


@dataclass(frozen=True, slots=True)
class Device:
    """What one device holds of the model."""

    weights: float
    full_layers: int
    """Layers whose cache has the whole context."""
    window_layers: int
    """Layers whose cache has a sliding window."""


@dataclass(frozen=True, slots=True)
class GgufRequest:
    """A GGUF model of known shape and size, on GPUs or on the CPU."""

    request: FitRequest
    model: ModelSpec
    gpu: Gpu | None
    weights: int
    """Bytes of the files."""
    placement: Placement
    held: tuple[Device, ...]
    """What each device holds: the GPUs in order, or the CPU."""
    in_host_memory: float
    """Bytes of weights that stay in host memory beside GPUs."""

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
        """The same with nothing in host memory."""
        placement = replace(self.placement, host_expert_layers=0, host_patterns=())
        return _placed(self.request, self.model, self.gpu, self.weights, placement)


def devices(request: FitRequest) -> int:
    """Devices that share the layers: all GPUs, or 1 for the CPU."""
    return request.nodes * request.gpus_per_node if request.gpu else 1


def gguf_request(request: FitRequest, model: ModelSpec, weights: int | None) -> GgufRequest | None:
    """The resolved request. None: its memory cannot be computed."""
    cache_type = request.kv_cache_dtype or DEFAULT_CACHE_TYPE
    if weights is None or model.unknown or not model.is_gguf or cache_type not in CACHE_BYTES:
        return None
    gpu = find_gpu(request.gpu) if request.gpu else None
    placement = placement_of(request)
    if request.expert_offload and model.shape.experts is None:
        placement = replace(placement, host_expert_layers=0)
    return _placed(request, model, gpu, weights, placement)


def _placed(request: FitRequest, model: ModelSpec, gpu: Gpu | None, weights: int, placement: Placement) -> GgufRequest:
    tensors = _tensors(model, weights, placement)
    if gpu is None:
        device = _device(weights, model.shape.layer_kinds)
        return GgufRequest(request, model, gpu, weights, placement, (device,), 0.0)
    held = tuple(_held(model.shape, tensors, placement, devices(request)))
    outside = sum(tensor.bytes for tensor in tensors) - sum(device.weights for device in held)
    return GgufRequest(request, model, gpu, weights, placement, held, max(0.0, outside))


def _tensors(model: ModelSpec, weights: int, placement: Placement) -> tuple[GgufTensor, ...]:
    """The tensors as the files list them, if they list every layer; else as the shape has them, else equal layers."""
    listed = listed_tensors(model.checkpoint.gguf_tensors)
    if {*range(model.shape.layers)} <= {tensor.layer for tensor in listed}:
        return listed
    if model.shape.derivable:
        return derived_tensors(model.shape, weights, at_most_16_bits=placement.uses_host)
    return even_tensors(model.shape.layers, weights)


def _held(shape: Shape, tensors: tuple[GgufTensor, ...], placement: Placement, count: int) -> Iterator[Device]:
    """What each of `count` GPUs holds. The output counts as one more layer, and the input stays in host memory."""
    owner = _owners(shape.layers, placement.split or (1.0,) * count)
    weights = [0.0] * max(count, *(index + 1 for index in owner))
    for tensor in tensors:
        index = owner[min(tensor.layer, shape.layers) if tensor.layer is not None else shape.layers]
        # Without an output of its own, the last device has a copy of the embedding.
        if is_embedding(tensor) and has_output(tensors):
            continue
        if tensor.layer is None or not placement.in_host_memory(tensor.layer, tensor.name):
            weights[index] += tensor.bytes
    for index, size in enumerate(weights):
        yield _device(size, [kind for layer, kind in enumerate(shape.layer_kinds) if owner[layer] == index])


def _device(weights: float, kinds: Sequence[str]) -> Device:
    return Device(weights, kinds.count("full"), kinds.count("sliding") + kinds.count("chunked"))


def _owners(layers: int, split: tuple[float, ...]) -> list[int]:
    """The GPU of each layer and, last, of the output: the first whose share of the proportions begins after it
    (src/llama-model.cpp get_layer_buft)."""
    ends = [end / sum(split) for end in accumulate(split)]
    return [min(bisect_right(ends, layer / (layers + 1)), len(split) - 1) for layer in range(layers + 1)]


@dataclass(frozen=True, slots=True)
class Need:
    """Bytes on a device."""

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


def cache_bytes_per_token(shape: Shape, cache_type: str = DEFAULT_CACHE_TYPE) -> float:
    """Bytes of one token in one layer. Latent attention keeps its latent vector."""
    match shape.attention:
        case LatentAttention():
            elements = shape.attention.kv_rank + shape.attention.rope_dim
        case GroupedAttention():
            elements = 2 * shape.attention.kv_heads * shape.attention.head_dim
        case _:
            raise TypeError("a shape without a known attention has no KV cache")
    return elements * CACHE_BYTES[cache_type]


def compute_buffer(shape: Shape, context_per_slot: int, *, flash: bool, ubatch: int = DEFAULT_UBATCH) -> float:
    """Bytes of the compute buffer: logits and activations of a batch, and without flash attention its scores, twice.

    github.com/ollama/ollama/issues/5136 measures 2,376 MiB without it for 16 heads and 32,768 tokens.
    """
    buffer = 4 * ubatch * (shape.vocabulary + _HIDDEN_COPIES * shape.hidden)
    return float(buffer if flash else buffer + 2 * 4 * ubatch * shape.heads * context_per_slot)


def device_need(resolved: GgufRequest, context: int) -> Need:
    """Bytes on the fullest device for a context over all slots."""
    shape = resolved.model.shape
    per_token = cache_bytes_per_token(shape, resolved.cache_type)
    windows = window_tokens(resolved, context)
    fixed = _CONTEXT_BYTES if resolved.gpu else 0
    buffer = compute_buffer(shape, ceil(context / resolved.slots), flash=True, ubatch=resolved.placement.ubatch)
    weights, cache = max(
        (
            (device.weights, per_token * (device.full_layers * context + device.window_layers * windows))
            for device in resolved.held
        ),
        key=sum,
    )
    return Need(
        weights=weights,
        cache=cache,
        compute_likely=buffer + fixed,
        compute_worst=_WORST_FACTOR * (buffer + fixed),
    )


def window_tokens(resolved: GgufRequest, context: int) -> int:
    """Tokens that the cache of a sliding window holds over all slots: the window and a batch, in each slot."""
    window = resolved.model.shape.window
    if not window or resolved.placement.whole_windows:
        return context
    each = ceil((window + resolved.placement.ubatch) / _WINDOW_STEP) * _WINDOW_STEP
    return min(context, each * resolved.slots)


def growth_per_token(resolved: GgufRequest) -> int:
    """Bytes of one token of a long context on the device whose cache grows most."""
    whole = resolved.placement.whole_windows
    layers = max(device.full_layers + (device.window_layers if whole else 0) for device in resolved.held)
    return round(layers * cache_bytes_per_token(resolved.model.shape, resolved.cache_type))


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
    memory = resolved.gpu.memory_bytes or 0
    if device_need(resolved, most).worst <= memory:
        return most
    # The need grows with the context: halve the range until one step is left.
    low, high = 0, most // _CONTEXT_STEP
    while low < high:
        middle = (low + high + 1) // 2
        if device_need(resolved, middle * _CONTEXT_STEP).worst <= memory:
            low = middle
        else:
            high = middle - 1
    return low * _CONTEXT_STEP


def host_memory_of(resolved: GgufRequest, context: int) -> int:
    """Bytes of the container's memory: weights and cache outside the GPUs, and the server itself."""
    if resolved.gpu is None:
        return round(device_need(resolved, context).worst) + GIB
    return resolved.weights + BASE_MEMORY if resolved.placement.uses_host else BASE_MEMORY
