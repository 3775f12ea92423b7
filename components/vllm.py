"""vLLM's process: the staged directory served under the repository's name, with no way to the network's hub."""

from components.engine_process import EngineProcess
from components.serving import Serving
from components.staged_weights import StagedWeights

PORT = 8000
CACHE_MOUNT = "/cache"
"""Writable place for compiled kernels and remote code; the weights are read-only."""


def process(weights: StagedWeights, serving: Serving) -> EngineProcess:
    """vLLM on the GPUs of one pod."""
    return EngineProcess(
        command=("vllm", "serve", weights.directory),
        arguments=(
            *("--served-model-name", weights.model.repository),
            *("--host", "0.0.0.0"),  # noqa: S104 - the pod's own network
            *("--port", str(PORT)),
            *serving.arguments,
        ),
        environment={
            "HF_HOME": f"{CACHE_MOUNT}/huggingface",
            "HF_HUB_OFFLINE": "1",
            "VLLM_CACHE_ROOT": f"{CACHE_MOUNT}/vllm",
            "VLLM_ENGINE_READY_TIMEOUT_S": str(serving.engine_ready_seconds),
        },
        port=PORT,
    )
