"""What a stack serves, as the output `release` of `ServedModel`."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from components.planned.model import PlannedModel
from config.stack.sections import StagedRepository
from config.stack.weights import WeightsLock


class DraftRelease(TypedDict):
    """The draft model of a release."""

    # Pulumi reads the descriptions of a type from its own class only, so that `Release` repeats them.

    repository: str
    """Repository on the model hub."""
    revision: str
    """Revision, as the stack states it."""
    include: Sequence[str]
    """Patterns of the staged files. Empty: all files."""
    weights_digest: str
    """Digest of the staged weights."""
    lock_sha256: NotRequired[str]
    """SHA-256 of its lock file. Unset: no lock."""


class Release(TypedDict):
    """What is served, in enough detail to compare it with another stack."""

    repository: str
    """Repository on the model hub."""
    revision: str
    """Revision, as the stack states it."""
    include: Sequence[str]
    """Patterns of the staged files. Empty: all files."""
    weights_digest: str
    """Digest of the staged weights."""
    lock_sha256: NotRequired[str]
    """SHA-256 of the weights lock file. Unset: no lock."""
    draft: NotRequired[DraftRelease]
    """The draft model for speculative decoding. Unset: none."""
    engine: str
    """Name of the engine."""
    version: str
    """Version of the engine."""
    image: str
    """Image of the engine."""


def release_of(planned: PlannedModel) -> Release:
    """Returns the release of a planned model."""
    stack = planned.stack
    model, draft, engine = stack.model, stack.model.draft, stack.engine
    release: Release = {
        # mypy does not know that a DraftRelease has no key `draft`.
        **_staged(model, planned.digest, planned.lock),  # type: ignore[typeddict-item]
        "engine": str(engine.name),
        "version": engine.version,
        "image": engine.image,
    }
    if draft is not None and planned.draft_digest is not None:
        release["draft"] = _staged(draft, planned.draft_digest, planned.draft_lock)
    return release


def _staged(model: StagedRepository, digest: str, lock: WeightsLock | None) -> DraftRelease:
    staged: DraftRelease = {
        "repository": model.repository,
        "revision": model.revision,
        "include": list(model.include),
        "weights_digest": digest,
    }
    return {**staged, "lock_sha256": lock.sha256} if lock else staged
