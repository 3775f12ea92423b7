"""The plan's verdict in the preview: a summary to read, warnings to heed, and an end where the plan cannot work."""

import pulumi

from config.quantity import gigabytes
from planner.plan import Plan


def judged(plan: Plan) -> Plan:
    """The plan itself, once its summary and warnings are printed.

    Raises pulumi.RunError with every reason when the plan is rejected, so that nothing is made.
    """
    pulumi.info(_summary(plan))
    for warning in plan.warnings:
        pulumi.warn(f"{warning.code}: {warning.message}")
    reasons = [f"{problem.code}: {problem.message} {problem.fix}" for problem in plan.problems]
    if plan.verdict == "rejected":
        raise pulumi.RunError("\n  ".join(["the plan is rejected, nothing was created:", *reasons]))
    for reason in reasons:
        pulumi.warn(reason)
    return plan


def _summary(plan: Plan) -> str:
    parts = [f"plan: {plan.verdict}"]
    if plan.weights_bytes is not None:
        parts.append(f"weights {gigabytes(plan.weights_bytes)}")
    if plan.per_gpu is not None and plan.per_gpu.weights_gib is not None:
        parts.append(f"{plan.per_gpu.weights_gib} GiB per GPU on {plan.layout.gpus}")
    if plan.max_context is not None:
        parts.append(f"context {plan.max_context:,}")
    if plan.cost_per_hour_usd is not None:
        parts.append(f"{plan.cost_per_hour_usd:.2f} $/h")
    return ", ".join(parts)
