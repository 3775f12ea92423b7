"""Recommendations: which checkpoints fit on which machines, best first, and what they cost.

Plans every checkpoint on every machine that is available or can be rented, and returns the cheapest machine for each
checkpoint. A checkpoint that is nearer to what its makers released goes before a smaller machine. Models are not
ranked among themselves: quality is the class that the catalogue states.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import groupby
from pathlib import Path
from typing import Any

from config.catalogue import Checkpoint, ModelFamily, find_checkpoint, find_gpu, models
from config.checkpoint.directory import read_directory
from config.checkpoint.model_spec import find_model
from config.checkpoint.tensors import Place
from engines.plan import Plan
from engines.registry import engine_for, engine_of
from engines.request import FitRequest
from engines.speed import SpeedAt
from planner.fit import plan_only
from planner.machines import Machines, machines
from planner.targets import Reach, Targets

DEFAULT_CONTEXT = 32_768
"""Enough for work on documents and code. Models with a shorter maximum are planned with their own."""

_QUALITIES = ("frontier", "high", "good", "small", "")
_VERDICTS = {"fits": 0, "tight": 1}
_PAYS = 1.5
"""Our own choice: another layout on the same machine is worth a row from this many times the tokens on."""


class Nearness(IntEnum):
    """How near a checkpoint is to what its makers released."""

    ORIGINAL = 0
    """Released by the makers of the model."""
    CLOSE = 1
    """Somebody else's in 8 bits, or in 4-bit floating point with fine scales."""
    FOUR_BITS = 2
    FEWER_BITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """What to recommend. Unset fields do not constrain the result."""

    model: str | None = None
    """Name of a model, checkpoint or repository in the catalogue, or a directory with a checkpoint."""
    quality: str | None = None
    usd_per_hour: float | None = None
    gpu: str | None = None
    """GPU that is available. Unset: EC2 instance types with a price."""
    gpus_per_node: int = 8
    nodes: int = 1
    max_model_len: int = DEFAULT_CONTEXT
    usd_per_gpu_hour: float | None = None
    targets: Targets | None = None
    """Speed that is asked for."""

    @property
    def machines(self) -> Machines:
        """What is available."""
        return Machines(self.gpu, self.gpus_per_node, self.nodes)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A checkpoint on the cheapest machine on which it fits, or another layout there."""

    model: ModelFamily
    checkpoint: Checkpoint
    request: FitRequest
    plan: Plan
    times_the_tokens: float = 1.0
    """Tokens that the caches of all GPUs hold, as a multiple of those in the layout for one request."""
    speed: SpeedAt | None = None
    """For the users of the query's targets. None: it has none."""
    reach: Reach = Reach.LIKELY
    """How surely it reaches them."""

    @property
    def gpus(self) -> int:
        return self.request.nodes * self.request.gpus_per_node

    @property
    def nearness(self) -> Nearness:
        return nearness(self.model, self.checkpoint)

    @property
    def tokens(self) -> int:
        """Tokens that the caches of all GPUs surely hold: each data-parallel rank has its own."""
        return (self.plan.kv_tokens[0] if self.plan.kv_tokens else 0) * self.plan.layout.dp

    @property
    def machine(self) -> str:
        """The GPUs and, if there is one, the instance type: `8 H200 (p5en.48xlarge)`."""
        name = f"{self.gpus} {find_gpu(self.request.gpu or '').title}"
        if self.request.instance_type:
            count = f"{self.request.nodes} x " if self.request.nodes > 1 else ""
            return f"{name} ({count}{self.request.instance_type})"
        return name


def nearness(model: ModelFamily, checkpoint: Checkpoint) -> Nearness:
    """How near a checkpoint is to what the makers of its model released. The first checkpoint of a model is theirs."""
    if checkpoint.gguf:
        bits = re.search(r"Q(\d)", checkpoint.gguf.quantization)
        width = int(bits[1]) if bits else 16
        return Nearness.FEWER_BITS if width < 4 else Nearness.FOUR_BITS if width < 8 else Nearness.CLOSE
    first = model.checkpoints[0] if model.checkpoints else checkpoint
    if checkpoint.repository == first.repository:
        return Nearness.ORIGINAL
    if checkpoint.format == "int4":
        return Nearness.FOUR_BITS
    is_theirs = checkpoint.repository.split("/")[0] == first.repository.split("/")[0]
    return Nearness.ORIGINAL if is_theirs else Nearness.CLOSE


def recommend(query: Query) -> tuple[Recommendation, ...]:
    """The checkpoints that fit, best first, each with other layouts of its machine that hold more tokens.

    Raises NotInCatalogueError for an unknown model or GPU, and DirectoryError.
    """
    found = [best for model, checkpoint in _matching(query) if (best := _best(query, model, checkpoint)) is not None]
    found.sort(key=_order)
    return tuple(row for best in found for row in (best, *_other_layouts(query, best)))


def with_more_nodes(query: Query, found: tuple[Recommendation, ...]) -> tuple[Recommendation, ...]:
    """For each model whose best checkpoint does not fit on the nodes that the query has: more of them, where that
    checkpoint fits."""
    if query.gpu is None or query.usd_per_hour is not None:
        return ()
    larger = []
    for _, group in groupby(_matching(query), key=lambda pair: pair[0].name):
        pairs = list(group)
        model = pairs[0][0]
        nearest = min(nearness(model, checkpoint) for _, checkpoint in pairs)
        if any(row.model.name == model.name and row.nearness == nearest for row in found):
            continue
        wider = replace(query, nodes=max(query.nodes, query.machines.most_nodes))
        fits = [_best(wider, model, checkpoint) for _, checkpoint in pairs if nearness(model, checkpoint) == nearest]
        larger += sorted(filter(None, fits), key=_order)[:1]
    return tuple(sorted(larger, key=_order))


