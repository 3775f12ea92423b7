"""The report of deployed stacks: the engine's preview of each, beside what the stack runs now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from config.errors import StackError
from config.stack.sections import StackConfig
from config.stack.weights import read_lock
from promotion.history import EngineRecords, NoRecordsError, Records
from promotion.proof import Proof, Release, proof_of
from review.change import Deployment, Report, StackChange, in_order
from review.checkout import (
    SHORT,
    ReviewError,
    StackAt,
    commit_of,
    has_changes,
    plan_working_tree,
)
from review.deployed.events import EngineRun, run_engine
from review.deployed.interruption import interruption


def previewed_report(names: Sequence[str], policies: Sequence[str] = ()) -> Report:
    """The report of these stacks, from the current directory. `policies`: options of `pulumi preview`.

    Raises ReviewError if a stack has no file here, or if the engine says nothing of it.
    """
    planned = plan_working_tree()
    files = {name: f"Pulumi.{name}.yaml" for name in names}
    if missing := [file for file in files.values() if file not in planned]:
        raise ReviewError(f"--stack: {', '.join(missing)}: no such stack file in this directory")
    changes = [
        previewed(file, planned[file], run_engine("preview", "--stack", name, *policies), EngineRecords())
        for name, file in files.items()
    ]
    listed = [change for change in changes if not _is_nothing(change)]
    head = commit_of("HEAD")[:SHORT]
    return Report(
        base="",
        head=f"{head} with uncommitted changes" if has_changes() else head,
        stacks=in_order(listed),
        unchanged=len(changes) - len(listed),
    )


def previewed(file: str, after: StackAt, run: EngineRun, records: Records, now: datetime | None = None) -> StackChange:
    """One stack as the engine previewed it. Raises ReviewError if the engine gives no records of it."""
    after = replace(after, lock=None)  # nothing deployed has a lock to compare it with; the engine shows the stage Job
    change = StackChange(file, _deployed(StackChange(file, None, after).name, records), after)
    return replace(
        change,
        deployment=Deployment(
            run=run,
            serving=interruption(run.steps, change.before, after) if not run.errors else None,
            proof=_proof(change.name, after, records, now),
        ),
    )


def _is_nothing(change: StackChange) -> bool:
    """Whether `pulumi up` would change nothing, and refuse nothing."""
    steps = change.deployment.run.steps if change.deployment else ()
    return change.before is not None and not steps and change.verdict != "refused"


def _deployed(stack: str, records: Records) -> StackAt | None:
    """What the stack runs: its last successful update, and its outputs. None: it has neither."""
    try:
        outputs = records.outputs(stack)
        if "plan" not in outputs:
            return None
        last = next((update for update in records.updates(stack) if update.succeeded), None)
    except NoRecordsError as error:
        raise ReviewError(f"the records of {stack} cannot be read: {error}") from None
    return StackAt(last.sections or {} if last else {}, outputs["plan"])


def _proof(stack: str, after: StackAt, records: Records, now: datetime | None) -> Proof | None:
    try:
        config = StackConfig.parse(after.sections)
        lock = read_lock(Path(config.stage.lock), config.model) if config.stage.lock else None
    except StackError:
        return None  # the stack file has a fault, which the report names
    return proof_of(Release(stack, config, lock.sha256 if lock else None), records, now=now)
