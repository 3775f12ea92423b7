"""`heavylift:metrics`: how Prometheus finds the server, and what it and Grafana are given."""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field, StrictBool

from config.catalogue import engine_facts
from config.stack.sections.engine import Engine
from config.stack.sections.fields import Section

DEFAULT_TTFT_SECONDS = 5.0
"""Our own choice: what somebody waits for the beginning of an answer."""


class MetricsKind(StrEnum):
    """How Prometheus finds the server."""

    POD_MONITOR = "pod-monitor"
    ANNOTATIONS = "annotations"


class Metrics(Section):
    """Prometheus metrics, alerts and a dashboard of the server."""

    kind: MetricsKind
    """`pod-monitor`: a PodMonitor for the Prometheus Operator. `annotations`: `prometheus.io/` annotations of the pods,
    for a Prometheus that is configured to follow them; setting it restarts the server."""
    labels: Mapping[str, str] = {}
    """Labels of the PodMonitor and of the PrometheusRule, by which a Prometheus selects them, such as
    `release: kube-prometheus-stack`."""
    alerts: StrictBool = True
    """Make the alerts: a PrometheusRule, or for `annotations` a ConfigMap with a rule file."""
    dashboard: StrictBool = True
    """Make a ConfigMap with a Grafana dashboard, which Grafana's sidecar finds by the label `grafana_dashboard`."""
    ttft_seconds: Annotated[float, Field(gt=0)] | None = None
    """Seconds within which requests expect their first token, for the alert on slow ones: a bound of the engine's
    histogram. Unset: 5. llama.cpp does not measure that time."""


def metrics_contradictions(metrics: Metrics | None, engine: Engine | None) -> Iterator[str]:
    """Faults of what is asked of the metrics with what the engine measures. None: a section that is not there, or has
    faults of its own."""
    if metrics is None or engine is None:
        return
    bounds, wanted = engine_facts(engine.name).first_token_bounds, metrics.ttft_seconds
    if wanted is None or wanted in bounds:
        return
    key = f"heavylift:metrics.ttft_seconds: {wanted:g}"
    if bounds:
        listed = ", ".join(f"{bound:g}" for bound in bounds)
        yield f"{key} is no bound of the histogram of {engine.name}: expected one of {listed}"
    else:
        yield f"{key} has no meaning for {engine.name}, which does not measure it: expected it to be left out"