def _order(row: Recommendation) -> tuple[object, ...]:
    """Best first: few bits last, how surely targets are reached, the class of the model, the checkpoint, the smallest
    machine."""
    quality = _QUALITIES.index(row.model.quality) if row.model.quality in _QUALITIES else len(_QUALITIES)
    cost = row.plan.cost_per_hour_usd or 0.0
    few = row.nearness is Nearness.FEWER_BITS
    return few, row.reach, quality, row.nearness, cost, row.gpus, _VERDICTS[row.plan.verdict], row.checkpoint.name


def _matching(query: Query) -> Iterator[tuple[ModelFamily, Checkpoint]]:
    """The checkpoints that match the query. Small models are for experiments and are included only by name."""
    if query.model and Path(query.model).is_dir():
        yield read_directory(Path(query.model))
        return
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
    """The cheapest machine that the planner accepts, then the smallest. With targets: the cheapest that likely reaches
    them, else the cheapest of those that most surely do."""
    request = _request(query, model, checkpoint)
    least = _least_bytes(checkpoint)
    large_enough = (each for each in machines(query.machines, request) if each.memory_bytes >= least)
    best: Recommendation | None = None
    for _, alike in groupby(large_enough, key=lambda machine: machine.price):
        tried = (layout for machine in alike for layout in _layouts(machine.request, model))
        accepted = [row for each in tried if (row := _accepted(query, model, checkpoint, each)) is not None]
        if accepted:
            here = min(accepted, key=lambda row: (row.reach, row.gpus, _VERDICTS[row.plan.verdict]))
            best = here if best is None or here.reach < best.reach else best
            if best.reach is Reach.LIKELY:
                break
    return best


def _accepted(query: Query, model: ModelFamily, checkpoint: Checkpoint, request: FitRequest) -> Recommendation | None:
    """The row of a request. None: it does not fit, is too dear, or surely or likely misses the targets."""
    plan = plan_only(request)
    if plan.verdict not in _VERDICTS or not _affordable(query, plan):
        return None
    row = Recommendation(model, checkpoint, request, plan)
    if query.targets is None:
        return row
    speed = query.targets.at(request, plan)
    reach = query.targets.reached(speed)
    return None if reach is Reach.NO else replace(row, speed=speed, reach=reach)


def _least_bytes(checkpoint: Checkpoint) -> int:
    """Bytes that its GPUs must have together at the least: a machine with fewer is not planned."""
    model = find_model(checkpoint.name)
    loaded = sum(group.bytes for group in model.groups if group.place is not Place.MTP)
    return loaded or (model.staged_bytes or 0 if checkpoint.gguf else 0)


def _request(query: Query, model: ModelFamily, checkpoint: Checkpoint) -> FitRequest:
    longest = checkpoint.max_context or _text(model).get("max_position_embeddings") or query.max_model_len
    return FitRequest(
        model=checkpoint.name,
        engine=engine_for(checkpoint.format),
        max_model_len=min(query.max_model_len, longest),
        usd_per_gpu_hour=query.usd_per_gpu_hour,
    )


def _text(model: ModelFamily) -> dict[str, Any]:
    """The fields of the text model."""
    return {**model.config, **(model.config.get("text_config") or {})}


def _layouts(machine: FitRequest, model: ModelFamily) -> Iterator[FitRequest]:
    """One request at a time over all GPUs, with the experts cut or spread."""
    yield machine
    if _spreads_experts(machine, model) and machine.gpus_per_node > 1:
        yield replace(machine, expert_parallel=True)


def _spreads_experts(request: FitRequest, model: ModelFamily) -> bool:
    has_experts = _text(model).get("num_experts_per_tok") or _text(model).get("top_k_experts")
    return bool(has_experts) and "expert_parallel" not in engine_of(request.engine).missing_settings


def _other_layouts(query: Query, best: Recommendation) -> Iterator[Recommendation]:
    """Layouts of the same machine that hold more tokens where tensor parallelism copies the cache: attention in
    data-parallel ranks with the experts spread, for many requests; the context over the ranks, for long ones."""
    missing, tp, pp = engine_of(best.request.engine).missing_settings, best.plan.layout.tp, best.plan.layout.pp
    if tp == 1 or {"data_parallel", "decode_context_parallel"} & missing:
        return
    cut = replace(best.request, tensor_parallel=tp, pipeline_parallel=pp)
    tried = [replace(cut, decode_context_parallel=size) for size in (tp, tp // 2, tp // 4) if size > 1]
    if _spreads_experts(best.request, best.model):
        spread = replace(best.request, tensor_parallel=1, pipeline_parallel=1, data_parallel=tp * pp)
        tried.append(replace(spread, expert_parallel=True))
    by_kind: dict[bool, Recommendation] = {}
    for request in tried:
        row = _accepted(replace(query, usd_per_hour=None), best.model, best.checkpoint, request)
        if row is not None and best.tokens and row.tokens >= _PAYS * best.tokens:
            row = replace(row, times_the_tokens=row.tokens / best.tokens)
            by_kind.setdefault(row.plan.layout.dp > 1, row)
    yield from by_kind.values()


def _affordable(query: Query, plan: Plan) -> bool:
    if query.usd_per_hour is None:
        return True
    return plan.cost_per_hour_usd is not None and plan.cost_per_hour_usd <= query.usd_per_hour
