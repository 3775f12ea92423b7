"""vLLM's process: the staged directory served under the repository's name, with no way to the network's hub.

Over several nodes it is vLLM's own multi-node start, without Ray: every pod is told its rank and the leader's address,
and all but the leader are headless. vLLM 0.33 derives the ranks of tensor, pipeline and data parallelism from that.
"""

from __future__ import annotations

from pathlib import Path

from engines.process import (
    DEREGISTRATION_SECONDS,
    EXIT_SECONDS,
    EngineProcess,
    KeyedRequests,
    ProcessStart,
    Role,
    termination_grace_seconds,
)

PORT = 8000
WAIT_FOR_LEADER = Path(__file__).with_name("wait_for_leader.py")
CACHE_MOUNT = "/cache"
"""Writable place for compiled kernels and remote code; the weights are read-only."""
KEPT_MOUNT = "/kept-cache"
"""The same for what is compiled and tuned, if it outlives the pod. vLLM runs what it finds there without a check
(docs.vllm.ai, "Security", "Cache Directory Security")."""
_CACHES = {
    "HF_HOME": f"{CACHE_MOUNT}/huggingface",
    "HOME": CACHE_MOUNT,
    "USER": "vllm",
    "XDG_CACHE_HOME": CACHE_MOUNT,
}
"""Where vLLM and its libraries write, for a user without a home and an entry in the image's passwd
(github.com/vllm-project/vllm/pull/38552 lists the directories; torch asks for the user's name:
github.com/kserve/kserve/issues/5666)."""
_COMPILED = {
    "CUDA_CACHE_PATH": "/cuda",
    "FLASHINFER_WORKSPACE_BASE": "",
    "TORCHINDUCTOR_CACHE_DIR": "/torchinductor",
    "TRITON_CACHE_DIR": "/triton",
    "VLLM_CACHE_ROOT": "/vllm",
}
"""Where they write what they compile and tune, below one of the two. FlashInfer's tuning is in `VLLM_CACHE_ROOT` from
vLLM 0.33 on."""
KEYED = KeyedRequests(
    variable="VLLM_API_KEY",
    path="/invocations",
    header=None,
    open_paths=(
        "/invocations",
        "/generative_scoring",
        "/tokenize",
        "/detokenize",
        "/scale_elastic_ep",
        "/metrics",
        "/docs",
    ),
)
"""vLLM asks for the key below `/v1` and `/inference` only (0.32.0 on a CPU, `tests/data/vllm`)."""
_OWN_ADDRESS = {"VLLM_HOST_IP": "status.podIP"}
"""Address under which the ranks of a group reach this pod. Left to itself vLLM takes that of the route to the internet,
and loopback where there is none."""


def vllm_process(start: ProcessStart, role: Role) -> EngineProcess:
    """vLLM on the GPUs of one pod."""
    compiled = KEPT_MOUNT if start.keeps_cache else CACHE_MOUNT
    return EngineProcess(
        command=("vllm", "serve", start.directory),
        arguments=(
            *("--served-model-name", start.served_name),
            *("--host", start.host),
            *("--port", str(PORT)),
            *(("--spec-model", start.draft_directory) if start.draft_directory else ()),
            *start.arguments,
            *_group_arguments(start.nodes, role),
        ),
        environment={
            **_CACHES,
            **{variable: f"{compiled}{below}" for variable, below in _COMPILED.items()},
            "HF_HUB_OFFLINE": "1",
            "VLLM_ENGINE_READY_TIMEOUT_S": str(start.ready_seconds),
        },
        port=PORT,
        keyed=KEYED,
        pod_fields={} if role is Role.ALONE else _OWN_ADDRESS,
        pre_stop=_pre_stop(start.drain_seconds, role),
        cache_directories={"cache": CACHE_MOUNT},
        kept_cache=KEPT_MOUNT if start.keeps_cache else None,
    )


def _pre_stop(drain_seconds: int, role: Role) -> tuple[str, ...]:
    """A pod that answers waits until no client sends it requests; vLLM itself then drains by `--shutdown-timeout`."""
    if not drain_seconds:
        return ()
    if role is Role.WORKER:
        seconds = termination_grace_seconds(drain_seconds) - EXIT_SECONDS
        return ("python3", "-c", WAIT_FOR_LEADER.read_text(), str(PORT), str(seconds))
    return ("sleep", str(DEREGISTRATION_SECONDS))


def _group_arguments(nodes: int, role: Role) -> tuple[str, ...]:
    """Rank and leader's address come from the environment that the LeaderWorkerSet controller sets in each pod."""
    if role is Role.ALONE:
        return ()
    arguments = ("--nnodes", str(nodes), "--node-rank", "$(LWS_WORKER_INDEX)", "--master-addr", "$(LWS_LEADER_ADDRESS)")
    return (*arguments, "--headless") if role is Role.WORKER else arguments
