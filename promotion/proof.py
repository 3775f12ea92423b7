"""Whether a release ran before the stack takes it: in this stack, or in the one that its promotion names.

A release that this stack ran before is proven, so that going back is never refused. Otherwise, the other stack must run
it now: taken up from a clean checkout, answered, and for the time that the promotion asks for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from config.errors import StackError
from config.release import differing_keys
from config.stack.sections import StackConfig
from config.stack.weights import WeightsLock
from config.units import duration
from promotion.history import NoRecordsError, Records, Update

_SHORT = 7


@dataclass(frozen=True)
class Proof:
    """What the records say of a release, in sentences for people."""

    evidence: str = ""
    """Where it ran. Empty: it is not proven."""
    reasons: Sequence[str] = ()
    """Everything that is missing for a proof. Empty: it is proven."""
    allowed: bool = False
    """Whether the stack file lets it through without a proof."""

    @property
    def is_refused(self) -> bool:
        """Whether `pulumi up` refuses the release."""
        return bool(self.reasons) and not self.allowed


@dataclass(frozen=True)
class Release:
    """A stack with what `pulumi up` would run, for comparison with records."""

    stack: str
    config: StackConfig
    """With the overrides of the environment."""
    lock_sha256: str | None = None
    """SHA-256 of the weights lock file. None: no lock."""
    draft_lock_sha256: str | None = None
    """SHA-256 of the lock file of the draft model. None: no draft model, or no lock."""

    @classmethod
    def of(cls, stack: str, config: StackConfig, lock: WeightsLock | None, draft_lock: WeightsLock | None) -> Self:
        """The release of a stack with the locks that were read for it."""
        return cls(stack, config, lock.sha256 if lock else None, draft_lock.sha256 if draft_lock else None)


def proof_of(release: Release, records: Records, prefix: str = "", now: datetime | None = None) -> Proof | None:
    """What the records say of a release. None: the stack names no stack that runs it first.

    `prefix`: organization and project of both stacks, with slashes; empty: the engine's own.
    """
    promotion = release.config.promotion
    if promotion.source is None:
        return None
    try:
        promotion.require_another(release.stack)
    except StackError as error:
        return Proof(reasons=error.faults)
    asked = release.stack
    try:
        if before := next(_runs_of(release, records.updates(prefix + asked)), None):
            return Proof(
                evidence=f"the stack {release.stack} ran this release before, {_at(before)}; its nodes are not compared"
            )
        asked = promotion.source
        updates = [each for each in records.updates(prefix + asked) if each.kind in ("update", "destroy")]
        outputs = records.outputs(prefix + asked) if updates else {}
    except NoRecordsError as error:
        return Proof(reasons=[f"the records of {asked} cannot be read: {error}"], allowed=promotion.allow_unproven)
    since = _since(release, updates)
    seconds = ((now or datetime.now(UTC)) - since).total_seconds() if since else 0.0
    if reasons := list(_reasons(release, updates, outputs, seconds)):
        return Proof(reasons=reasons, allowed=promotion.allow_unproven)
    return Proof(
        evidence=f"the stack {asked} has run this release for {duration(seconds)}, {_at(updates[0])}, and it answered"
    )


def _reasons(release: Release, updates: Sequence[Update], outputs: Mapping[str, Any], seconds: float) -> Iterator[str]:
    """What is missing. `seconds`: for how long the other stack has run the release without a break."""
    promotion = release.config.promotion
    source = promotion.source
    if not updates:
        yield f"{source} was never taken up"
        return
    last = updates[0]
    if last.kind == "destroy":
        yield f"{source} was destroyed, {_at(last)}"
        return
    if not last.succeeded:
        how = "failed" if last.result == "failed" else f"is {last.result.replace('-', ' ')}"
        yield f"the last update of {source} {how}, {_at(last)}"
    differences = list(_differences(release, last, outputs))
    yield from differences
    if not last.commit:
        yield f"{source} was taken up outside of a git checkout, {_at(last)}"
    elif not last.is_clean:
        yield f"{source} was taken up from a checkout with uncommitted changes, {_at(last)}"
    if (answered := outputs.get("answered")) != "yes":
        yield f"whether the server of {source} answered is {answered or 'unknown: it has no output `answered`'}"
    if not differences and seconds < promotion.soak_seconds:
        yield f"{source} has run it for {duration(seconds)}: expected {promotion.soak}"


def _differences(release: Release, last: Update, outputs: Mapping[str, Any]) -> Iterator[str]:
    """Where the other stack runs something else: by its file, or by what its environment put in the file's place."""
    source = release.config.promotion.source
    theirs = _parsed(last)
    if theirs is None:
        yield f"the stack file of {source} is not one of this version, {_at(last)}"
        return
    if keys := differing_keys(theirs, release.config):
        yield f"{source} runs another release: {', '.join(keys)} differ"
        return
    runs = outputs.get("release") or {}
    if runs.get("image") != release.config.engine.image:
        yield f"{source} runs the image {runs.get('image')}: expected {release.config.engine.image}"
    if runs.get("lock_sha256") != release.lock_sha256:
        yield f"{source} runs weights of another lock file of the same name: expected SHA-256 {release.lock_sha256}"
    if (runs.get("draft") or {}).get("lock_sha256") != release.draft_lock_sha256:
        yield (
            f"{source} runs a draft model of another lock file of the same name: expected SHA-256 "
            f"{release.draft_lock_sha256}"
        )


def _since(release: Release, updates: Sequence[Update]) -> datetime | None:
    """When the stack began to run the release without a break. None: it does not run it."""
    began = None
    for update in updates:
        if update.succeeded and _is_of(release, update):
            began = update.ended
        elif not update.changes_nothing or update.succeeded:
            break
    return began


def _runs_of(release: Release, updates: Iterator[Update]) -> Iterator[Update]:
    return (update for update in updates if update.succeeded and _is_of(release, update))


def _is_of(release: Release, update: Update) -> bool:
    theirs = _parsed(update)
    return theirs is not None and not differing_keys(theirs, release.config)


def _parsed(update: Update) -> StackConfig | None:
    try:
        return StackConfig.parse(update.sections or {})
    except StackError:
        return None


def _at(update: Update) -> str:
    day = f"on {update.ended:%Y-%m-%d %H:%M} UTC"
    return f"{day} by commit {update.commit[:_SHORT]}" if update.commit else day
