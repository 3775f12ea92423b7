"""The arguments of `InferenceServer` with every default filled in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pulumi

from components.arguments import ServerEngine, ServerPods, StartLimits
from config.engine_name import EngineName

_READY_SECONDS = 3600
"""Default for callers without a plan. The largest models load in 15 minutes, and a limit must not expire too early."""

_WEIGHTS_SECONDS = 24 * 3600
"""Default for callers without a plan, as for the deadline of a stage Job."""


@dataclass(frozen=True)
class Serving:
    """One server, or several identical ones."""

    engine: EngineName
    image: pulumi.Input[str]
    arguments: Sequence[str]
    """Arguments of the engine, from model, plan and caller."""
    environment: Mapping[str, pulumi.Input[str]]
    """Environment of the engine, from model, plan and caller."""
    served_name: str | None
    """Name of the model in clients' requests. None: the model's repository."""
    host: str
    model_file: str | None
    """File to serve. None: the engine serves a directory."""
    replicas: int
    """Number of servers."""
    nodes: int
    """Nodes of each server, with one pod on each. Several pods form a group."""
    gpus: int
    """GPUs of each pod."""
    cpus: int | None
    memory_request: str | None
    memory_limit: str | None
    shared_memory_bytes: int
    """Size of `/dev/shm`, which is in memory. 0: the container runtime's default."""
    collective_library: str | None
    """Communication library of a server's ranks. None: NCCL."""
    masked_directory: str | None
    """Directory of the image that an empty volume hides. None: none."""
    engine_ready_seconds: int
    """Ready timeout of an engine that has one."""
    startup_period_seconds: int
    startup_failure_threshold: int
    """Period of the startup probe in seconds, and failures before the kubelet restarts the engine."""
    await_seconds: int
    """Timeout of `pulumi up` for a server that makes no progress."""
    weights_seconds: int
    """Time for a node to be staged after it joins its group."""
    drain_seconds: int
    """Time for running requests to finish when a pod terminates. 0: none."""

    @property
    def pods(self) -> int:
        """Number of pods of all servers."""
        return self.nodes * self.replicas

    @classmethod
    def of(cls, engine: ServerEngine, pods: ServerPods, limits: StartLimits) -> Self:
        """Reads the server from a component's arguments."""
        period = limits.get("startup_period_seconds", 10)
        return cls(
            engine=EngineName(engine["name"]),
            image=engine["image"],
            arguments=engine.get("arguments", ()),
            environment=engine.get("environment", {}),
            served_name=engine.get("served_name"),
            host=engine.get("host", "0.0.0.0"),  # noqa: S104 - the pod's own network
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
            weights_seconds=limits.get("weights_seconds", _WEIGHTS_SECONDS),
            drain_seconds=limits.get("drain_seconds", 60),
        )
