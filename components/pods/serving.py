"""What the plan settles for the server's pods: arguments, GPUs, memory and the time limits of its start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Self

import pulumi

from config.engine_name import EngineName
from config.stack.sections import Engine, Nodes, Verification, Weights
from engines.plan import Plan
from planner.time_limits import TimeLimits

HASHED_BYTES_PER_SECOND = 1e9
"""Reading and hashing weights in parallel from local NVMe; one core of a small machine hashes 1.7e9 by itself."""


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
    def of(cls, plan: Plan, limits: TimeLimits, engine: Engine, nodes: Nodes) -> Self:
        """The pods of a plan. llama.cpp spreads layers over all GPUs it is given; vLLM takes one for each rank.

        Raises pulumi.RunError for a layout that does not fill its nodes evenly, or takes more of them than there are.
        """
        gpus = nodes.gpus_per_node if engine.name is EngineName.LLAMA_CPP else plan.layout.gpus
        width = ceil(gpus / nodes.gpus_per_node) if nodes.gpu else 1
        _check_nodes(gpus, width, engine, nodes)
        return cls(
            gpus=gpus // width if nodes.gpu else 0,
            nodes=width,
            replicas=engine.replicas,
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


def _check_nodes(gpus: int, width: int, engine: Engine, nodes: Nodes) -> None:
    if gpus % width:
        raise pulumi.RunError(
            f"heavylift:engine: the layout takes {gpus} GPUs, which {width} nodes of {nodes.gpus_per_node} cannot "
            f"share evenly: expected a multiple of {width}; nothing was created"
        )
    needed, named = width * engine.replicas, len(nodes.names)
    if needed > max(1, named):
        raise pulumi.RunError(
            f"heavylift:nodes.names: has {named} nodes: expected at least {needed}, for heavylift:engine.replicas "
            f"{engine.replicas} of {width} each; nothing was created"
        )


def verification_seconds(weights: Weights, plan: Plan) -> float:
    """How long the init container reads before the engine starts; next to nothing unless every byte is read."""
    if weights.verify is Verification.QUICK:
        return 0.0
    return (plan.weights_bytes or 0) / HASHED_BYTES_PER_SECOND
