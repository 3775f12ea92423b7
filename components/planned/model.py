"""Reads a stack's sections, plans them and checks the cluster; fails before anything is created."""

from dataclasses import dataclass
from typing import Any

import pulumi

from components.arguments import ServerEngine, ServerPods, StartLimits
from components.planned.server import server_engine, server_pods, start_limits
from components.planned.stack_warnings import stack_warnings
from components.planned.verdict import judged_plan
from components.pods.kept_cache import cache_key
from components.pods.serving import Serving
from config.errors import StackError
from config.stack.sections import StackConfig, Verification
from config.stack.weights import WeightsLock, draft_lock_of, lock_of, weights_digest
from engines.plan import Plan
from planner import TimeLimits, time_limits
from planner.stack_request import request_of_stack
from planner.time_limits import limits_at_floor


@dataclass(frozen=True)
class PlannedModel:
    """A model whose plan was not rejected."""

    stack: StackConfig
    lock: WeightsLock | None
    """The weights lock file. None: no lock."""
    plan: Plan
    limits: TimeLimits
    draft_lock: WeightsLock | None = None
    """The lock file of the draft model. None: no draft model, or no lock."""

    @property
    def digest(self) -> str:
        """Digest of the weights."""
        return weights_digest(self.stack.model, self.lock.sha256 if self.lock else None)

    @property
    def draft_digest(self) -> str | None:
        """Digest of the draft model's weights. None: no draft model."""
        draft, lock = self.stack.model.draft, self.draft_lock
        return weights_digest(draft, lock.sha256 if lock else None) if draft else None

    @property
    def cache_key(self) -> str | None:
        """Key of the directory for what the engine compiles. None: the stack keeps none."""
        return cache_key(self.stack)

    @property
    def engine(self) -> ServerEngine:
        """The argument `engine` of `InferenceServer`."""
        return server_engine(self.plan, self.stack.engine)

    @property
    def pods(self) -> ServerPods:
        """The argument `pods` of `InferenceServer`."""
        return server_pods(self.plan, self.stack.engine)

    @property
    def start_limits(self) -> StartLimits:
        """The argument `limits` of `InferenceServer`."""
        return start_limits(self.limits, self.stack.engine)

    @property
    def serving(self) -> Serving:
        """The server's pods, for the preflight."""
        return Serving.of(self.engine, self.pods, self.start_limits)


def planned_model(name: str, sections: dict[str, Any]) -> PlannedModel:
    """Plans the component `name` with these sections, and prints the summary and warnings of the plan.

    Raises pulumi.RunError with every fault of the sections, or every reason why the plan is rejected.
    """
    try:
        stack = StackConfig.parse(sections)
        lock, draft_lock = lock_of(stack), draft_lock_of(stack)
    except StackError as error:
        raise pulumi.RunError("\n  ".join([f"{name} cannot be served, nothing was created:", *error.faults])) from None
    request = request_of_stack(stack, lock, draft_lock)
    plan = judged_plan(request)
    limits = time_limits(plan, request, full_verification=stack.weights.verify is Verification.FULL)
    if words := limits_at_floor(plan, request, limits):
        pulumi.warn(words)
    for words in stack_warnings(stack):
        pulumi.warn(words)
    return PlannedModel(stack, lock, plan, limits, draft_lock)
