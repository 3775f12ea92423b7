"""Which models run on what, smallest first, with their cost: a decision chart, computed.

Every checkpoint of the catalogue is planned on every machine that is at hand or can be rented; per checkpoint the first
that fits is named. Nothing is ranked by taste: the quality of a model is the class that its entry states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from config.catalogue import Checkpoint, Instance, Model, find_checkpoint, find_gpu, instances, models
from engines.plan import Plan
from engines.registry import engine_for, engine_of
from engines.request import FitRequest
from planner.fit import plan_only

DEFAULT_CONTEXT = 32_768
"""A context that is of use for work on documents and code; a model that is made for less is planned with its own."""

_COUNTS = (1, 2, 4, 8)
_NODES = (1, 2, 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is asked for; everything unset is open."""

    model: str | None = None
    """Name of a model, a checkpoint or a repository of the catalogue."""
    quality: str | None = None
    usd_per_hour: float | None = None
    gpu: str | None = None
    """Kind of the GPUs at hand; unset: whatever can be rented by the hour."""
    gpus_per_node: int = 8
    nodes: int = 1
    max_model_len: int = DEFAULT_CONTEXT
    usd_per_gpu_hour: float | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A checkpoint on the smallest machine that holds it."""

    model: Model
    checkpoint: Checkpoint
    request: FitRequest
    plan: Plan

    @property
    def gpus(self) -> int:
        return self.request.nodes * self.request.gpus_per_node

    @property
    def machine(self) -> str:
        """GPUs, and the instance type that has them where it is one: `8 H200 (p5en.48xlarge)`."""
        name = f"{self.gpus} {find_gpu(self.request.gpu or '').title}"
        if self.request.instance_type:
            count = f"{self.request.nodes} x " if self.request.nodes > 1 else ""
            return f"{name} ({count}{self.request.instance_type})"
        return name


def recommend(wish: Wish) -> tuple[Recommendation, ...]:
    """One recommendation per checkpoint that fits, by cost where it is known, else by GPUs.

    Raises NotInCatalogueError for a model or a GPU that the catalogue does not have.
    """
    found = [best for model, checkpoint in _wanted(wish) if (best := _best(wish, model, checkpoint)) is not None]
    return tuple(sorted(found, key=lambda best: (best.plan.cost_per_hour_usd or 0.0, best.gpus, best.checkpoint.name)))


def _wanted(wish: Wish) -> Iterator[tuple[Model, Checkpoint]]:
    """The checkpoints that the wish leaves; small models are for trying, and come only when they are named."""
    named = wish.model.lower() if wish.model else None
    if named and named not in {model.name for model in models()}:
        find_checkpoint(named)
    for model in models():
        if model.quality != wish.quality and (wish.quality or (model.quality == "small" and not named)):
            continue
        for checkpoint in model.checkpoints:
            if named in (None, model.name, checkpoint.name, checkpoint.repository.lower()):
                yield model, checkpoint


def _best(wish: Wish, model: Model, checkpoint: Checkpoint) -> Recommendation | None:
    """The cheapest machine that the planner accepts; of equally cheap ones the smallest."""
    accepted = [
        Recommendation(model, checkpoint, request, plan)
        for request in _requests(wish, model, checkpoint)
        if (plan := plan_only(request)).verdict in ("fits", "tight") and _affordable(wish, plan)
    ]
    order = {"fits": 0, "tight": 1}
    return min(
        accepted,
        key=lambda found: (found.plan.cost_per_hour_usd or 0.0, found.gpus, order[found.plan.verdict]),
        default=None,
    )


def _affordable(wish: Wish, plan: Plan) -> bool:
    if wish.usd_per_hour is None:
        return True
    return plan.cost_per_hour_usd is not None and plan.cost_per_hour_usd <= wish.usd_per_hour


def _requests(wish: Wish, model: Model, checkpoint: Checkpoint) -> Iterator[FitRequest]:
    """The checkpoint on every machine, with tensor parallel and with expert parallel."""
    engine = engine_for(checkpoint.format)
    spreads_experts = "expert_parallel" not in engine_of(engine).missing_settings
    longest = checkpoint.max_context or model.config.get("max_position_embeddings") or wish.max_model_len
    request = FitRequest(
        model=checkpoint.name,
        engine=engine,
        max_model_len=min(wish.max_model_len, longest),
        usd_per_gpu_hour=wish.usd_per_gpu_hour,
    )
    for machine in _machines(wish, request):
        yield machine
        if spreads_experts and model.config.get("num_experts_per_tok") and machine.gpus_per_node > 1:
            yield replace(machine, expert_parallel=True)


def _machines(wish: Wish, request: FitRequest) -> Iterator[FitRequest]:
    if wish.gpu is not None:
        name = find_gpu(wish.gpu).name
        for count in _COUNTS:
            if count <= wish.gpus_per_node:
                yield replace(request, gpu=name, gpus_per_node=count)
        for nodes in _NODES:
            if 1 < nodes <= wish.nodes:
                yield replace(request, gpu=name, nodes=nodes, gpus_per_node=wish.gpus_per_node)
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
    """Per kind and number of GPUs the cheapest instance type with a price."""
    cheapest: dict[tuple[str, int], Instance] = {}
    for instance in instances():
        key = (instance.gpu, instance.gpus)
        if instance.usd_per_hour is None:
            continue
        if key not in cheapest or instance.usd_per_hour < (cheapest[key].usd_per_hour or 0.0):
            cheapest[key] = instance
    yield from cheapest.values()


def table(found: tuple[Recommendation, ...]) -> str:
    """The recommendations as text."""
    if not found:
        return "Nothing in the catalogue fits that; ask for more GPUs, a larger budget or a shorter context."
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
