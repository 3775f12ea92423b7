"""Draws latency against throughput as SVG: the bound as a line, the likely range as a band.

Each point is a number of users: to the right more tokens per second of the server, upwards more time per token of each
user. Both axes are logarithmic. Uses no external fonts or styles, and scales with the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from engines.plan import Plan
from engines.request import FitRequest
from engines.speed import SpeedAt, Times
from planner.report.speed import NOT_KNOWN, digits
from planner.report.summary import headline

_WIDTH, _HEIGHT = 900, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 870, 90, 450
_BOUND, _LIKELY, _GRID = "#3b6ea5", "#3d8550", "#d9d9d9"

Point = tuple[float, float]
"""Tokens per second of the server, and milliseconds per token of a user."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis from one end of the drawing to the other."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        return self.start + (self.end - self.start) * log10(value / self.low) / log10(self.high / self.low)

    def marks(self) -> Iterator[float]:
        """The values 1, 2 and 5 times a power of ten within the axis."""
        for power in range(floor(log10(self.low)), floor(log10(self.high)) + 1):
            yield from (mark for step in (1, 2, 5) if self.low <= (mark := step * 10.0**power) <= self.high)


def chart(request: FitRequest, plan: Plan, speeds: Sequence[SpeedAt]) -> str:
    """The chart of a plan, from its speeds at growing numbers of users."""
    bound = [_point(at, at.bound) for at in speeds]
    ranged = [(at, at.likely) for at in speeds if at.likely is not None]
    ranges = [(_point(at, fast), _point(at, slow)) for at, (fast, slow) in ranged]
    drawn = [*bound, *(end for ends in ranges for end in ends)]
    across = _Axis(0.8 * min(x for x, _ in drawn), 1.25 * max(x for x, _ in drawn), _LEFT, _RIGHT)
    up = _Axis(0.8 * min(y for _, y in drawn), 1.25 * max(y for _, y in drawn), _BOTTOM, _TOP)
    parts = [
        *_title(request, plan),
        *_grid(across, up),
        *_band(ranges, across, up),
        *_users_of_band(ranges, [at.users for at, _ in ranged], across, up),
        *_line(bound, speeds, across, up),
        *_legend(plan, bool(ranges)),
    ]
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
            *parts,
            "</svg>\n",
        )
    )


def _point(at: SpeedAt, times: Times) -> Point:
    return at.tokens_per_second(times), 1000 * times.tpot


def _title(request: FitRequest, plan: Plan) -> Iterator[str]:
    text = headline(request, plan).split(": ", 1)[1]
    yield f"<title>Latency and throughput: {escape(text)}</title>"
    yield _text(20, 32, text, 16)
    if plan.speed is not None:
        work = plan.speed.workload
        yield _text(20, 56, f"Requests of {work.prompt_tokens:,} tokens in and {work.answer_tokens:,} out", 12)


def _grid(across: _Axis, up: _Axis) -> Iterator[str]:
    for value in across.marks():
        place = across.at(value)
        yield f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{_BOTTOM}" stroke="{_GRID}"/>'
        yield _text(place, _BOTTOM + 18, digits(value), 11, anchor="middle")
    for value in up.marks():
        place = up.at(value)
        yield f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{place:.1f}" y2="{place:.1f}" stroke="{_GRID}"/>'
        yield _text(_LEFT - 8, place + 4, digits(value), 11, anchor="end")
    yield _text(_RIGHT, _BOTTOM + 38, "output tokens per second of the server", 12, anchor="end")
    yield _text(20, _TOP - 10, "milliseconds per token of each user", 12)


def _line(bound: Sequence[Point], speeds: Sequence[SpeedAt], across: _Axis, up: _Axis) -> Iterator[str]:
    yield f'<polyline points="{_places(bound, across, up)}" fill="none" stroke="{_BOUND}" stroke-width="2"/>'
    for (x, y), at in zip(bound, speeds, strict=True):
        yield f'<circle cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3" fill="{_BOUND}"/>'
        yield _text(across.at(x), up.at(y) + 18, f"{at.users:,}", 11, anchor="middle")


def _band(ranges: Sequence[tuple[Point, Point]], across: _Axis, up: _Axis) -> Iterator[str]:
    if ranges:
        outline = [*(fast for fast, _ in ranges), *(slow for _, slow in reversed(ranges))]
        places = _places(outline, across, up)
        yield f'<polygon points="{places}" fill="{_LIKELY}" fill-opacity="0.35" stroke="{_LIKELY}"/>'


def _users_of_band(
    ranges: Sequence[tuple[Point, Point]], counts: Sequence[int], across: _Axis, up: _Axis
) -> Iterator[str]:
    """The numbers of users at the two ends of the band."""
    ends = [*zip(ranges, counts, strict=True)]
    for (fast, slow), count in (*ends[:1], *ends[1:][-1:]):
        x, y = ((across.at(fast[0]) + across.at(slow[0])) / 2, (up.at(fast[1]) + up.at(slow[1])) / 2)
        yield _text(x, y, f"{count:,}", 11, anchor="middle")


def _legend(plan: Plan, ranged: bool) -> Iterator[str]:
    base = _HEIGHT - 14
    yield f'<rect x="20" y="{base - 11}" width="12" height="12" fill="{_BOUND}"/>'
    yield _text(38, base, "bound, by users at a time: no server is faster", 12)
    why = plan.speed.why_no_range if plan.speed else None
    text = "likely range, by users at a time" if ranged else f"no likely range, {why}: {NOT_KNOWN}"
    yield f'<rect x="360" y="{base - 11}" width="12" height="12" fill="{_LIKELY}" fill-opacity="0.35"/>'
    yield _text(378, base, text, 12)


def _places(points: Sequence[Point], across: _Axis, up: _Axis) -> str:
    return " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in points)


def _text(left: float, base: float, text: str, size: int, *, anchor: str = "start") -> str:
    place = f'x="{left:.1f}" y="{base:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"
