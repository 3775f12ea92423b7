"""Draws a plan as SVG, for pull requests and documents.

Uses no external fonts or styles, and scales with the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from textwrap import wrap

from engines.plan import Plan
from engines.request import FitRequest
from planner.report.bars import Bar, bars
from planner.report.summary import facts, headline

_COLOURS = {
    "weights": "#3b6ea5",
    "overhead": "#b8740a",
    "perhaps overhead": "#f2c879",
    "KV cache": "#3d8550",
    "free": "#d9d9d9",
}
_LIGHT = {"perhaps overhead", "free"}
"""Parts whose number is written in black."""
_VERDICTS = {"fits": "#3d8550", "tight": "#b8740a", "rejected": "#b3312c", "unknown": "#7a4f9a"}
_WIDTH, _MARGIN, _LEFT, _BAR, _TOP = 900, 20, 100, 780, 78
_BAR_HEIGHT, _ROW, _LINE = 26, 56, 20
_CHARACTERS = 128
"""Of a line of text that fits in the width."""


def picture(request: FitRequest, plan: Plan) -> str:
    """The plan as SVG text. Without known memory it has the headline, the facts and the reasons only."""
    drawn = bars(request, plan)
    length = max((bar.length_gib for bar in drawn), default=1.0)
    below = _TOP + len(drawn) * _ROW
    parts = [*_headline(request, plan)]
    for index, bar in enumerate(drawn):
        parts += _row(bar, _TOP + index * _ROW, _BAR / length)
    if drawn:
        parts += _legend(below - 8)
        below += 2 * _LINE
    for label, fact in facts(request, plan):
        parts.append(_text(_MARGIN, below, label, 12))
        for line in wrap(fact, _CHARACTERS):
            parts.append(_text(_LEFT, below, line, 12))
            below += _LINE
    for reason in _reasons(plan):
        parts.append(_text(_MARGIN, below, reason, 12))
        below += _LINE
    size = f'width="{_WIDTH}" height="{below}" viewBox="0 0 {_WIDTH} {below}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="sans-serif">',
            f'<rect width="{_WIDTH}" height="{below}" fill="white"/>',
            *parts,
            "</svg>\n",
        )
    )


def _headline(request: FitRequest, plan: Plan) -> Iterator[str]:
    verdict, rest = headline(request, plan).split(": ", 1)
    yield f"<title>{escape(verdict)}: {escape(rest)}</title>"
    yield f'<rect x="{_MARGIN}" y="14" width="82" height="26" rx="4" fill="{_VERDICTS[plan.verdict]}"/>'
    yield _text(61, 32, verdict, 14, fill="white", anchor="middle")
    yield _text(114, 33, rest, 16)


def _row(bar: Bar, top: int, scale: float) -> Iterator[str]:
    yield _text(_MARGIN, top + 18, bar.label, 12)
    left = float(_LEFT)
    for segment in bar.segments:
        width = segment.gib * scale
        title = f"<title>{escape(segment.name)} {segment.gib:.2f} GiB</title>"
        box = f'x="{left:.1f}" y="{top}" width="{width:.1f}" height="{_BAR_HEIGHT}" fill="{_COLOURS[segment.name]}"'
        yield f"<rect {box}>{title}</rect>"
        if width > 24:
            fill = "black" if segment.name in _LIGHT else "white"
            yield _text(left + width / 2, top + 17, f"{segment.gib:.1f}", 11, fill=fill, anchor="middle")
        left += width
    edge = _LEFT + bar.total_gib * scale
    yield f'<line x1="{edge:.1f}" x2="{edge:.1f}" y1="{top - 5}" y2="{top + _BAR_HEIGHT + 5}" stroke="black"/>'
    yield _text(edge, top - 9, f"{bar.total_gib:.1f} GiB in all", 11, anchor="end")


def _legend(top: int) -> Iterator[str]:
    for index, (name, colour) in enumerate(_COLOURS.items()):
        left = _LEFT + index * 150
        yield f'<rect x="{left}" y="{top}" width="12" height="12" fill="{colour}"/>'
        yield _text(left + 18, top + 11, name, 12)


def _reasons(plan: Plan) -> Iterator[str]:
    for problem in plan.problems:
        yield from wrap(f"{problem.code}: {problem.message} {problem.fix}", _CHARACTERS)


def _text(left: float, base: float, text: str, size: int, *, fill: str = "black", anchor: str = "start") -> str:
    place = f'x="{left:.1f}" y="{base:.1f}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(text)}</text>"
