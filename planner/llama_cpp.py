"""The plan of a GGUF model under llama.cpp: layers split over GPUs, or everything in host memory.

A layer's KV cache lies where the layer lies, so memory divides by layers. The compute buffer is a range: with flash
attention it holds activations and the logits of a batch, without it the attention scores of the whole context too.
Experts go to host memory only where the stack says so; where they fit on the GPUs that is said to be needless and slow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from math import ceil

from config.catalogue import Gguf, Gpu, find_gpu
from planner.cost import cost_per_hour
from planner.durations import download_seconds, load_seconds
from planner.finding import Finding, rejected, unknown, warning
from planner.plan import Host, Layout, PerGpu, Plan
from planner.quantization import UNQUANTIZED
from planner.request import FitRequest
from planner.rules.engine import check_arguments
from planner.rules.host import BASE_MEMORY, check_disk, check_host, disk_bytes
from planner.shape import GroupedAttention, LatentAttention, Shape
from planner.subject import Subject
from planner.tensors import derived_groups
from planner.vllm import judge, problems_of, warnings_of

GIB = 2**30
_UBATCH = 512
"""Tokens per compute batch, llama-server's default for --ubatch-size."""
_CONTEXT_BYTES = GIB // 2
"""CUDA context and library workspace on each GPU."""
_CPU_CONTEXT = 8192
"""Context where none is asked for and no GPU is given: a processor reads longer prompts too slowly to be of use."""
_ALL_LAYERS = "999"
"""More layers than any model has: every build takes a number, while the meaning of -1 has changed."""

CACHE_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q4_0": 18 / 32}
"""Bytes per element of llama.cpp's cache types."""


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


def plan_llama_cpp(request: FitRequest, subject: Subject) -> Plan:
    """The plan of a GGUF model."""
    gpu = find_gpu(request.gpu) if request.gpu else None
    devices = request.nodes * request.gpus_per_node if gpu else 1
    weights = request.weights_bytes or subject.staged_bytes
    findings = [*_requested(request, subject), *check_arguments("llama.cpp", request.extra_args)]
    findings += [_not_known(subject, what) for what in subject.unknown]
    if gpu:
        text = "Which CUDA the image of llama.cpp carries is not known: whether the driver goes with it is not checked."
        findings.append(warning("image_cuda_not_known", text))
    need = None
    context = request.max_model_len or min(subject.shape.max_context, _CPU_CONTEXT)
    dtype = request.kv_cache_dtype or "f16"
    if weights is None:
        findings.append(unknown("weights_not_known", f"The size of {subject.name} is not known.", "Name a lock file."))
    elif subject.is_gguf and not subject.unknown and dtype in CACHE_BYTES:
        if request.max_model_len is None and gpu:
            context = _longest(request, subject, gpu, devices, weights)
        need = device_need(request, subject, devices, weights, context)
        findings += _memory_findings(request, subject, gpu, devices, weights, context)
    if weights is not None:
        findings += check_disk(request, weights)
        findings += check_host(request, 1, load_seconds(request, weights))
    return _assemble(request, subject, gpu, findings, need, context, weights)


def cache_bytes_per_token(shape: Shape, dtype: str = "f16") -> int:
    """Bytes of one token over all layers. Latent attention keeps its latent vector; a sliding window is counted as if
    it were the whole context, and a linear layer keeps no tokens."""
    layers = shape.layers - shape.layer_kinds.count("linear")
    match shape.attention:
        case LatentAttention():
            elements = shape.attention.kv_rank + shape.attention.rope_dim
        case GroupedAttention():
            elements = 2 * shape.attention.kv_heads * shape.attention.head_dim
        case _:
            raise TypeError("a shape without a known attention has no KV cache")
    return round(layers * elements * CACHE_BYTES[dtype])


def compute_buffer(shape: Shape, context_per_slot: int, *, flash: bool) -> float:
    """Bytes of the compute buffer: logits and activations of a batch, and without flash attention its scores, twice.

    github.com/ollama/ollama/issues/5136 measures 2,376 MiB without it for 16 heads and 32,768 tokens.
    """
    buffer = 4 * _UBATCH * (shape.vocabulary + 8 * shape.hidden)
    return float(buffer if flash else buffer + 2 * 4 * _UBATCH * shape.heads * context_per_slot)


def device_need(request: FitRequest, subject: Subject, devices: int, weights: int, context: int) -> Need:
    """What the fullest of the devices must hold."""
    shape = subject.shape
    dtype = request.kv_cache_dtype or "f16"
    # The output layer counts as one more layer.
    share = ceil((shape.layers + 1) / devices) / (shape.layers + 1)
    held = _held_on_gpus(request, subject, weights) if request.gpu else weights
    slots = request.max_num_seqs or 1
    fixed = _CONTEXT_BYTES if request.gpu else 0
    likely = compute_buffer(shape, ceil(context / slots), flash=True)
    return Need(
        weights=held * share,
        cache=cache_bytes_per_token(shape, dtype) * context * share,
        compute_likely=likely + fixed,
        compute_worst=2 * likely + 2 * fixed,
    )


