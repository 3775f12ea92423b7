"""The sentences of a report, the same in a comment and on a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from config.units import duration
from review.change import Deployment, StackChange
from review.checkout import StackAt
from review.deployed.events import Step
from review.figures import HOURS_PER_MONTH, MINUS, cost_per_hour, dollars, gigabytes, machine, staged_bytes

_MOST_PATHS = 5

_VERDICTS = {
    "fits": "fits",
    "tight": "is tight",
    "rejected": "is rejected: `pulumi up` would create nothing",
    "refused": "is refused: `pulumi up` would create nothing",
    "unknown": "is unknown to the planner",
    "invalid": "is invalid: `pulumi up` would create nothing",
    "deleted": "has no stack file any more",
}


def headline(change: StackChange, escaped: Callable[[str], str]) -> str:
    """What a reviewer must know, without the stack's name: verdict, machine, context, download and cost.

    `escaped` makes names safe for where the line goes.
    """
    return " · ".join(_headline(change, escaped))


def notes(change: StackChange, escaped: Callable[[str], str]) -> Iterator[str]:
    """What follows from the change, one sentence or two each. `escaped`: as for `headline`."""
    if change.kind == "deleted":
        yield (
            "What the stack runs goes on running: `pulumi destroy` ends it, and needs its stack file. Restore the file "
            "first if the stack still exists."
        )
        return
    if change.deployment:
        yield from (f"**{title}** {escaped(text)}" for title, text in _deployment_notes(change, change.deployment))
        return
    if change.before and not change.settings and change.before.sections == change.after_or_empty.sections:
        yield (
            "The stack file is the same. Its lock, the planner or the catalogue changed: each column is by the planner "
            "of its own commit."
        )
    if change.verdict == "tight":
        yield "It fits at the likely end of the estimate, and not at its worst end."
    if change.stages_other_weights and change.after and change.after.plan:
        yield _staging(change.after, new=change.before is None)


def problems(change: StackChange) -> Iterator[tuple[str, str]]:
    """What is wrong with the new side: a code (empty for a fault of the file) and a text each."""
    after = change.after_or_empty
    for fault in after.faults:
        yield "", fault
    for problem in (after.plan or {}).get("problems", ()):
        yield str(problem["code"]), f"{problem['message']} {problem['fix']}".strip()
    if change.verdict == "refused" and change.deployment:
        yield from _refusals(change.deployment)


def new_warnings(change: StackChange) -> Iterator[tuple[str, str]]:
    """Warnings of the new plan that the old one did not have: a code and a text each."""
    sides = (change.before, change.after)
    old, new = ([dict(each) for each in ((side and side.plan) or {}).get("warnings", ())] for side in sides)
    yield from ((str(each["code"]), str(each["message"])) for each in new if each not in old)


def steps_title(steps: Sequence[Step]) -> str:
    """How many resources are created, updated, replaced and deleted."""
    counts = Counter(step.operation for step in steps)
    order = ("create", "update", "replace", "delete")
    return ", ".join(f"{counts[operation]} to {operation}" for operation in order if counts[operation])


def shortened(paths: Sequence[str]) -> str:
    """The first few paths, and how many more."""
    more = len(paths) - _MOST_PATHS
    return ", ".join(paths[:_MOST_PATHS]) + (f" and {more} more" if more > 0 else "")


def _refusals(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """Why the engine or the promotion refuses the change."""
    for violation in deployment.run.violations:
        if violation.is_mandatory:
            yield violation.rule, violation.message
    for error in deployment.run.errors:
        yield "", error
    if deployment.proof and deployment.proof.is_refused:
        yield from (("promotion", reason) for reason in deployment.proof.reasons)


def _deployment_notes(change: StackChange, deployment: Deployment) -> Iterator[tuple[str, str]]:
    """What happens, the way back, and where the release ran: a title and a text each."""
    if serving := deployment.serving:
        yield "Then", serving.then
        yield "Back", serving.back
    if deployment.run.capacity:
        yield "Capacity Block:", f"{deployment.run.capacity}."
    if (proof := deployment.proof) and change.verdict not in ("rejected", "invalid"):
        if proof.evidence:
            yield "Proven:", f"{proof.evidence}."
        elif proof.allowed:
            yield "Not proven,", f"and let through by promotion.allow_unproven: {'; '.join(proof.reasons)}."


def counted(number: int, thing: str) -> str:
    """A number of things, such as `1 key` or `2 keys`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def _headline(change: StackChange, escaped: Callable[[str], str]) -> Iterator[str]:
    verdict = _VERDICTS[change.verdict]
    was = change.before.verdict if change.before and (change.before.plan or change.before.faults) else ""
    if change.kind == "new":
        verdict = f"is new, and {verdict}"
    elif change.kind == "changed" and was and was != change.verdict:
        verdict += f" (was: {was})"
    yield verdict
    if change.verdict == "invalid":
        return
    old, new = (machine(side) if side else None for side in (change.before, change.after))
    if new and old != new:
        yield escaped(f"{old} → {new}" if old else new)
    if change.deployment and change.deployment.serving and change.verdict != "refused":
        yield escaped(change.deployment.serving.headline)
    yield from _context(change)
    if change.kind == "changed" and change.stages_other_weights and (size := staged_bytes(change.after_or_empty)):
        yield f"stages {gigabytes(size)} first"
    yield from _cost(change)


def _context(change: StackChange) -> Iterator[str]:
    old, new = ((side.plan or {}).get("context") if side else None for side in (change.before, change.after))
    if new and old != new:
        yield f"context {new:,}" if old is None else f"context {old:,} → {new:,}"


def _cost(change: StackChange) -> Iterator[str]:
    old, new = cost_per_hour(change.before), cost_per_hour(change.after)
    if change.kind == "deleted":
        if old is not None:
            yield f"{dollars(old)}/h"
        return
    if new is None:
        yield "cost not stated"
    elif old is None:
        yield f"{dollars(new)}/h"
    elif old == new:
        yield f"{dollars(new)}/h, unchanged"
    else:
        sign, more = ("+", new - old) if new > old else (MINUS, old - new)
        yield f"{dollars(new)}/h ({sign}{dollars(more)}/h, {sign}{dollars(more * HOURS_PER_MONTH)} a month)"


def _staging(after: StackAt, *, new: bool) -> str:
    size, seconds = staged_bytes(after), (after.plan or {}).get("download_seconds")
    what = "The weights" if new else "Other weights"
    amount = f", {gigabytes(size)}" if size else ""
    time = f" in about {duration(seconds)}" if seconds else ""
    return (
        f"{what}{amount}: the stager downloads and verifies them{time} before a server starts with them. What the "
        "volume has already is not downloaded again."
    )
