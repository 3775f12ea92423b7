"""The bars of a plan as an SVG picture, for a pull request or a README."""

from __future__ import annotations

from html import escape
from textwrap import wrap

from planner.bars import Bar, bars
from planner.plan import Plan
from planner.request import FitRequest
from planner.summary import headline

_COLOURS = {
    "weights": "#3b6ea5",
    "overhead": "#d98e04",
    "perhaps overhead": "#f2c879",
    "KV cache": "#4c9a5b",
    "free": "#d9d9d9",
}
_WIDTH, _LEFT, _BAR, _ROW, _TOP = 900, 90, 660, 34, 60
_LINE = 130
"""Characters of a note that fit in the width."""


def picture(request: FitRequest, plan: Plan) -> str:
    """The plan as SVG text. Without known memory it has the headline and the reasons only."""
    drawn = bars(request, plan)
    length = max((bar.length_gib for bar in drawn), default=1.0)
    rows = [row for index, bar in enumerate(drawn) for row in _row(bar, _TOP + index * _ROW, _BAR / length)]
    below = _TOP + len(drawn) * _ROW
    lines = _legend(below + 12) if drawn else []
    notes = [
        line
        for problem in plan.problems
        for line in wrap(f"{problem.code}: {problem.message} {problem.fix}", _LINE, subsequent_indent="    ")
    ]
    lines += [_text(20, below + 52 + 18 * index, note, 12) for index, note in enumerate(notes)]
    height = below + 60 + 18 * len(notes)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">',
            f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
            _text(20, 32, headline(request, plan), 16),
            *rows,
            *lines,
            "</svg>\n",
        )
    )


def _row(bar: Bar, top: int, scale: float) -> list[str]:
    parts, left = [_text(20, top + 18, bar.label, 12)], float(_LEFT)
    for segment in bar.segments:
        width = segment.gib * scale
        title = f"<title>{escape(segment.name)} {segment.gib:.2f} GiB</title>"
        box = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="24" fill="{_COLOURS[segment.name]}"'
        parts.append(f"<rect {box}>{title}</rect>")
        if width > 40:
            parts.append(_text(left + 4, top + 16, f"{segment.gib:.1f}", 11))
        left += width
    edge = _LEFT + bar.total_gib * scale
    parts.append(f'<line x1="{edge:.1f}" x2="{edge:.1f}" y1="{top - 3}" y2="{top + 27}" stroke="black"/>')
    parts.append(_text(max(edge, left) + 6, top + 16, f"{bar.total_gib:.1f} GiB", 11))
    return parts


def _legend(top: int) -> list[str]:
    parts = []
    for index, (name, colour) in enumerate(_COLOURS.items()):
        left = _LEFT + index * 130
        parts.append(f'<rect x="{left}" y="{top}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(left + 18, top + 11, name, 12))
    return parts


def _text(left: float, base: float, text: str, size: int) -> str:
    return f'<text x="{left:.1f}" y="{base:.1f}" font-size="{size}">{escape(text)}</text>'
