"""Alerts as Prometheus reads them."""

from typing import Any

from engines.queries import Alert, Queries


def rule_groups(stack: str, queries: Queries) -> list[dict[str, Any]]:
    """Returns the groups of a rule file, or of a PrometheusRule."""
    return [{"name": f"heavylift-{stack}", "rules": [_rule(stack, alert) for alert in queries.alerts]}]


def _rule(stack: str, alert: Alert) -> dict[str, Any]:
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.wait,
        "labels": {"severity": alert.severity, "stack": stack},
        "annotations": {"summary": alert.summary, "description": f"Next: {alert.command}"},
    }
