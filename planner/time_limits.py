"""Derives the time limits of a deployment from the planned download and load times.

Nested limits increase from the inside out, so the innermost expires first and its error is the one reported: the Job's
deadline before Pulumi's wait for the Job; the engine's ready timeout before the startup probe, and the probe before the
wait for the server.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from engines.logistics import download_seconds
from engines.plan import Plan
from engines.process import termination_grace_seconds
from engines.request import FitRequest

SAFETY_FACTOR = 3.0
"""Limits are this multiple of the predicted duration. Networks and disks are shared, and a limit that expires on a
healthy deployment costs a whole load. Our own choice."""

MINIMUM_STAGE_SECONDS = 900
"""Covers pulling the stager's image and starting it. Our own choice."""

MINIMUM_GPU_STARTUP_SECONDS = 600
"""A mid-size model takes ten minutes on healthy hardware (github.com/kserve/kserve/issues/5062)."""

MINIMUM_CPU_STARTUP_SECONDS = 120

GPU_PROBE_PERIOD_SECONDS = 10
CPU_PROBE_PERIOD_SECONDS = 2
"""A model on the CPU loads in seconds; a long period would delay readiness."""

PROBE_GRACE_SECONDS = 60
"""Time between the container's start and the engine's own timer: importing libraries. Our own choice."""

POD_START_SECONDS = 900
"""Scheduling, and pulling an engine image of ten gigabytes or more. Our own choice: 15 minutes are 90 Mbit/s for 10
GB."""

PULUMI_GRACE_SECONDS = 120
"""`pulumi up` waits this much longer than the cluster, so that the cluster's error is reported. Our own choice."""


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Time limits in seconds."""

    stage_deadline_seconds: int
    """`activeDeadlineSeconds` of the stage Job."""
    stage_await_seconds: int
    """Pulumi's timeout for the stage Job."""
    engine_ready_seconds: int
    """The engine's own ready timeout, `VLLM_ENGINE_READY_TIMEOUT_S`."""
    startup_period_seconds: int
    """`periodSeconds` of the startup probe."""
    startup_failure_threshold: int
    """`failureThreshold` of the startup probe."""
    server_await_seconds: int
    """Pulumi's timeout for the server, including verification and the end of the pods before it."""

    @property
    def startup_seconds(self) -> int:
        """How long the startup probe allows in total."""
        return self.startup_period_seconds * self.startup_failure_threshold


HASHED_BYTES_PER_SECOND = 1e9
"""Reading and hashing weights in parallel from local NVMe. Our own choice, below what one core with SHA
extensions hashes by itself: 1.2e9 to 1.7e9 where the tests run."""


def time_limits(plan: Plan, request: FitRequest | None = None, *, full_verification: bool = False) -> TimeLimits:
    """The time limits for a plan.

    `full_verification`: the init container reads every byte of the weights before the engine starts; otherwise its
    duration is negligible. If the plan does not know the size of the weights, the size of the request's volume is
    used as an upper bound. If that is unknown too, the limits are the minimum; see `limits_at_floor`.
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
    drain = request.deployment.drain_seconds if request and request.deployment else 0
    start = termination_grace_seconds(drain) + POD_START_SECONDS + verification + threshold * period
    return TimeLimits(
        stage_deadline_seconds=staging,
        stage_await_seconds=staging + PULUMI_GRACE_SECONDS,
        engine_ready_seconds=ready,
        startup_period_seconds=period,
        startup_failure_threshold=threshold,
        server_await_seconds=start + PULUMI_GRACE_SECONDS,
    )


def limits_at_floor(plan: Plan, request: FitRequest, limits: TimeLimits) -> str | None:
    """A warning that the limits are the minimum, and what to set; `None` if they follow from a size."""
    if plan.weights_bytes is not None or request.volume_bytes is not None:
        return None
    return (
        f"time-limits: how many bytes are staged is not known, so staging gets {limits.stage_deadline_seconds} s and "
        f"the start of the engine {limits.engine_ready_seconds} s, the minimum; set heavylift:weights.size or "
        "heavylift:stage.lock for limits that follow from the size"
    )
