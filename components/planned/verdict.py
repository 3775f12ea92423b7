"""The plan's verdict in the preview: a summary to read, warnings to heed, and an end where the plan cannot work."""

import pulumi

from planner import FitRequest, Plan, fit
from planner.report.summary import headline, summary


def judged_plan(request: FitRequest) -> Plan:
    """The plan of a request, once its summary and warnings are printed.

    Raises pulumi.RunError with every reason when the plan is rejected, so that nothing is made.
    """
    plan = fit(request)
    if plan.verdict == "rejected":
        reasons = [f"{problem.code}: {problem.message} {problem.fix}" for problem in plan.problems]
        raise pulumi.RunError("\n  ".join([f"{headline(request, plan)}; nothing was created:", *reasons]))
    say = pulumi.warn if plan.verdict == "unknown" else pulumi.info
    say(summary(request, plan))
    for warning in plan.warnings:
        pulumi.warn(f"{warning.code}: {warning.message}")
    return plan
