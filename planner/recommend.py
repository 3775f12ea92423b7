"""Recommendations: which checkpoints fit on which machines, and what they cost.

Plans every checkpoint of the catalogue on every machine that is available or can be rented, and returns the cheapest
machine for each checkpoint. Models are not ranked: quality is the class that the catalogue states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from config.catalogue import Checkpoint, Instance, ModelFamily, find_checkpoint, find_gpu, instances, models
from engines.plan import Plan
from engines.registry import engine_for, engine_of
from engines.request import FitRequest
from planner.fit import plan_only

DEFAULT_CONTEXT = 32_768
"""Enough for work on documents and code. Models with a shorter maximum are planned with their own."""

_COUNTS = (1, 2, 4, 8)
_NODES = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to recommend. Unset fields do not constrain the result."""

    model: str | None = None
    """Name of a model, checkpoint or repository in the catalogue."""
    quality: str | None = None
    usd_per_hour: float | None = None
    gpu: str | None = None
    """GPU that is available. Unset: EC2 instance types with a price."""
    gpus_per_node: int = 8
    nodes: int = 1
    max_model_len: int = DEFAULT_CONTEXT
    usd_per_gpu_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A checkpoint on the cheapest machine on which it fits."""

    model: ModelFamily
    checkpoint: Checkpoint
    request: FitRequest
    plan: Plan

    @property
    def gpus(self) -> int:
        return self.request.nodes * self.request.gpus_per_node

    @property
    def machine(self) -> str:
        """The GPUs and, if there is one, the instance type: `8 H200 (p5en.48xlarge)`."""
        name = f"{self.gpus} {find_gpu(self.request.gpu or '').title}"
        if self.request.instance_type:
            count = f"{self.request.nodes} x " if self.request.nodes > 1 else ""
            return f"{name} ({count}{self.request.instance_type})"
        return name


def recommend(query: Query) -> tuple[Recommendation, ...]:
    """One recommendation for each checkpoint that fits, sorted by cost if known, else by number of GPUs.

    Raises NotInCatalogueError for an unknown model or GPU.
    """
    found = [best for model, checkpoint in _matching(query) if (best := _best(query, model, checkpoint)) is not None]
    return tuple(sorted(found, key=lambda best: (best.plan.cost_per_hour_usd or 0.0, best.gpus, best.checkpoint.name)))


def _matching(query: Query) -> Iterator[tuple[ModelFamily, Checkpoint]]:
    """The checkpoints that match the query. Small models are for experiments and are included only by name."""
    named = query.model.lower() if query.model else None
    if named and named not in {model.name for model in models()}:
        find_checkpoint(named)
    for model in models():
        if model.quality != query.quality and (query.quality or (model.quality == "small" and not named)):
            continue
        for checkpoint in model.checkpoints:
            if named in (None, model.name, checkpoint.name, checkpoint.repository.lower()):
                yield model, checkpoint


def _best(query: Query, model: ModelFamily, checkpoint: Checkpoint) -> Recommendation | None:
    """The cheapest machine that the planner accepts, then the smallest."""
    accepted = [
        Recommendation(model, checkpoint, request, plan)
        for request in _requests(query, model, checkpoint)
        if (plan := plan_only(request)).verdict in ("fits", "tight") and _affordable(query, plan)
    ]
    order = {"fits": 0, "tight": 1}
    return min(
        accepted,
        key=lambda found: (found.plan.cost_per_hour_usd or 0.0, found.gpus, order[found.plan.verdict]),
        default=None,
    )


def _affordable(query: Query, plan: Plan) -> bool:
    if query.usd_per_hour is None:
        return True
    return plan.cost_per_hour_usd is not None and plan.cost_per_hour_usd <= query.usd_per_hour


def _requests(query: Query, model: ModelFamily, checkpoint: Checkpoint) -> Iterator[FitRequest]:
    """Requests for the checkpoint on every machine, with tensor and with expert parallelism."""
    engine = engine_for(checkpoint.format)
    spreads_experts = "expert_parallel" not in engine_of(engine).missing_settings
    longest = checkpoint.max_context or model.config.get("max_position_embeddings") or query.max_model_len
    request = FitRequest(
        model=checkpoint.name,
        engine=engine,
        max_model_len=min(query.max_model_len, longest),
        usd_per_gpu_hour=query.usd_per_gpu_hour,
    )
    for machine in _machines(query, request):
        yield machine
        if spreads_experts and model.config.get("num_experts_per_tok") and machine.gpus_per_node > 1:
            yield replace(machine, expert_parallel=True)


def _machines(query: Query, request: FitRequest) -> Iterator[FitRequest]:
    if query.gpu is not None:
        name = find_gpu(query.gpu).name
        for count in _COUNTS:
            if count <= query.gpus_per_node:
                yield replace(request, gpu=name, gpus_per_node=count)
        for nodes in _NODES:
            if 1 < nodes <= query.nodes:
                yield replace(request, gpu=name, nodes=nodes, gpus_per_node=query.gpus_per_node)
        return
    for instance in _rentable():
        for nodes in _NODES:
            if nodes == 1 or instance.gpus == max(_COUNTS):
                yield replace(
                    request,
                    gpu=instance.gpu,
                    gpus_per_node=instance.gpus,
                    nodes=nodes,
                    instance_type=instance.type,
                    fabric="efa" if instance.efa_interfaces else "none",
                )


def _rentable() -> Iterator[Instance]:
    """For each GPU and count, the cheapest instance type with a price."""
    cheapest: dict[tuple[str, int], Instance] = {}
    for instance in instances():
        key = (instance.gpu, instance.gpus)
        if instance.usd_per_hour is None:
            continue
        if key not in cheapest or instance.usd_per_hour < (cheapest[key].usd_per_hour or 0.0):
            cheapest[key] = instance
    yield from cheapest.values()


def table(found: tuple[Recommendation, ...]) -> str:
    """The recommendations as a text table."""
    if not found:
        return "No checkpoint in the catalogue fits. Try more GPUs, a larger budget or a shorter context."
    lines = [f"{'checkpoint':<28}{'quality':<10}{'machine':<34}{'layout':<12}{'context':>9}{'$/h':>9}  verdict"]
    for best in found:
        layout = best.plan.layout
        sizes = {"TP": layout.tp, "PP": layout.pp, "EP": layout.ep}
        named = " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "TP1"
        cost = best.plan.cost_per_hour_usd
        price = "-" if cost is None else f"{cost:.2f}"
        lines.append(
            f"{best.checkpoint.name:<28}{best.model.quality:<10}{best.machine:<34}{named:<12}"
            f"{best.request.max_model_len or 0:>9,}{price:>9}  {best.plan.verdict}"
        )
    return "\n".join(lines)
