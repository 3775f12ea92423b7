"""llama.cpp's server process: one staged GGUF file, or the first of its shards, served under the repository's name."""

from __future__ import annotations

from engines.process import EngineProcess, ProcessStart, Role

PORT = 8080


def llama_cpp_process(start: ProcessStart, role: Role) -> EngineProcess:
    """llama.cpp's server on one pod, with or without GPUs.

    Raises ValueError without a file to serve, and for a member of a group: llama.cpp serves on one node only.
    """
    if start.model_file is None:
        raise ValueError("llama.cpp needs model_file: expected the GGUF file to serve")
    if role is not Role.ALONE:
        raise ValueError("llama.cpp serves on one node only")
    return EngineProcess(
        command=("/app/llama-server",),
        arguments=(
            *("--model", f"{start.directory}/{start.model_file}"),
            *("--alias", start.served_name),
            *("--host", "0.0.0.0"),  # noqa: S104 - the pod's own network
            *("--port", str(PORT)),
            *start.arguments,
        ),
        environment={"HF_HUB_OFFLINE": "1"},
        port=PORT,
    )
