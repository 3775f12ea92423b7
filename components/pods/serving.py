"""What the pods of a server are made from: the component's arguments, with what is unset filled in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pulumi

from components.arguments import ServerEngine, ServerPods, StartLimits
from config.engine_name import EngineName

_READY_SECONDS = 3600
"""Where the caller has no plan: the largest models load in a quarter of an hour, and limits should not fire early."""


@dataclass(frozen=True)
class Serving:
    """One server, or several alike."""

    engine: EngineName
    image: pulumi.Input[str]
    arguments: Sequence[str]
    """Arguments of the engine that follow from model and plan, the caller's own among them."""
    environment: Mapping[str, pulumi.Input[str]]
    """Environment of the engine that follows from model and plan, the caller's own among it."""
    model_file: str | None
    """The file to serve, for an engine that serves one file."""
    replicas: int
    """Servers."""
    nodes: int
    """Nodes of each server, one pod on each; more than 1: they are a group that starts and ends together."""
    gpus: int
    """GPUs of each pod."""
    cpus: int | None
    memory_request: str | None
    memory_limit: str | None
    shared_memory_bytes: int
    """Size of `/dev/shm`, in memory; 0: the container runtime's default."""
    collective_library: str | None
    """Library through which the ranks of a server talk; None: NCCL."""
    masked_directory: str | None
    """Directory of the image to be hidden under an empty volume; None: there is none."""
    engine_ready_seconds: int
    """The engine gives itself up after this long."""
    startup_period_seconds: int
    startup_failure_threshold: int
    """The startup probe's period, and how often it may fail."""
    await_seconds: int
    """`pulumi up` waits this long for a server."""
    termination_grace_seconds: int
    """A pod that is told to end is killed after this long."""

    @property
    def pods(self) -> int:
        """Pods of all servers."""
        return self.nodes * self.replicas

    @classmethod
    def of(cls, engine: ServerEngine, pods: ServerPods, limits: StartLimits) -> Self:
        """The server from a component's arguments."""
        period = limits.get("startup_period_seconds", 10)
        return cls(
            engine=EngineName(engine["name"]),
            image=engine["image"],
            arguments=engine.get("arguments", ()),
            environment=engine.get("environment", {}),
            model_file=engine.get("model_file"),
            replicas=pods.get("replicas", 1),
            nodes=pods.get("nodes_per_server", 1),
            gpus=pods.get("gpus_per_pod", 0),
            cpus=pods.get("cpus"),
            memory_request=pods.get("memory_request"),
            memory_limit=pods.get("memory_limit"),
            shared_memory_bytes=pods.get("shared_memory_bytes", 0),
            collective_library=pods.get("collective_library"),
            masked_directory=pods.get("masked_directory"),
            engine_ready_seconds=limits.get("engine_ready_seconds", _READY_SECONDS),
            startup_period_seconds=period,
            startup_failure_threshold=limits.get("startup_failure_threshold", (_READY_SECONDS + 60) // period),
            await_seconds=limits.get("await_seconds", _READY_SECONDS + 1800),
            termination_grace_seconds=limits.get("termination_grace_seconds", 60),
        )
