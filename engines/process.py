"""The engine's process in a pod: command, environment, port and probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto


class Role(Enum):
    """The role of a pod in its server."""

    ALONE = auto()
    """The only pod of its server."""
    LEADER = auto()
    """The first pod of a group, which answers all requests."""
    WORKER = auto()
    """Another pod of the group, which answers no requests."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """The input of a process, the same for every pod of a server."""

    directory: str
    """Directory of the staged weights, read-only."""
    served_name: str
    """Name of the model in clients' requests."""
    host: str
    """Address that the engine listens on."""
    model_file: str | None
    """File within the directory, for an engine that serves one file."""
    arguments: Sequence[str]
    """Arguments from the model and the plan, including the stack's own."""
    nodes: int
    """Nodes of the server, one pod on each."""
    ready_seconds: int
    """The timeout for an engine with its own ready timeout."""
    drain_seconds: int
    """Time for running requests to finish when a pod terminates. 0: none."""
    draft_directory: str | None = None
    """Directory of the staged draft model, read-only. None: no draft model."""
    keeps_cache: bool = False
    """Whether the pod mounts a directory for what the engine compiles, which outlives it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A Kubernetes probe."""

    period_seconds: int
    failure_threshold: int
    timeout_seconds: int = 10


DEREGISTRATION_SECONDS = 15
"""Time until no client sends a request to a terminating pod, because its endpoint is removed while it terminates
(github.com/kserve/kserve/pull/5485)."""

EXIT_SECONDS = 30
"""Time for an idle engine to exit. A vLLM on a CPU takes 9 s. Our own choice."""


def termination_grace_seconds(drain_seconds: int) -> int:
    """Time for a pod to terminate before the kubelet kills it."""
    return (DEREGISTRATION_SECONDS + drain_seconds if drain_seconds else 0) + EXIT_SECONDS


LIVENESS = Probe(period_seconds=30, failure_threshold=3)
"""Our own choice: an engine with a long prompt answers late, and a restart loads all weights again."""

READINESS = Probe(period_seconds=10, failure_threshold=3)
"""Our own choice: after 30 s without an answer, the pod leaves the Service."""


@dataclass(frozen=True, slots=True)
class KeyedRequests:
    """How an engine takes its API key, and how to request a completion through the API server's proxy, which removes
    the header `Authorization` (k8s.io/apiserver, filters/authentication.go)."""

    variable: str
    """Environment variable with the key."""
    path: str
    """Path that completes a prompt by POST, as `/v1/completions` does, unless it takes no prompt."""
    header: str | None
    """Header with the key. None: the path needs no key."""
    takes_prompt: bool = True
    """False: a GET of the path computes a token of no given prompt, and answers with its status only."""
    open_paths: Sequence[str] = ()
    """Paths that answer without the key and compute, or show what is served."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """One engine's command line, environment and port."""

    command: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    port: int
    """Port on which the engine answers HTTP."""
    keyed: KeyedRequests
    health_path: str = "/health"
    """Path that answers 200 as soon as the engine can take requests. The startup probe uses it, too; the plan sets
    its time limit."""
    liveness: Probe = LIVENESS
    readiness: Probe = READINESS
    pod_fields: Mapping[str, str] = field(default_factory=dict)
    """Further environment from the pod's own fields: name of the variable to path of the field."""
    pre_stop: Sequence[str] = ()
    """Command in the engine's container before it gets SIGTERM. Empty: none."""
    cache_directories: Mapping[str, str] = field(default_factory=dict)
    """Writable directories that the engine needs, empty at each start: name to mount path."""
    kept_cache: str | None = None
    """Mount path of the directory that outlives the pod. None: the process has none."""