def _held_on_gpus(request: FitRequest, subject: Subject, weights: int) -> int:
    """Bytes of weights on the GPUs: all, or what is left when the experts go, which is 16 bits per weight at most."""
    if not request.expert_offload or subject.shape.experts is None or not subject.shape.derivable:
        return weights
    groups = derived_groups(subject.shape, UNQUANTIZED)
    return min(weights, sum(group.bytes for group in groups if group.group != "routed_experts"))


def _requested(request: FitRequest, subject: Subject) -> Iterator[Finding]:
    if not subject.is_gguf:
        yield rejected(
            "not_gguf",
            f"{subject.name} is {subject.checkpoint.format}, and llama.cpp reads GGUF files.",
            "Use vLLM, or a GGUF conversion.",
        )
    elif request.engine != "llama.cpp":
        yield rejected("gguf_needs_llama_cpp", f"{subject.name} is GGUF.", "Set the engine to llama.cpp.")
    if request.nodes > 1:
        yield rejected("one_node_only", "llama.cpp is planned on one node only.", "Use one node, or vLLM over several.")
    dtype = request.kv_cache_dtype
    if dtype is not None and dtype not in CACHE_BYTES:
        expected = ", ".join(CACHE_BYTES)
        yield rejected("cache_type_not_known", f"kv_cache_dtype {dtype!r}: expected {expected}.", "Correct it.")
    if subject.checkpoint.gguf and request.include:
        yield from _shards(subject.checkpoint.gguf, request.include)


def _shards(gguf: Gguf, include: tuple[str, ...]) -> Iterator[Finding]:
    """Patterns that stage some shards of a set only (github.com/ggml-org/llama.cpp/issues/15164)."""
    names = [re.sub(r"-00001-of-", f"-{number:05}-of-", gguf.first_shard) for number in range(1, gguf.shards + 1)]
    missing = [name for name in names if not any(fnmatch(name, pattern) for pattern in include)]
    if missing:
        yield rejected(
            "shards_missing",
            f"The include patterns {', '.join(include)} stage {len(names) - len(missing)} of the {len(names)} shards "
            f"of {gguf.quantization}; {missing[0]} is missing.",
            f"Use a pattern for the whole set, such as {gguf.first_shard.split('/')[0]}/*.gguf.",
        )


def _not_known(subject: Subject, what: str) -> Finding:
    return unknown("model_not_known", f"{subject.name}: the planner does not know {what}.", "Give its directory.")


def _memory_findings(
    request: FitRequest, subject: Subject, gpu: Gpu | None, devices: int, weights: int, context: int
) -> Iterator[Finding]:
    most = subject.shape.max_context
    slots = request.max_num_seqs or 1
    if most and context / slots > most:
        yield rejected(
            "context_beyond_model",
            f"max_model_len {context:,} over {slots} slots is beyond the {most:,} tokens of {subject.name}.",
            f"Ask for {most * slots:,} at most.",
        )
    if gpu is None:
        yield from _host_holds(request, device_need(request, subject, 1, weights, context))
        return
    if gpu.memory_bytes is None:
        yield unknown("gpu_memory_not_known", f"The memory of {gpu.title} is in no public log.", "Name another GPU.")
        return
    need = device_need(request, subject, devices, weights, context)
    if need.likely > gpu.memory_bytes:
        yield rejected(
            "weights_do_not_fit" if need.weights > gpu.memory_bytes else "context_does_not_fit",
            f"{need.weights / GIB:.1f} GiB of weights and {need.cache / GIB:.1f} of KV cache for {context:,} tokens on "
            f"the fullest of {devices} GPUs, and {gpu.title} has {gpu.memory_bytes / GIB:.1f} GiB.",
        )
    yield from _offload(request, subject, gpu, devices, weights, context)


def _offload(
    request: FitRequest, subject: Subject, gpu: Gpu, devices: int, weights: int, context: int
) -> Iterator[Finding]:
    """Experts in host memory: slow always, needless where they fit."""
    offloads = request.expert_offload or any("exps" in argument for argument in request.extra_args)
    if not offloads:
        return
    whole = device_need(replace(request, expert_offload=False), subject, devices, weights, context)
    if whole.worst <= (gpu.memory_bytes or 0):
        yield warning(
            "expert_offload_not_needed",
            f"The experts go to host memory, and they fit on the GPUs: {whole.worst / GIB:.1f} GiB at the worst of "
            f"{gpu.title}'s {(gpu.memory_bytes or 0) / GIB:.1f} on each. Every token waits for the processor.",
        )
    else:
        yield warning("expert_offload_slow", "The experts go to host memory: every token waits for the processor.")


