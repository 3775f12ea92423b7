"""SGLang's process: the staged directory served under the repository's name, with no way to the network's hub.

Over several nodes it is SGLang's own start: every pod is told its rank and the leader's address, and rank 0 answers.
"""

from __future__ import annotations

from pathlib import Path

from engines.process import DEREGISTRATION_SECONDS, EngineProcess, KeyedRequests, Probe, ProcessStart, Role

PORT = 30000
RANKS_PORT = 25000
"""Port of the leader at which the ranks of a group meet: as SGLang's help has it."""
LAUNCH = Path(__file__).with_name("launch.sh")
CACHE_MOUNT = "/cache"
"""Writable place for compiled kernels and remote code; the weights are read-only."""
_CACHES = {
    "CUDA_CACHE_PATH": f"{CACHE_MOUNT}/cuda",
    "FLASHINFER_WORKSPACE_BASE": CACHE_MOUNT,
    "HF_HOME": f"{CACHE_MOUNT}/huggingface",
    "HOME": CACHE_MOUNT,
    "SGLANG_DG_CACHE_DIR": f"{CACHE_MOUNT}/deep_gemm",
    "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_MOUNT}/torchinductor",
    "TRITON_CACHE_DIR": f"{CACHE_MOUNT}/triton",
    "USER": "sglang",
    "XDG_CACHE_HOME": CACHE_MOUNT,
}
"""Where SGLang and its libraries write, for a user without a home."""
KEYED = KeyedRequests(
    variable="SGLANG_API_KEY",
    path="/health_generate",
    header=None,
    takes_prompt=False,
    open_paths=("/health_generate", "/metrics"),
)
"""SGLang asks for the key everywhere but below `/health`, `/ready` and `/metrics`, in the header `Authorization` only
(sglang/srt/utils/auth.py, 0.5.23)."""
_OWN_ADDRESS = {"SGLANG_HOST_IP": "status.podIP"}
"""Address under which the ranks of a group reach this pod (sglang/srt/utils/network.py)."""
_ANSWER_SECONDS = 25
"""`/health` computes a token and gives up after 20 s (entrypoints/http_server.py)."""
_LIVENESS = Probe(period_seconds=30, failure_threshold=3, timeout_seconds=_ANSWER_SECONDS)
_READINESS = Probe(period_seconds=30, failure_threshold=2, timeout_seconds=_ANSWER_SECONDS)
"""Our own choice: after a minute without an answer, the pod leaves the Service."""


def sglang_process(start: ProcessStart, role: Role) -> EngineProcess:
    """SGLang on the GPUs of one pod. Raises ValueError with a draft model."""
    if start.draft_directory is not None:
        raise ValueError("SGLang serves without a draft model here: expected no draft")
    # Without time to drain, SGLang ends at once; with it, it waits until no request runs, and the kubelet ends it
    # after the grace period (managers/tokenizer_manager.py `sigterm_watchdog`).
    at_once = {} if start.drain_seconds else {"SGL_FORCE_SHUTDOWN": "1"}
    return EngineProcess(
        command=("sh", "-c", LAUNCH.read_text(), "sglang"),
        arguments=(
            *("--model-path", start.directory),
            *("--served-model-name", start.served_name),
            *("--host", start.host),
            *("--port", str(PORT)),
            *start.arguments,
            *_group_arguments(start.nodes, role),
        ),
        environment={**_CACHES, **at_once, "HF_HUB_OFFLINE": "1"},
        port=PORT,
        keyed=KEYED,
        liveness=_LIVENESS,
        readiness=_READINESS,
        pod_fields={} if role is Role.ALONE else _OWN_ADDRESS,
        pre_stop=_pre_stop(start.drain_seconds, role),
        cache_directories={"cache": CACHE_MOUNT},
    )


def _pre_stop(drain_seconds: int, role: Role) -> tuple[str, ...]:
    """A pod that answers waits until no client sends it requests. Another rank ends when rank 0 tells it to
    (entrypoints/engine.py, 0.5.23)."""
    return ("sleep", str(DEREGISTRATION_SECONDS)) if drain_seconds and role is not Role.WORKER else ()


def _group_arguments(nodes: int, role: Role) -> tuple[str, ...]:
    """Rank and leader's address come from the environment that the LeaderWorkerSet controller sets in each pod."""
    if role is Role.ALONE:
        return ()
    leader = f"$(LWS_LEADER_ADDRESS):{RANKS_PORT}"
    return ("--nnodes", str(nodes), "--node-rank", "$(LWS_WORKER_INDEX)", "--dist-init-addr", leader)
