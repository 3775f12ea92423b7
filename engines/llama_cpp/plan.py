"""Plans a GGUF model for llama.cpp.

All layers and experts are placed on the GPUs. Experts go to host memory only if the stack says so, with a warning if
they would fit on the GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import Gpu, described_gpu, engine_facts
from config.checkpoint.model_spec import ModelSpec
from config.engine_name import EngineName
from config.units import GIB
from engines.finding import Finding
from engines.llama_cpp.flags import FLAGS
from engines.llama_cpp.memory import (
    GgufRequest,
    device_need,
    devices,
    gguf_request,
    growth_per_token,
    host_memory_of,
    longest_context,
    planned_context,
)
from engines.llama_cpp.placement import check_placement
from engines.llama_cpp.rules import (
    check_cache,
    check_draft,
    check_gguf_memory,
    check_gguf_request,
    check_node,
    unknown_quantization,
)
from engines.llama_cpp.served_file import check_served_file, served_file
from engines.logistics import with_logistics
from engines.plan import Host, Layout, PerGpu, Plan, Pods
from engines.request import FitRequest
from engines.rules.arguments import check_arguments
from engines.rules.deployment import check_pods, pods_of
from engines.rules.driver import Compatibility, driver_compatibility, image_of
from engines.rules.host import BASE_MEMORY
from engines.rules.machine import check_machine
from engines.rules.unused import check_unused
from engines.verdict import judge, problems_of, warnings_of
from engines.versions import Version

MISSING_SETTINGS = frozenset(
    {
        "tensor_parallel",
        "pipeline_parallel",
        "data_parallel",
        "expert_parallel",
        "prefill_context_parallel",
        "decode_context_parallel",
        "max_num_batched_tokens",
        "gpu_memory_utilization",
        "block_size",
        "quantization",
        "mm_encoder_tp_mode",
        "language_model_only",
        "available_kv_gib",
        "max_loras",
        "max_lora_rank",
        "speculative_tokens",
        "yarn_factor",
        "yarn_original_context",
        "enforce_eager",
        "redundant_experts",
        "cpu_offload_gb",
        "kv_offload",
        "load_format",
        "max_num_queued_reqs",
    }
)
"""Fields of the request that llama.cpp has no setting for."""

_START_SECONDS = 15.0
"""From weights read to first answer; llama.cpp compiles nothing. Our own choice: no public log states it."""

_ALL_LAYERS = "999"
"""More layers than any model has: every build accepts a number; the meaning of -1 has changed."""


def plan_llama_cpp(request: FitRequest, model: ModelSpec) -> Plan:
    """The plan of a GGUF model."""
    if why := unknown_quantization(request, model):
        return plan_unknown_model(request, why)
    weights = request.weights_bytes or model.staged_bytes
    findings = [*check_gguf_request(request, model, weights), *_check_request(request, weights)]
    if judge(findings, tight=False) != "rejected":
        # Patterns that stage no model are rejected above, so the file to serve is not checked.
        findings += check_served_file(request)
    resolved = gguf_request(request, model, weights)
    if resolved is None:
        plan = _without_memory(request, findings)
    else:
        context = planned_context(resolved)
        findings += check_gguf_memory(resolved, context)
        plan = _plan(resolved, findings, context)
    return with_logistics(plan, request, weights, _START_SECONDS)


def plan_unknown_model(request: FitRequest, why: Finding) -> Plan:
    """The plan of an unknown model: only what the request sets, without memory."""
    findings = [why, *check_node(request), *_check_request(request, request.weights_bytes)]
    findings += check_served_file(request)
    return with_logistics(_without_memory(request, findings), request, request.weights_bytes, _START_SECONDS)


def _check_request(request: FitRequest, weights: int | None) -> Iterator[Finding]:
    """Findings about everything but the model itself."""
    yield from check_unused(request, MISSING_SETTINGS)
    yield from check_draft(request)
    yield from check_cache(request)
    yield from check_arguments(FLAGS, request.extra_args)
    yield from check_placement(request)
    if request.gpu:
        version = request.engine_version or engine_facts(EngineName.LLAMA_CPP).default_version
        yield from llama_cpp_compatibility(version, request.driver, described_gpu(request.gpu)).findings
    yield from check_pods(request, _gpus(request))
    # One process serves from all GPUs of the pod.
    yield from check_machine(request, FLAGS, _pods(request), weights, ranks=1, start_seconds=_START_SECONDS)


def _gpus(request: FitRequest) -> int:
    """GPUs of the server: all of one node, over which it spreads the layers."""
    return request.gpus_per_node if request.gpu else 0


def _pods(request: FitRequest) -> Pods:
    return pods_of(_gpus(request), request.gpus_per_node)


def llama_cpp_compatibility(version: str, driver: str | None, gpu: Gpu) -> Compatibility:
    """Settings and findings for the nodes' driver and the image of a build."""
    image = image_of(EngineName.LLAMA_CPP, version, _build)
    return driver_compatibility(image, f"llama.cpp {version}", driver, gpu)


