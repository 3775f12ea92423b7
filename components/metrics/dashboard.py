"""A dashboard as Grafana reads it: two panels in a row, each with its queries."""

import json
from typing import Any

from engines.queries import Panel, Queries

_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2
"""In Grafana's grid of 24 columns."""
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def dashboard(uid: str, title: str, queries: Queries) -> str:
    """Returns the dashboard as JSON (grafana.com/docs, "Dashboard JSON model"). The reader chooses the Prometheus.

    `uid`: at most 40 characters, the same for each version of the dashboard.
    """
    return json.dumps(
        {
            "uid": uid,
            "title": title,
            "tags": ["heavylift"],
            "schemaVersion": 39,
            "time": {"from": "now-3h", "to": "now"},
            "refresh": "30s",
            "templating": {
                "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
            },
            "panels": [_panel(number, panel) for number, panel in enumerate(queries.panels)],
        },
        indent=1,
    )


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, _COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expression,
                "legendFormat": query.legend,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
