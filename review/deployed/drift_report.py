"""The drift of a stack for a terminal, an issue, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

from review.deployed.drift import Drift
from review.phrases import counted, shortened
from review.text import code, code_block, visible

_MOST_LINES = 200
_HEAL = "`pulumi up --refresh` undoes what differs in resources. Fields that others wrote stay until they are removed."


def terminal(drift: Drift) -> str:
    """The drift in plain text."""
    if drift.is_clean:
        return f"{visible(drift.stack)}: no drift"
    return "\n".join(
        [f"{visible(drift.stack)} has drifted: {_counts(drift)}", *(f"  {line}" for line in _lines(drift))]
    )


def markdown(drift: Drift) -> str:
    """The drift as the text of an issue."""
    if drift.is_clean:
        return f"{code(drift.stack)} has no drift.\n"
    lines = list(_lines(drift))
    more = [f"  and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    parts = [
        f"### {code(drift.stack)} has drifted: {_counts(drift)}",
        code_block([*lines[:_MOST_LINES], *more], ""),
        _HEAL,
    ]
    return "\n\n".join(parts) + "\n"


def as_json(drift: Drift) -> str:
    """The drift as JSON."""
    return json.dumps(asdict(drift), indent=2)


def _counts(drift: Drift) -> str:
    parts = [counted(len(drift.steps), "resource") + " of the state"] if drift.steps else []
    return " and ".join(
        [*parts, *([counted(len(drift.writes), "object") + " written by others"] if drift.writes else [])]
    )


def _lines(drift: Drift) -> Iterator[str]:
    for step in drift.steps:
        what = "is gone" if step.operation == "delete" else f"differs: {shortened(step.paths)}"
        yield visible(f"{step.kind} {step.name} {what}")
    for write in drift.writes:
        yield visible(f"{write.kind} {write.name}: {write.manager} wrote {shortened(write.paths)}, {write.time}")
