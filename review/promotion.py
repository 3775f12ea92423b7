"""Copies a release from one stack to another: what answers, and not on what or how much.

Refuses with every reason at once, and then writes nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.errors import StackError
from config.release import differing_keys
from config.stack.edit import with_keys_of
from config.stack.file import NAMESPACE, read_sections, read_text, sections_of, stack_file
from config.stack.sections import StackConfig
from config.stack.sections.promotion import Promotion as Gate
from config.stack.weights import draft_lock_of, lock_of
from config.units import duration
from planner.fit import fit
from planner.report.summary import headline
from planner.stack_request import request_of_stack
from review.change import shown_setting
from stager.listing import FULL_COMMIT

_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class CopiedKey:
    """One key of the release that differs; None where a stack does not set it."""

    key: str
    source: str | None
    target: str | None


@dataclass(frozen=True)
class Promotion:
    """What a promotion changes in the target's file."""

    file: Path
    keys: list[CopiedKey]
    """Empty: the release is the same."""
    before: str
    after: str
    """Text of the target's file."""
    planned: str = ""
    """What the planner says of the target with the release, in a line."""
    gate: str = ""
    """What `pulumi up` of the target asks of the release. Empty: nothing."""

    @property
    def changed_lines(self) -> int:
        """Lines of the file that are written anew, or removed."""
        matcher = difflib.SequenceMatcher(None, self.before.splitlines(), self.after.splitlines(), autojunk=False)
        return sum(max(b - a, d - c) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal")


def promotion(source: str, target: str, program: Path = Path()) -> Promotion:
    """The promotion of the release of `source` to `target`.

    Raises StackError with every reason against it.
    """
    compared = compared_stacks(source, target, program)
    if not compared.keys:
        return compared
    theirs = StackConfig.parse(read_sections(stack_file(source, program)))
    reasons = list(_unpinned(theirs))
    try:
        after = with_keys_of(
            compared.before, read_text(stack_file(source, program)), [key.key for key in compared.keys]
        )
        promoted = StackConfig.parse(sections_of(after, compared.file))
        planned = _planned(promoted, program)
    except StackError as error:
        raise StackError([*reasons, *error.faults]) from None
    if reasons:
        raise StackError(reasons)
    gate = _gate(promoted.promotion, target)
    return Promotion(compared.file, compared.keys, compared.before, after, planned, gate)


def compared_stacks(source: str, target: str, program: Path = Path()) -> Promotion:
    """In which keys the releases of two stacks differ, without a change. Raises StackError if a file is invalid."""
    if source == target:
        raise StackError([f"stack name: '{source}' is both: expected two stacks"])
    faults: list[str] = []
    stacks = [_stack(name, program, faults) for name in (source, target)]
    if faults:
        raise StackError(faults)
    theirs, ours = (StackConfig.parse(sections) for sections in stacks)
    file = stack_file(target, program)
    keys = [CopiedKey(path, *(_shown(sections, path) for sections in stacks)) for path in differing_keys(theirs, ours)]
    text = read_text(file)
    return Promotion(file, keys, text, text)


def _stack(name: str, program: Path, faults: list[str]) -> dict[str, Any]:
    """The values of a stack file. Adds its faults to `faults`, with the stack's name."""
    try:
        sections = read_sections(stack_file(name, program))
        StackConfig.parse(sections)
    except StackError as error:
        faults.extend(f"{name}: {fault}" for fault in error.faults)
        return {}
    return sections


def _shown(sections: dict[str, Any], path: str) -> str | None:
    section, key = path.split(".")
    values = sections.get(section) or {}
    return shown_setting(path, values[key]) if key in values else None


def _unpinned(stack: StackConfig) -> Iterator[str]:
    draft, image = stack.model.draft, stack.engine.image
    revisions = {"model.revision": stack.model.revision} | ({"model.draft.revision": draft.revision} if draft else {})
    for key, revision in revisions.items():
        if not FULL_COMMIT.fullmatch(revision):
            yield (
                f"{NAMESPACE}{key}: '{revision}' may be another model tomorrow: expected a full commit of 40 hex "
                "digits; pin it in the stack that the release comes from, and deploy that first"
            )
    if not _DIGEST.fullmatch(image):
        yield (
            f"{NAMESPACE}engine.image: '{image}' names a tag, which may become another image: expected "
            "name@sha256:DIGEST; pin it in the stack that the release comes from, and deploy that first"
        )


def _gate(gate: Gate, target: str) -> str:
    if gate.source is None:
        return ""
    soak = f" for {gate.soak}" if gate.soak else ""
    otherwise = "warns if it has not" if gate.allow_unproven else "refuses it until then"
    return f"`pulumi up` of {target} expects that the release has run on {gate.source}{soak}, and {otherwise}"


def _planned(stack: StackConfig, program: Path) -> str:
    """What the planner says of a stack. Raises StackError if the plan is rejected."""
    request = request_of_stack(stack, lock_of(stack, program), draft_lock_of(stack, program))
    plan = fit(request)
    if plan.verdict == "rejected":
        raise StackError([f"{problem.code}: {problem.message} {problem.fix}".strip() for problem in plan.problems])
    parts = [headline(request, plan)]
    if plan.context:
        parts.append(f"context {plan.context:,}")
    if plan.weights_bytes and plan.download_seconds:
        parts.append(f"{plan.weights_bytes / 1e9:,.1f} GB to stage, about {duration(plan.download_seconds)}")
    if plan.cost_per_hour_usd is not None:
        parts.append(f"{plan.cost_per_hour_usd:,.2f} $/h")
    return "; ".join(parts)
