"""llama.cpp's server process: one staged GGUF file, or the first of its shards, served under the repository's name."""

from components.pods.engine_process import EngineProcess
from components.pods.serving import Serving
from components.pods.staged_weights import StagedWeights

PORT = 8080


def process(weights: StagedWeights, serving: Serving, file: str) -> EngineProcess:
    """llama.cpp's server on one pod, with or without GPUs."""
    return EngineProcess(
        command=("/app/llama-server",),
        arguments=(
            *("--model", f"{weights.directory}/{file}"),
            *("--alias", weights.model.repository),
            *("--host", "0.0.0.0"),  # noqa: S104 - the pod's own network
            *("--port", str(PORT)),
            *serving.arguments,
        ),
        environment={"HF_HUB_OFFLINE": "1"},
        port=PORT,
    )
