"""What the plan settles for the server's pods: arguments, GPUs, memory and the time limits of its start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from engines.plan import Plan
from planner.time_limits import TimeLimits


@dataclass(frozen=True)
class Serving:
    """The plan as the pods of the server see it."""

    gpus: int
    """GPUs of each pod."""
    nodes: int
    """Nodes of each server, one pod on each; more than 1: they are a group that starts and ends together."""
    replicas: int
    """Servers."""
    arguments: Sequence[str]
    """Arguments of the engine that follow from model and plan, the stack's own among them."""
    environment: Mapping[str, str]
    """Environment of the engine that follows from model and plan."""
    shared_memory_bytes: int
    """Size of `/dev/shm`, in memory; 0: the container runtime's default."""
    memory_bytes: int | None
    """Memory of the pod, `/dev/shm` included; None: not known."""
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
    def of(cls, plan: Plan, limits: TimeLimits, replicas: int) -> Self:
        """The pods of a plan."""
        return cls(
            gpus=plan.pods.gpus_per_pod,
            nodes=plan.pods.nodes_per_server,
            replicas=replicas,
            arguments=plan.engine_args,
            environment=dict(plan.engine_env),
            shared_memory_bytes=plan.host.shared_memory_bytes,
            memory_bytes=plan.host.memory_bytes,
            masked_directory=plan.host.masked_directory,
            engine_ready_seconds=limits.engine_ready_seconds,
            startup_period_seconds=limits.startup_period_seconds,
            startup_failure_threshold=limits.startup_failure_threshold,
            await_seconds=limits.server_await_seconds,
            termination_grace_seconds=limits.termination_grace_seconds,
        )
