"""The report of deployed stacks: the engine's preview of each, beside what the stack runs now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from config.errors import StackError
from config.stack.sections import StackConfig
from config.stack.weights import draft_lock_of, lock_of, lock_sha256
from promotion.history import EngineRecords, NoRecordsError, Records, StateRecords
from promotion.proof import Proof, Release, proof_of
from review.change import Deployment, Report, StackChange, in_order
from review.checkout import (
    SHORT,
    ReviewError,
    StackAt,
    commit_of,
    has_changes,
    plan_working_tree,
    reviewed_commit,
)
from review.deployed.events import EngineRun, run_engine
from review.deployed.interruption import interruption
from stager.listing import Listing
from stager.lockfile import parse_lock


def previewed_report(names: Sequence[str], policies: Sequence[str] = (), base: str | None = None) -> Report:
    """The report of these stacks, from the current directory. `policies`: options of `pulumi preview`.

    `base`: what a pull request merges into; the report then names the commit of its branch, not the merge.

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
    head = reviewed_commit(commit_of(base) if base else "")[:SHORT]
    return Report(
        base="",
        head=f"{head} with uncommitted changes" if has_changes() else head,
        stacks=in_order(listed),
        unchanged=len(changes) - len(listed),
    )


def previewed(
    file: str, after: StackAt, run: EngineRun, records: StateRecords, now: datetime | None = None
) -> StackChange:
    """One stack as the engine previewed it. Raises ReviewError if the engine gives no records of it."""
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


def _deployed(stack: str, records: StateRecords) -> StackAt | None:
    """What the stack runs: its last successful update, and its outputs. None: it has neither."""
    try:
        outputs = records.outputs(stack)
        if "plan" not in outputs:
            return None
        last = next((update for update in records.updates(stack) if update.succeeded), None)
        lock = _lock(stack, (outputs.get("release") or {}).get("lock_sha256"), records)
    except NoRecordsError as error:
        raise ReviewError(f"the records of {stack} cannot be read: {error}") from None
    return StackAt(last.sections or {} if last else {}, outputs["plan"], lock=lock)


def _lock(stack: str, sha256: str | None, records: StateRecords) -> Listing | None:
    """The lock that the deployed weights were staged by, found in a ConfigMap of the state by its hash. None: none."""
    if not sha256:
        return None
    maps = (each["outputs"] for each in records.resources(stack) if each["type"] == "kubernetes:core/v1:ConfigMap")
    texts = (text for outputs in maps for text in (outputs.get("data") or {}).values())
    found = next((text for text in texts if lock_sha256(text) == sha256), None)
    return parse_lock(found, f"in the state of {stack}") if found else None


def _proof(stack: str, after: StackAt, records: Records, now: datetime | None) -> Proof | None:
    try:
        config = StackConfig.parse(after.sections)
        release = Release.of(stack, config, lock_of(config), draft_lock_of(config))
    except StackError:
        return None  # the stack file has a fault, which the report names
    return proof_of(release, records, now=now)
