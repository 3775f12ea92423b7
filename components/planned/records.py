"""What the cluster does not know of a stack, as annotations of its objects: release, plan, bytes, end of the capacity.

`python -m review status` reads them. They are no part of a pod, so that their change restarts nothing.
"""

import json
from dataclasses import asdict, dataclass

from components.planned.model import PlannedModel
from config.stack.sections import StagedRepository

RELEASE = "server.heavylift/release"
"""Annotation of the Deployment or LeaderWorkerSet: what is served, as JSON."""
PLAN = "server.heavylift/plan"
"""Annotation beside it: figures of the plan, as JSON."""
CAPACITY_ENDS = "server.heavylift/capacity-ends"
"""Annotation beside it: end of the nodes' reservation, RFC 3339."""
STAGED = "stage.heavylift/staged"
"""Annotation of a Job or DaemonSet: what it stages, as JSON."""


@dataclass(frozen=True)
class Records:
    """The annotations of one stack's objects."""

    of_server: dict[str, str]
    of_stage: dict[str, dict[str, str]]
    """By the suffix of the set of weights that is staged (`components.planned.weight_set`)."""


def records(planned: PlannedModel, capacity_ends: str | None) -> Records:
    """Returns the annotations of a plan. `capacity_ends`: RFC 3339, None if nothing ends."""
    stack, plan = planned.stack, planned.plan
    of_draft = planned.draft_lock.total_bytes if planned.draft_lock else None
    weights = _weights(stack.model, planned.digest, _without(plan.weights_bytes, stack.model.draft, of_draft))
    staged = {"": weights}
    if stack.model.draft and planned.draft_digest:
        staged["-draft"] = _weights(stack.model.draft, planned.draft_digest, of_draft)
    engine = {"engine": str(stack.engine.name), "version": stack.engine.version, "image": stack.engine.image}
    figures = {
        "verdict": plan.verdict,
        "gpu": stack.nodes.gpu,
        "layout": {name: size for name, size in asdict(plan.layout).items() if size > 1},
        "nodes_per_server": plan.pods.nodes_per_server,
        "gpus_per_pod": plan.pods.gpus_per_pod,
        "replicas": stack.engine.replicas,
        "context": plan.context,
        "kv_tokens": plan.kv_tokens,
        "load_seconds": plan.load_seconds,
        "cost_per_hour_usd": plan.cost_per_hour_usd,
    }
    ends = {CAPACITY_ENDS: capacity_ends} if capacity_ends else {}
    served = {**weights, **engine}
    return Records(
        of_server={RELEASE: json.dumps(served), PLAN: json.dumps(figures), **ends},
        of_stage={suffix: {STAGED: json.dumps(each)} for suffix, each in staged.items()},
    )


def _weights(model: StagedRepository, digest: str, size: int | None) -> dict[str, str | int | None]:
    return {"repository": model.repository, "revision": model.revision, "digest": digest, "bytes": size}


def _without(both: int | None, draft: StagedRepository | None, of_draft: int | None) -> int | None:
    """Returns the bytes of the served model alone, which a plan adds to those of its draft model. None: not known."""
    if draft is None or both is None:
        return both
    return None if of_draft is None else both - of_draft
