"""The report for a terminal, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from review.change import Report, StackChange
from review.checkout import StackAt
from review.deployed.events import EngineRun
from review.markdown import markdown
from review.phrases import counted, headline, new_warnings, notes, problems, shortened, steps_title
from review.text import visible


def terminal(report: Report) -> str:
    """The report in plain text."""
    if not report.stacks:
        if not report.base:
            return f"{report.head} changes nothing that is deployed ({report.unchanged} compared)."
        return f"No stack's plan differs between {report.base} and {report.head} ({report.unchanged} compared)."
    lines = [line for change in report.stacks for line in (*_lines(change), "")]
    notes_ = [f"note: {visible(note)}" for note in report.notes]
    base = report.base or "what is deployed"
    return "\n".join(
        [*lines, *notes_, f"{report.head} onto {base}; {counted(report.unchanged, 'other stack')} unchanged"]
    )


def as_json(report: Report) -> str:
    """The report as JSON: base, head, notes, unchanged, the comment, and for each stack the plans and what differs."""
    return json.dumps(
        {
            "base": report.base,
            "head": report.head,
            "fingerprint": report.fingerprint,
            "unchanged": report.unchanged,
            "notes": list(report.notes),
            "markdown": markdown(report),
            "stacks": [_stack(change) for change in report.stacks],
        },
        indent=2,
        default=str,
    )


def _lines(change: StackChange) -> Iterator[str]:
    yield f"{visible(change.name)} {headline(change, visible).replace('`', '')}"
    for name, text in problems(change):
        yield f"  {f'{visible(name)}: ' if name else ''}{visible(text)}"
    yield from (f"  {note.replace('`', '').replace('**', '')}" for note in notes(change, visible))
    labels = max((len(row.label) for row in change.rows), default=0)
    before = max((len(visible(row.before)) for row in change.rows), default=0)
    for row in change.rows:
        old, new = visible(row.before), visible(row.after)
        arrow = "→" if change.kind == "changed" and row.differs else " "
        yield f"  {row.label:<{labels}}  {old:>{before}} {arrow} {new}  {row.change}".rstrip()
    yield from (f"  new warning {visible(name)}: {visible(text)}" for name, text in new_warnings(change))
    for setting in change.settings:
        yield f"  {visible(setting.key)}: {visible(setting.before or 'unset')} → {visible(setting.after or 'unset')}"
    if change.deployment:
        yield from _deployment(change.deployment.run)
    if change.files:
        yield f"  {counted(len(change.files), 'file')} of the lock added, changed or gone; --format markdown lists them"


def _deployment(run: EngineRun) -> Iterator[str]:
    if run.steps:
        yield f"  {steps_title(run.steps)}:"
    for step in run.steps:
        yield visible(f"    {step.operation:<8}{step.kind} {step.name}  {shortened(step.paths)}".rstrip())
    for each in run.violations:
        if not each.is_mandatory:
            yield f"  advisory {visible(each.rule)}: {visible(each.message)}"


def _stack(change: StackChange) -> dict[str, Any]:
    return {
        "stack": change.name,
        "file": change.file,
        "change": change.kind,
        "verdict": change.verdict,
        "before": _side(change.before),
        "after": _side(change.after),
        "settings": [asdict(setting) for setting in change.settings],
        "lock_files": [asdict(file) for file in change.files],
        "deployment": asdict(change.deployment) if change.deployment else None,
    }


def _side(stack: StackAt | None) -> dict[str, Any] | None:
    return None if stack is None else {"plan": stack.plan, "faults": list(stack.faults)}