def _build(version: str) -> Version:
    """The number of a build of llama.cpp, such as 10920 of `b10920`. Raises ValueError for a commit."""
    return Version(int(version.removeprefix("b")), 0, 0)


def _without_memory(request: FitRequest, findings: list[Finding]) -> Plan:
    total = request.max_model_len
    return Plan(
        verdict=judge(findings, tight=False),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=Layout(pp=devices(request)),
        pods=_pods(request),
        per_gpu=PerGpu(None, None, None, None, None) if request.gpu else None,
        context=None if total is None else total // (request.max_num_seqs or 1),
        engine_args=requested_llama_arguments(request),
        host=Host(memory_bytes=BASE_MEMORY if request.gpu else None),
        model_file=served_file(request),
    )


def _plan(resolved: GgufRequest, findings: list[Finding], context: int) -> Plan:
    need = device_need(resolved, context)
    memory = resolved.gpu.memory_bytes if resolved.gpu else resolved.request.host_memory_bytes
    return Plan(
        verdict=judge(findings, tight=memory is not None and need.worst > memory),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=Layout(pp=resolved.devices),
        pods=_pods(resolved.request),
        per_gpu=_per_gpu(resolved, context) if resolved.gpu else None,
        kv_tokens=_kv_tokens(resolved, context),
        context=context // resolved.slots,
        max_concurrency=(float(resolved.slots), float(resolved.slots)),
        max_context=longest_context(resolved) // resolved.slots,
        engine_args=llama_arguments(resolved.request, context, resolved.slots),
        host=Host(memory_bytes=host_memory_of(resolved, context)),
        model_file=served_file(resolved.request),
        sequences=resolved.slots,
    )


def _per_gpu(resolved: GgufRequest, context: int) -> PerGpu:
    """The fullest GPU; without known memory, what it must hold."""
    need, memory = device_need(resolved, context), resolved.gpu.memory_bytes if resolved.gpu else None
    per_token = growth_per_token(resolved)
    if memory is None:
        return PerGpu(None, round(need.weights / GIB, 2), None, None, per_token)
    worst, likely = _left(resolved, context, memory)
    return PerGpu(
        budget_gib=round(memory / GIB, 2),
        weights_gib=round(need.weights / GIB, 2),
        overhead_gib=(round(need.compute_likely / GIB, 2), round(need.compute_worst / GIB, 2)),
        kv_gib=(round(worst / GIB, 2), round(likely / GIB, 2)),
        kv_bytes_per_token=per_token,
    )


def _left(resolved: GgufRequest, context: int, memory: int) -> tuple[float, float]:
    """Bytes left for the cache: [worst, likely]."""
    need = device_need(resolved, context)
    left = memory - need.weights
    return max(0.0, left - need.compute_worst), max(0.0, left - need.compute_likely)


def _kv_tokens(resolved: GgufRequest, context: int) -> tuple[int, int] | None:
    """Tokens that fit on the GPUs: [worst, likely]; without GPUs, the context. None: not known."""
    if resolved.gpu is None:
        return context, context
    if resolved.gpu.memory_bytes is None:
        return None
    worst, likely = _left(resolved, context, resolved.gpu.memory_bytes)
    per_token = growth_per_token(resolved)
    return (int(worst // per_token), int(likely // per_token)) if per_token else None


def llama_arguments(request: FitRequest, context: int | None, slots: int | None) -> tuple[str, ...]:
    """Arguments of llama-server. The server adds file, host and port."""
    given: list[str] = []
    for flag, value in (("--ctx-size", context), ("--parallel", slots)):
        given += [flag, str(value)] if value else []
    if request.gpu:
        given += ["--gpu-layers", _ALL_LAYERS, "--split-mode", "layer", "--flash-attn", "on"]
    if request.expert_offload:
        given.append("--cpu-moe")
    if request.sleep_idle_seconds:
        given += ["--sleep-idle-seconds", str(request.sleep_idle_seconds)]
    if request.kv_cache_dtype:
        given += ["-ctk", request.kv_cache_dtype, "-ctv", request.kv_cache_dtype]
    return (*given, "--metrics", "--jinja", *request.extra_args)


def requested_llama_arguments(request: FitRequest) -> tuple[str, ...]:
    """Arguments for an unknown model: only what the request sets."""
    return llama_arguments(request, request.max_model_len, request.max_num_seqs)
