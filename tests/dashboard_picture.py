"""`make dashboard-picture`: draws the dashboard of llama.cpp's server from recorded series, as Grafana would.

The series are of the real server on the lab, scraped by the real Prometheus: tests/lab/test_prometheus.py records them.
matplotlib is not among the project's requirements; the make target brings it.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
SERIES = _ROOT / "tests/data/metrics/llama-cpp-series.json"
PICTURE = _ROOT / "docs/llama-cpp-dashboard.svg"
_UNITS = {"s": "seconds", "short": ""}


def main() -> None:
    """Writes the picture."""
    # Imported here, so that the tests that record the series need no matplotlib.
    from matplotlib import dates, pyplot, rcParams  # type: ignore[import-not-found]

    rcParams["svg.hashsalt"] = "heavylift"  # the same picture from the same series
    rcParams["svg.fonttype"] = "none"
    recorded = json.loads(SERIES.read_text())
    panels = recorded["dashboard"]["panels"]
    columns = 24 // panels[0]["gridPos"]["w"]
    rows = -(-len(panels) // columns)
    figure, grid = pyplot.subplots(rows, columns, figsize=(6 * columns, 2.8 * rows), squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_axis_off()
    for panel, axes in zip(panels, grid.flat, strict=False):
        for target in panel["targets"]:
            for series in recorded["series"][target["expr"]]:
                times = [datetime.fromtimestamp(time, UTC) for time, _ in series["values"]]
                values = [float(value) for _, value in series["values"]]
                axes.plot(times, values, label=_legend(target["legendFormat"], series["metric"]))
        axes.set_title(panel["title"], loc="left", fontsize=11)
        axes.set_ylabel(_UNITS[panel["fieldConfig"]["defaults"]["unit"]])
        axes.set_ylim(bottom=0, top=1.35 * axes.get_ylim()[1])  # room for the legend
        axes.xaxis.set_major_locator(dates.MinuteLocator())
        axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M"))
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7, loc="upper left")
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})
    print(f"wrote {PICTURE.relative_to(_ROOT)}")


def _legend(pattern: str, labels: dict[str, Any]) -> str:
    """Returns a series' name, as Grafana fills in its pattern."""
    for label, value in labels.items():
        pattern = pattern.replace("{{" + label + "}}", value)
    return pattern


if __name__ == "__main__":
    main()
