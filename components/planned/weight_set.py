"""The sets of weights that a stack stages on its volume: of the draft model, if it has one, and of the served model."""

from collections.abc import Iterator
from dataclasses import dataclass

from components.planned.model import PlannedModel
from config.stack import arguments


@dataclass(frozen=True, eq=False)
class WeightSet:
    """One repository at one revision, as arguments of the components that stage and prune it."""

    suffix: str
    """Of the names of these components; empty for the served model."""
    model: arguments.StagedRepository
    lock: str | None
    """Text of the lock file. None: no lock."""
    owner: str
    """Owner of the staged weights. Each set has its own, so that their revisions are counted apart."""


def weight_sets(planned: PlannedModel, model: arguments.Model, owner: str) -> Iterator[WeightSet]:
    """Yields the sets of a planned model, in the order in which they are staged: the draft model is small, and if it
    cannot be staged, the update fails before the model is downloaded. `model`: as the stack states it."""
    draft = model.get("draft")
    if draft is not None:
        lock = planned.draft_lock.text if planned.draft_lock else None
        # No Kubernetes object has an underscore in its name, so that no other stack is this owner.
        yield WeightSet("-draft", draft, lock, f"{owner}_draft")
    served = {key: value for key, value in model.items() if key != "draft"}
    yield WeightSet("", served, planned.lock.text if planned.lock else None, owner)  # type: ignore[arg-type]
