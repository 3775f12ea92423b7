"""Whether what runs is what the stack's state says: the engine's refresh, and who else wrote fields of the objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from components.cluster.api import ClusterUnreachable, object_path
from config.errors import StackError
from promotion.history import EngineRecords, NoRecordsError
from review.checkout import ReviewError
from review.deployed.events import Step, run_engine
from review.deployed.writers import ForeignWrite, foreign_writes
from review.status.command import stack_cluster


@dataclass(frozen=True)
class Drift:
    """How a stack differs from its state. Empty: it does not."""

    stack: str
    steps: Sequence[Step] = ()
    """What a refresh would change in the state."""
    writes: Sequence[ForeignWrite] = ()
    """Fields that others wrote, which a refresh does not see."""

    @property
    def is_clean(self) -> bool:
        """Whether nothing differs."""
        return not (self.steps or self.writes)


def drift_of(stack: str, environment: Mapping[str, str]) -> Drift:
    """How a stack of the current directory has drifted.

    Raises ReviewError if that cannot be found out, such as when the cluster cannot be reached: that is no drift.
    """
    run = run_engine("refresh", "--preview-only", "--stack", stack)
    if run.failed:
        raise ReviewError(f"pulumi refresh fails: {' '.join(' '.join(run.errors).split()) or 'it gives no reason'}")
    try:
        _, api = stack_cluster(stack, environment)
        objects = [found for path in _paths(stack) if (found := api.find(path))]
    except StackError as error:
        raise ReviewError("\n  ".join(["the stack cannot be read:", *error.faults])) from None
    except ClusterUnreachable as error:
        raise ReviewError(f"the cluster cannot be reached: {error}") from None
    return Drift(stack, run.steps, foreign_writes(objects))


def _paths(stack: str) -> Iterator[str]:
    """The API paths of the stack's objects. Patches of nodes are left out: others own most of a node."""
    try:
        resources = EngineRecords().resources(stack)
    except NoRecordsError as error:
        raise ReviewError(f"pulumi stack export fails: {error}") from None
    for resource in resources:
        if resource["type"].startswith("kubernetes:") and not resource["type"].endswith("Patch"):
            yield object_path(resource["outputs"])
