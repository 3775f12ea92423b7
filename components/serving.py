"""What the plan settles for the server's pod: arguments, GPUs, memory and the time limits of its start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import pulumi

from config.stack import Engine, EngineName, Nodes, Verification, Weights
from planner.plan import Plan
from planner.time_limits import TimeLimits

HASHED_BYTES_PER_SECOND = 1e9
"""Reading and hashing weights in parallel from local NVMe; one core of a small machine hashes 1.7e9 by itself."""


@dataclass(frozen=True)
class Serving:
    """The plan as one pod of the server sees it."""

    gpus: int
    """GPUs of the pod."""
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
    progress_deadline_seconds: int
    """The Deployment counts as stuck after this long."""
    await_seconds: int
    """Pulumi waits this long for the server."""

    @classmethod
    def of(cls, plan: Plan, limits: TimeLimits, engine: Engine, nodes: Nodes) -> Self:
        """The pod of a plan. llama.cpp spreads layers over all GPUs it is given; vLLM takes one for each rank.

        Raises pulumi.RunError for a layout that needs more than one node.
        """
        gpus = nodes.gpus_per_node if engine.name is EngineName.LLAMA_CPP else plan.layout.gpus
        if gpus > nodes.gpus_per_node and nodes.gpu:
            raise pulumi.RunError(
                f"heavylift:engine: the layout takes {gpus} GPUs and a node has {nodes.gpus_per_node}: expected one "
                "that fits on a single node, since serving over several is not built yet; nothing was created"
            )
        return cls(
            gpus=gpus if nodes.gpu else 0,
            arguments=plan.engine_args,
            environment=dict(plan.engine_env),
            shared_memory_bytes=plan.host.shared_memory_bytes,
            memory_bytes=plan.host.memory_bytes,
            masked_directory=plan.host.masked_directory,
            engine_ready_seconds=limits.engine_ready_seconds,
            startup_period_seconds=limits.startup_period_seconds,
            startup_failure_threshold=limits.startup_failure_threshold,
            progress_deadline_seconds=limits.progress_deadline_seconds,
            await_seconds=limits.server_await_seconds,
        )


def verification_seconds(weights: Weights, plan: Plan) -> float:
    """How long the init container reads before the engine starts; next to nothing unless every byte is read."""
    if weights.verify is Verification.QUICK:
        return 0.0
    return (plan.weights_bytes or 0) / HASHED_BYTES_PER_SECOND