def _host_holds(request: FitRequest, need: Need) -> Iterator[Finding]:
    if request.host_memory_bytes is not None and need.likely > request.host_memory_bytes:
        yield rejected(
            "host_memory_too_small",
            f"Weights, KV cache and buffers take {need.likely / GIB:.1f} GiB of host memory; "
            f"{request.host_memory_bytes / GIB:.1f} are given.",
            f"Give {ceil(need.worst / GIB)} GiB, or ask for a shorter context.",
        )


def _longest(request: FitRequest, subject: Subject, gpu: Gpu, devices: int, weights: int) -> int:
    """The longest context, at most the model's in each slot, that surely fits on the GPUs."""
    slots = request.max_num_seqs or 1
    most = subject.shape.max_context * slots
    empty = device_need(request, subject, devices, weights, 0)
    whole = device_need(request, subject, devices, weights, most)
    left = (gpu.memory_bytes or 0) - empty.worst
    per_token = (whole.worst - empty.worst) / most if most else 0.0
    if left <= 0 or per_token <= 0:
        return most
    return max(_UBATCH, min(most, int(left / per_token) // 256 * 256))


def arguments(request: FitRequest, context: int) -> tuple[str, ...]:
    """Arguments of llama-server that follow from the plan; file, host and port are the server's business."""
    given = ["--ctx-size", str(context), "--parallel", str(request.max_num_seqs or 1)]
    if request.gpu:
        given += ["--gpu-layers", _ALL_LAYERS, "--split-mode", "layer", "--flash-attn", "on"]
    if request.expert_offload:
        given.append("--cpu-moe")
    if request.kv_cache_dtype:
        given += ["-ctk", request.kv_cache_dtype, "-ctv", request.kv_cache_dtype]
    return (*given, "--metrics", "--jinja", *request.extra_args)


def _assemble(
    request: FitRequest,
    subject: Subject,
    gpu: Gpu | None,
    findings: list[Finding],
    need: Need | None,
    context: int,
    weights: int | None,
) -> Plan:
    devices = request.nodes * request.gpus_per_node if gpu else 1
    tokens = None
    per_gpu = None
    if gpu:
        per_gpu, tokens = _per_gpu(request, subject, gpu, need, devices)
    memory = gpu.memory_bytes if gpu else request.host_memory_bytes
    tight = need is not None and memory is not None and need.worst > memory
    return Plan(
        verdict=judge(findings, tight=tight),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=Layout(pp=devices),
        per_gpu=per_gpu,
        kv_tokens=tokens if gpu else (context, context) if need else None,
        max_context=_max_context(request, subject, gpu, weights, need),
        weights_bytes=weights,
        disk_bytes=disk_bytes(weights, request.keep_revisions) if weights is not None else None,
        download_seconds=round(download_seconds(request, weights), 1) if weights is not None else None,
        load_seconds=round(load_seconds(request, weights), 1) if weights is not None else None,
        cost_per_hour_usd=cost_per_hour(request),
        engine_args=arguments(request, context),
        host=Host(memory_bytes=_host_memory(request, need, weights)),
    )


def _per_gpu(
    request: FitRequest, subject: Subject, gpu: Gpu, need: Need | None, devices: int
) -> tuple[PerGpu, tuple[int, int] | None]:
    if need is None or gpu.memory_bytes is None:
        return PerGpu(None, None, None, None, None), None
    layers = ceil((subject.shape.layers + 1) / devices)
    per_token = (
        cache_bytes_per_token(subject.shape, request.kv_cache_dtype or "f16") * layers // (subject.shape.layers + 1)
    )
    worst = max(0.0, gpu.memory_bytes - need.weights - need.compute_worst)
    likely = max(0.0, gpu.memory_bytes - need.weights - need.compute_likely)
    tokens = (int(worst // per_token), int(likely // per_token)) if per_token else None
    per_gpu = PerGpu(
        budget_gib=round(gpu.memory_bytes / GIB, 2),
        weights_gib=round(need.weights / GIB, 2),
        overhead_gib=(round(need.compute_likely / GIB, 2), round(need.compute_worst / GIB, 2)),
        kv_gib=(round(worst / GIB, 2), round(likely / GIB, 2)),
        kv_bytes_per_token=per_token,
    )
    return per_gpu, tokens


def _max_context(
    request: FitRequest, subject: Subject, gpu: Gpu | None, weights: int | None, need: Need | None
) -> int | None:
    if need is None or weights is None:
        return None
    if gpu is None:
        return subject.shape.max_context or None
    devices = request.nodes * request.gpus_per_node
    if device_need(request, subject, devices, weights, _UBATCH).worst > (gpu.memory_bytes or 0):
        return 0
    return _longest(request, subject, gpu, devices, weights)


def _host_memory(request: FitRequest, need: Need | None, weights: int | None) -> int | None:
    """Memory of the container: what is not on GPUs, and the server itself."""
    if request.gpu is None:
        return round(need.worst) + GIB if need else None
    if request.expert_offload and weights is not None:
        return weights + BASE_MEMORY
    return BASE_MEMORY
