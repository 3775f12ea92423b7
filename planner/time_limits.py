"""The time limits of a deployment, derived from the plan's two durations.

Each limit that encloses another is a little longer, so that the innermost fails first and its reason is the one that is
seen: the Job's deadline before Pulumi's wait for the Job; the engine's own ready time-out before the startup probe, and
the probe before the wait for the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from engines.logistics import download_seconds
from engines.plan import Plan
from engines.request import FitRequest

SAFETY_FACTOR = 3.0
"""A limit is this many times the predicted duration: lines and disks are shared, and a limit that fires on a healthy
deployment costs a whole load."""

MINIMUM_STAGE_SECONDS = 900
"""Below this, pulling the stager's image and its start would decide, not the download."""

MINIMUM_GPU_STARTUP_SECONDS = 600
"""Ten minutes is what a mid-size model took by itself on healthy hardware (github.com/kserve/kserve/issues/5062)."""

MINIMUM_CPU_STARTUP_SECONDS = 120

GPU_PROBE_PERIOD_SECONDS = 10
CPU_PROBE_PERIOD_SECONDS = 2
"""A model small enough for the processor loads in seconds, and should not wait for its next probe."""

PROBE_GRACE_SECONDS = 60
"""Between the container's start and the engine's own clock: importing the engine and its libraries."""

POD_START_SECONDS = 900
"""Scheduling, and pulling an engine image of ten gigabytes or more. Our own choice: 15 minutes are 90 Mbit/s for 10
GB."""

TERMINATION_GRACE_SECONDS = 60
"""For a server that is told to end. The cluster's default of 30 s is short for a process that has hundreds of gigabytes
mapped and pinned, and peers to leave."""

PULUMI_GRACE_SECONDS = 120
"""`pulumi up` waits this much longer than the cluster, so that the cluster's reason is the one reported."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Seconds; each field names the setting that it is for."""

    stage_deadline_seconds: int
    """`activeDeadlineSeconds` of the stage Job."""
    stage_await_seconds: int
    """Pulumi's time-out for the stage Job."""
    engine_ready_seconds: int
    """The engine's own ready time-out, `VLLM_ENGINE_READY_TIMEOUT_S`."""
    startup_period_seconds: int
    """`periodSeconds` of the startup probe."""
    startup_failure_threshold: int
    """`failureThreshold` of the startup probe."""
    server_await_seconds: int
    """`pulumi up` waits this long for the server, its verification included."""
    termination_grace_seconds: int = TERMINATION_GRACE_SECONDS
    """`terminationGracePeriodSeconds` of the server."""

    @property
    def startup_seconds(self) -> int:
        """The startup probe's whole budget."""
        return self.startup_period_seconds * self.startup_failure_threshold


HASHED_BYTES_PER_SECOND = 1e9
"""Reading and hashing weights in parallel from local NVMe. Our own choice, below what one core with SHA
extensions hashes by itself: 1.2e9 to 1.7e9 where the tests run."""


def time_limits(plan: Plan, request: FitRequest | None = None, *, full_verification: bool = False) -> TimeLimits:
    """The limits that follow from a plan.

    `full_verification`: the init container reads every byte of the weights before the engine starts; else that takes
    next to nothing. Where the plan does not know the bytes, those of the request's volume stand for them: there cannot
    be more. Where that has no size either, the limits stand at their floors; see `limits_at_floor`.
    """
    most = (request.volume_bytes if request else None) or 0
    download = plan.download_seconds
    if download is None and request is not None:
        download = download_seconds(request, most)
    load = plan.load_seconds
    if load is None and request is not None:
        load = most / request.read_bytes_per_second
    staging = max(MINIMUM_STAGE_SECONDS, ceil(SAFETY_FACTOR * (download or 0.0)))
    on_gpu = plan.per_gpu is not None
    floor = MINIMUM_GPU_STARTUP_SECONDS if on_gpu else MINIMUM_CPU_STARTUP_SECONDS
    ready = max(floor, ceil(SAFETY_FACTOR * (load or 0.0)))
    period = GPU_PROBE_PERIOD_SECONDS if on_gpu else CPU_PROBE_PERIOD_SECONDS
    threshold = ceil((ready + PROBE_GRACE_SECONDS) / period)
    hashed = (plan.weights_bytes or most) / HASHED_BYTES_PER_SECOND if full_verification else 0.0
    verification = ceil(SAFETY_FACTOR * hashed)
    start = POD_START_SECONDS + verification + threshold * period
    return TimeLimits(
        stage_deadline_seconds=staging,
        stage_await_seconds=staging + PULUMI_GRACE_SECONDS,
        engine_ready_seconds=ready,
        startup_period_seconds=period,
        startup_failure_threshold=threshold,
        server_await_seconds=start + PULUMI_GRACE_SECONDS,
    )


def limits_at_floor(plan: Plan, request: FitRequest, limits: TimeLimits) -> str | None:
    """That the limits follow from nothing, and what to state; None: they follow from bytes."""
    if plan.weights_bytes is not None or request.volume_bytes is not None:
        return None
    return (
        f"time-limits: how many bytes are staged is not known, so staging gets {limits.stage_deadline_seconds} s and "
        f"the start of the engine {limits.engine_ready_seconds} s, the least there is; state heavylift:weights.size, "
        "or a lock file in heavylift:stage.lock, for limits that follow from bytes"
    )
