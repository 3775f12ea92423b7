"""Whether a plan reaches the speed that a query asks for."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from config.checkpoint.model_spec import find_model
from engines.plan import Plan
from engines.request import FitRequest
from engines.speed import SpeedAt, Times, Workload
from planner.speed import speed_at


class Reach(IntEnum):
    """How surely a target is reached, best first."""

    LIKELY = 0
    """Even the slow end of the likely range reaches it."""
    PERHAPS = 1
    """The fast end of the range reaches it."""
    NOT_KNOWN = 2
    """No range is known, and the bound allows it."""
    NO = 3
    """The fast end, or the bound, misses it; or the KV cache does not hold so many users."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The speed of each user at a number of users. None: not asked for."""

    users: int = 1
    tokens_per_second: float | None = None
    ttft_seconds: float | None = None
    workload: Workload = field(default_factory=Workload)

    def at(self, request: FitRequest, plan: Plan) -> SpeedAt | None:
        """The speed of a plan for these users. None: its cache does not hold them, or its speed is not known."""
        return speed_at(plan, request, find_model(request.model, request.include), self.workload, self.users)

    def reached(self, speed: SpeedAt | None) -> Reach:
        """How surely a speed reaches the targets."""
        if speed is None or not self._met_by(speed.bound):
            return Reach.NO
        if speed.likely is None:
            return Reach.NOT_KNOWN
        fast, slow = speed.likely
        if self._met_by(slow):
            return Reach.LIKELY
        return Reach.PERHAPS if self._met_by(fast) else Reach.NO

    def _met_by(self, times: Times) -> bool:
        fast_enough = self.tokens_per_second is None or 1 / times.tpot >= self.tokens_per_second
        return fast_enough and (self.ttft_seconds is None or times.ttft <= self.ttft_seconds)
