"""llama.cpp's server process: one staged GGUF file, or the first of its shards, served under the repository's name."""

from __future__ import annotations

from pathlib import Path

from engines.process import DEREGISTRATION_SECONDS, EngineProcess, KeyedRequests, ProcessStart, Role

PORT = 8080
KEYED = KeyedRequests(variable="LLAMA_API_KEY", path="/v1/completions", header="X-Api-Key")
"""Every path but `/health` asks for the key (tried with the server of the lab)."""
DRAIN = Path(__file__).with_name("drain.sh")


def llama_cpp_process(start: ProcessStart, role: Role) -> EngineProcess:
    """llama.cpp's server on one pod, with or without GPUs.

    Raises ValueError without a file to serve, with a draft model, and for a member of a group: llama.cpp serves on one
    node only.
    """
    if start.model_file is None:
        raise ValueError("llama.cpp needs model_file: expected the GGUF file to serve")
    if role is not Role.ALONE:
        raise ValueError("llama.cpp serves on one node only")
    if start.draft_directory is not None:
        raise ValueError("llama.cpp serves without a draft model here: expected no draft")
    return EngineProcess(
        command=("/app/llama-server",),
        arguments=(
            *("--model", f"{start.directory}/{start.model_file}"),
            *("--alias", start.served_name),
            *("--host", start.host),
            *("--port", str(PORT)),
            *start.arguments,
        ),
        environment={"HF_HUB_OFFLINE": "1"},
        port=PORT,
        keyed=KEYED,
        pre_stop=_pre_stop(start.drain_seconds),
    )


def _pre_stop(drain_seconds: int) -> tuple[str, ...]:
    if not drain_seconds:
        return ()
    return ("sh", "-c", DRAIN.read_text(), "drain", str(DEREGISTRATION_SECONDS), str(PORT), str(drain_seconds))
