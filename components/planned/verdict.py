"""Prints the plan's summary and warnings in a preview, and fails if the plan is rejected."""

import pulumi

from planner import FitRequest, Plan, fit
from planner.report.summary import headline, summary


def accepted_plan(request: FitRequest) -> Plan:
    """Plans a request. Raises pulumi.RunError with every reason if the plan is rejected."""
    plan = fit(request)
    if plan.verdict == "rejected":
        reasons = [f"{problem.code}: {problem.message} {problem.fix}" for problem in plan.problems]
        raise pulumi.RunError("\n  ".join([f"{headline(request, plan)}; nothing was created:", *reasons]))
    return plan


def judged_plan(request: FitRequest) -> Plan:
    """Plans a request, and prints the summary and warnings of the plan.

    Raises pulumi.RunError with every reason if the plan is rejected.
    """
    plan = accepted_plan(request)
    say = pulumi.warn if plan.verdict == "unknown" else pulumi.info
    say(summary(request, plan))
    for warning in plan.warnings:
        pulumi.warn(f"{warning.code}: {warning.message}")
    return plan
