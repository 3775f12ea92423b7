"""Does it fit, with which flags, how long, how much: pure arithmetic, with neither Pulumi nor a network."""

from planner.fit import fit
from planner.plan import Plan
from planner.request import FitRequest
from planner.time_limits import TimeLimits, time_limits

__all__ = ["FitRequest", "Plan", "TimeLimits", "fit", "time_limits"]
