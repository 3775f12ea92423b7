"""Rules that every engine has for a request without its model: image, environment, disk, host memory, time to start."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import described_gpu
from config.checkpoint.model_spec import ModelSpec
from engines.finding import Finding, rejected
from engines.logistics import load_seconds
from engines.plan import Host, Pods
from engines.request import FitRequest
from engines.rules.arguments import FlagRules, check_environment
from engines.rules.deployment import check_volume_size, check_zone
from engines.rules.host import (
    check_disk,
    check_host,
    check_instance_disk,
    host_memory_bytes,
    kept_in_host_memory,
    shared_memory_bytes,
)
from engines.rules.image import check_image
from engines.rules.vulnerabilities import check_vulnerabilities


def check_machine(
    request: FitRequest,
    flags: FlagRules,
    pods: Pods,
    weights: int | None,
    *,
    ranks: int,
    start_seconds: float,
    kv_offload: int = 0,
) -> Iterator[Finding]:
    """Findings about everything of the server's machine but its GPUs.

    `weights`: bytes to stage, None if they are not known. `ranks`: processes of the engine in one pod.
    `start_seconds`: from weights read to the first answer. `kv_offload`: bytes of KV cache in `/dev/shm` of one pod.
    """
    yield from check_image(request, pods.nodes_per_server)
    yield from check_vulnerabilities(request)
    yield from check_environment(flags, request.deployment.environment if request.deployment else ())
    yield from check_zone(request)
    yield from check_volume_size(request, weights)
    if weights is not None:
        yield from check_disk(request, weights)
        yield from check_instance_disk(request, weights)
        loading = load_seconds(request, weights, start_seconds)
        yield from check_host(request, ranks, pods.nodes_per_server, loading, kv_offload)


def needs_llama_cpp(model: ModelSpec) -> Finding:
    """Rejects a GGUF model under an engine that reads safetensors."""
    return rejected("gguf_needs_llama_cpp", f"{model.name} is GGUF.", "Set the engine to llama.cpp.")


def needs_gpu(engine: str) -> Finding:
    """Rejects a request without GPUs; `engine`: such as `vLLM`."""
    fix = "Name one (nodes.gpu and nodes.gpus_per_node of a stack)."
    return rejected("gpu_needed", f"{engine} serves from GPUs, and no GPU is given.", fix)


def host_of_ranks(request: FitRequest, pods: Pods, masked_directory: str | None = None, kv_offload: int = 0) -> Host:
    """What a pod with one process per GPU needs beside them; nothing is known of a pod without any."""
    gpus, shared = pods.gpus_per_pod, request.shared_memory_bytes
    if shared is None:
        shared = shared_memory_bytes(gpus, pods.nodes_per_server, kv_offload)
    memory = host_memory_bytes(gpus, shared) + kept_in_host_memory(request, gpus) if gpus else None
    library = described_gpu(request.gpu).vendor.collective_library if request.gpu else None
    return Host(shared, memory, library, masked_directory)
