"""The report as Markdown, for a comment or a run's summary.

A comment has a limit of 65,536 characters. Details are left out first, then tables and reasons; verdicts never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

from review.change import LockedFile, Report, Setting, StackChange
from review.deployed.events import EngineRun, Step
from review.figures import Row, gigabytes
from review.phrases import counted, headline, new_warnings, notes, problems, shortened, steps_title
from review.text import code, code_block, prose

MARKER, PREVIEW_MARKER = "<!-- heavylift:review -->", "<!-- heavylift:preview -->"
"""First lines of the comments of `review plan` and `review preview`, by which the next run finds them."""

LIMIT = 60_000
"""Characters of a report; GitHub refuses more than 65,536 in a comment."""

NOTHING = {
    MARKER: f"{MARKER}\nThis pull request changes the plan of no stack.\n",
    PREVIEW_MARKER: f"{PREVIEW_MARKER}\nThis pull request changes nothing that is deployed.\n",
}
"""Stands in a comment whose earlier report no longer holds."""

_ICONS = {
    "fits": "✅",
    "tight": "⚠️",
    "rejected": "❌",
    "invalid": "❌",
    "refused": "❌",
    "unknown": "❔",
    "deleted": "🗑️",
}
_WAY_TO_ALL = "`python -m review plan --base REF` prints everything."
_ROOM_FOR_NOTES = 500
_MOST_FILES = 50
_MOST_NAME = 100


class _Rank(IntEnum):
    """What is left out last to first."""

    VERDICT = 0
    REASONS = 1
    FIGURES = 2
    DETAILS = 3


@dataclass(frozen=True)
class _Part:
    rank: _Rank
    text: str


def markdown(report: Report) -> str:
    """The report, at most `LIMIT` characters; empty if no stack changes."""
    if not report.stacks:
        return ""
    footer = _footer(report)
    parts = [part for change in report.stacks for part in _parts(change)]
    marker = MARKER if report.base else PREVIEW_MARKER
    room = LIMIT - len(marker) - len(footer) - _ROOM_FOR_NOTES
    kept = _fitting(parts, room)
    left_out = len(parts) - len(kept)
    cut = (
        [f"> {counted(left_out, 'part')} of the report left out, since a comment has a limit. {_WAY_TO_ALL}"]
        if left_out
        else []
    )
    titles = [part for part in kept if part.rank is _Rank.VERDICT]
    body = [part.text for part in kept] if len(kept) > len(titles) else _titles(report, titles, room)
    return "\n\n".join([marker + "\n" + body[0], *body[1:], *cut, footer]) + "\n"


def _fitting(parts: list[_Part], room: int) -> list[_Part]:
    """The parts without as many of the highest rank, last first, as are too many."""
    kept = list(parts)
    excess = sum(len(part.text) + 2 for part in kept) - room
    for rank in (_Rank.DETAILS, _Rank.FIGURES, _Rank.REASONS):
        for index in [index for index in reversed(range(len(kept))) if kept[index].rank is rank]:
            if excess <= 0:
                return kept
            excess -= len(kept.pop(index).text) + 2
    return kept


def _titles(report: Report, titles: list[_Part], room: int) -> list[str]:
    """As many titles as there is room for, and a count of the verdicts of the others."""
    shown: list[str] = []
    for title in titles:
        room -= len(title.text) + 2
        if room < 0:
            break
        shown.append(title.text)
    if others := report.stacks[len(shown) :]:
        verdicts = Counter(each.verdict for each in others)
        shown.append(
            f"### … and {len(others)} more stacks: "
            + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        )
    return shown


def _parts(change: StackChange) -> Iterator[_Part]:
    name = change.name if len(change.name) <= _MOST_NAME else change.name[: _MOST_NAME - 1] + "…"
    yield _Part(_Rank.VERDICT, f"### {_ICONS[change.verdict]} {code(name)} {headline(change, prose)}")
    if wrong := list(problems(change)):
        kind = "CAUTION" if change.verdict in ("rejected", "invalid", "refused") else "WARNING"
        reasons = "\n>\n".join(f"> {_named(*each)}" for each in wrong)
        yield _Part(_Rank.REASONS, f"> [!{kind}]\n{reasons}")
    if said := list(notes(change, prose)):
        yield _Part(_Rank.REASONS, "\n\n".join(said))
    if change.rows:
        yield _Part(_Rank.FIGURES, _table(change))
    if warned := list(new_warnings(change)):
        yield _details(counted(len(warned), "new warning"), "\n".join(f"- {_named(*each)}" for each in warned))
    if change.deployment:
        yield from _deployment(change.deployment.run)
    if change.files:
        yield _details(_files_title(change), _files(change.files))
    if change.settings:
        yield _details(f"{counted(len(change.settings), 'key')} of the stack file", _settings(change.settings))


def _deployment(run: EngineRun) -> Iterator[_Part]:
    """The steps, and what policies advise."""
    if run.steps:
        yield _details(steps_title(run.steps), code_block([_step(step) for step in run.steps[:_MOST_FILES]], "diff"))
    if advised := [each for each in run.violations if not each.is_mandatory]:
        lines = "\n".join(f"- {_named(each.rule, each.message)}" for each in advised)
        yield _details(f"policies: {counted(len(advised), 'advisory violation')}", lines)


def _step(step: Step) -> str:
    mark = {"create": "+", "delete": "-"}.get(step.operation, "!")
    again = " (replaced)" if step.operation == "replace" else ""
    return f"{mark} {step.kind} {step.name}{again}  {shortened(step.paths)}".rstrip()


def _named(name: str, text: str) -> str:
    return f"**{prose(name)}** {prose(text)}" if name else prose(text)


def _table(change: StackChange) -> str:
    if change.kind == "changed":
        names = "deployed | proposed" if change.deployment else "before | after"
        head = [f"| | {names} | |", "|:--|--:|--:|:--|"]
        lines = [f"| {row.label} | {_cell(row, row.before)} | {_new(row)} | {row.change} |" for row in change.rows]
    else:
        head = ["| | |", "|:--|--:|"]
        lines = [f"| {row.label} | {_cell(row, row.after or row.before)} |" for row in change.rows]
    return "\n".join([*head, *lines])


def _cell(row: Row, value: str) -> str:
    if not value:
        return ""
    return code(value) if row.is_name else prose(value)


def _new(row: Row) -> str:
    cell = _cell(row, row.after)
    return f"**{cell}**" if cell and row.differs else cell


def _files_title(change: StackChange) -> str:
    total = len(change.after.lock.files) if change.after and change.after.lock else 0
    return f"{counted(len(change.files), 'file')} of the lock added, changed or gone; the lock has {total}"


def _files(files: list[LockedFile]) -> str:
    lines = [_file(file) for file in files[:_MOST_FILES]]
    if len(files) > _MOST_FILES:
        lines.append(f"  and {len(files) - _MOST_FILES} more")
    return code_block(lines, "diff")


def _file(file: LockedFile) -> str:
    old, new = file.before, file.after
    if old and new:
        size = gigabytes(new.size) if old.size == new.size else f"{gigabytes(old.size)} → {gigabytes(new.size)}"
        return f"! {file.path}  {size}  sha256 {str(old.sha256)[:8]}… → {str(new.sha256)[:8]}…"
    one = new or old
    return f"{'+' if new else '-'} {file.path}  {gigabytes(one.size)}" if one else ""


def _settings(settings: list[Setting]) -> str:
    lines = []
    for setting in settings:
        lines += [f"- {setting.key}: {setting.before}"] if setting.before is not None else []
        lines += [f"+ {setting.key}: {setting.after}"] if setting.after is not None else []
    return code_block(lines, "diff")


def _details(title: str, text: str) -> _Part:
    return _Part(_Rank.DETAILS, f"<details><summary>{title}</summary>\n\n{text}\n\n</details>")


def _footer(report: Report) -> str:
    others = f"{counted(report.unchanged, 'other stack')} unchanged"
    read = (
        [f"{code(report.head)} onto {code(report.base)}", "plans only: no state and no cluster was read"]
        if report.base
        else [f"{code(report.head)} onto what is deployed", f"fingerprint {code(report.fingerprint)}"]
    )
    facts = [*read, others]
    return "\n\n".join([f"<sub>{' · '.join([*facts, *map(prose, report.notes)])}</sub>"])
