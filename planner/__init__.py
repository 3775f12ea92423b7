"""The planner: does a model fit, which flags, how long it takes, what it costs. No Pulumi, no network."""

from engines.plan import Plan
from engines.request import FitRequest
from planner.fit import fit
from planner.time_limits import TimeLimits, time_limits

__all__ = ["FitRequest", "Plan", "TimeLimits", "fit", "time_limits"]
