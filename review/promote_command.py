"""`python -m config promote FROM TO`: what it prints, and its exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from config.errors import StackError
from config.stack.file import replace_stack_file
from review.promotion import CopiedKey, compared_stacks, promotion
from review.text import visible

_WIDEST = 48


def promote(source: str, target: str, *, check: bool, dry_run: bool) -> int:
    """Copies the release of a stack in the current directory. Returns the exit status."""
    try:
        if check:
            return _check(source, target)
        promoted = promotion(source, target)
        if not promoted.keys:
            print(f"nothing to promote: {target} has the release of {source}")
            return 0
        gate = [f"gate: {promoted.gate}"] if promoted.gate else []
        print("\n".join([*_table(target, promoted.keys, "after"), promoted.planned, *gate]))
        if not dry_run:
            replace_stack_file(promoted.file, promoted.after)
    except StackError as error:
        reasons = "\n  ".join(map(visible, error.faults))
        print(
            f"config promote: {source} is not promoted to {target}, nothing was written:\n  {reasons}", file=sys.stderr
        )
        return 1
    lines = f"{promoted.changed_lines} lines" if promoted.changed_lines > 1 else "1 line"
    if dry_run:
        print(f"would write {promoted.file}: {lines}")
    else:
        print(f"wrote {promoted.file}: {lines}. Next: commit it and open a pull request.")
    return 0


def _check(source: str, target: str) -> int:
    keys = compared_stacks(source, target).keys
    print("\n".join(_table(target, keys, source)) if keys else f"{target} has the release of {source}")
    return 1 if keys else 0


def _table(target: str, keys: list[CopiedKey], other: str) -> Iterator[str]:
    """A line for each key that differs: the target's value, and the one of the other stack."""
    rows = [("", target, other), *((key.key, _cell(key.target), _cell(key.source)) for key in keys)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for key, ours, theirs in rows:
        yield f"{key:<{widths[0]}}  {ours:<{widths[1]}}  {theirs}"


def _cell(value: str | None) -> str:
    """A value, shortened in its middle: commits and digests differ at both ends."""
    text = "(unset)" if value is None else visible(value)
    half = _WIDEST // 2
    return text if len(text) <= _WIDEST else f"{text[: half - 1]}…{text[-half:]}"
