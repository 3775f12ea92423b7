"""What a monitoring system asks for: the panels of a dashboard and the alerts, each with its PromQL.

They are data: each engine's folder has a `queries.json`, and `cluster_queries.json` has what does not depend on the
engine. Placeholders such as `<server>` stand for the names of one stack. An alert or query with a placeholder for which
a stack has no value, such as `<devices>` without a fabric, is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CLUSTER_QUERIES = Path(__file__).with_name("cluster_queries.json")
"""Alerts and panels of every engine."""

_PLACEHOLDER = re.compile(r"<([a-z_]+)>")


@dataclass(frozen=True, slots=True)
class Query:
    """One graph of a panel."""

    legend: str
    """Name of its series, with Grafana's placeholders such as `{{pod}}`."""
    expression: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel of a dashboard."""

    title: str
    unit: str
    """Unit of the values, as Grafana names it."""
    about: str
    """What to read from it."""
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert."""

    name: str
    severity: str
    """`critical`: nobody is served, or soon nobody. `warning`: look at it within the day."""
    wait: str
    """How long the expression must hold, as Prometheus writes durations."""
    expression: str
    summary: str
    command: str
    """What to run next."""


@dataclass(frozen=True, slots=True)
class Queries:
    """The panels and alerts of one stack, or of all stacks of an engine while placeholders stand in them."""

    panels: tuple[Panel, ...]
    alerts: tuple[Alert, ...]

    def of(self, values: Mapping[str, str]) -> Queries:
        """Returns the queries with the placeholders' values, without those for which there is none."""
        filled = (_filled_panel(panel, values) for panel in self.panels)
        return Queries(
            tuple(panel for panel in filled if panel.queries),
            tuple(_filled_alert(alert, values) for alert in self.alerts if _placeholders(alert) <= values.keys()),
        )

    def expressions(self) -> Iterator[str]:
        """Yields every expression."""
        yield from (query.expression for panel in self.panels for query in panel.queries)
        yield from (alert.expression for alert in self.alerts)


@cache
def read_queries(file: Path) -> Queries:
    """Reads the queries of one engine, followed by those of every engine."""
    own, shared = (json.loads(each.read_text()) for each in (file, CLUSTER_QUERIES))
    return Queries(
        tuple(_panel(each) for each in [*own["panels"], *shared["panels"]]),
        tuple(Alert(**each) for each in [*own["alerts"], *shared["alerts"]]),
    )


def _panel(values: dict[str, Any]) -> Panel:
    return Panel(**{**values, "queries": tuple(Query(**query) for query in values["queries"])})


def _placeholders(alert: Alert) -> set[str]:
    texts = (alert.wait, alert.expression, alert.summary, alert.command)
    return {name for text in texts for name in _PLACEHOLDER.findall(text)}


def _filled_alert(alert: Alert, values: Mapping[str, str]) -> Alert:
    return Alert(
        alert.name,
        alert.severity,
        _filled(alert.wait, values),
        _filled(alert.expression, values),
        _filled(alert.summary, values),
        _filled(alert.command, values),
    )


def _filled_panel(panel: Panel, values: Mapping[str, str]) -> Panel:
    queries = tuple(
        Query(query.legend, _filled(query.expression, values))
        for query in panel.queries
        if set(_PLACEHOLDER.findall(query.expression)) <= values.keys()
    )
    return Panel(panel.title, panel.unit, panel.about, queries)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)
