"""Does it fit, with which flags, how long, how much: pure arithmetic, with neither Pulumi nor a network."""

from engines.plan import Plan
from engines.request import FitRequest
from planner.fit import fit
from planner.time_limits import TimeLimits, time_limits

__all__ = ["FitRequest", "Plan", "TimeLimits", "fit", "time_limits"]
