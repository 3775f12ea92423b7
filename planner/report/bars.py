"""The memory of each GPU as a bar, shared by terminal and SVG output."""

from __future__ import annotations

from dataclasses import dataclass

from config.catalogue import find_gpu
from engines.plan import Plan, StageMemory
from engines.request import FitRequest


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a bar."""

    name: str
    gib: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One GPU of a stage; the others of the stage are like it."""

    label: str
    segments: tuple[Segment, ...]
    total_gib: float
    """Memory of the GPU; the segments may be more, in a plan that does not fit."""
    budget_gib: float

    @property
    def length_gib(self) -> float:
        """The width of the bar: the GPU's memory, or the need if that is larger."""
        return max(self.total_gib, sum(segment.gib for segment in self.segments))


def bars(request: FitRequest, plan: Plan) -> tuple[Bar, ...]:
    """One bar per pipeline stage; empty if memory is unknown."""
    if request.gpu is None or plan.per_gpu is None or plan.per_gpu.budget_gib is None:
        return ()
    total = find_gpu(request.gpu).torch_gib or plan.per_gpu.budget_gib
    stages = plan.stages or (_only_stage(plan),)
    each = plan.layout.gpus // len(stages)
    return tuple(
        Bar(_label(index, each), _segments(stage, plan.per_gpu.budget_gib, total), total, plan.per_gpu.budget_gib)
        for index, stage in enumerate(stages)
    )


def _only_stage(plan: Plan) -> StageMemory:
    """The fullest GPU, where a plan has no stages."""
    per_gpu = plan.per_gpu
    if per_gpu is None or per_gpu.weights_gib is None or per_gpu.overhead_gib is None or per_gpu.kv_gib is None:
        return StageMemory(0, 0.0, (0.0, 0.0), (0.0, 0.0), 0)
    return StageMemory(0, per_gpu.weights_gib, per_gpu.overhead_gib, per_gpu.kv_gib, per_gpu.kv_bytes_per_token or 0)


def _label(index: int, each: int) -> str:
    first = index * each
    return f"GPU {first}" if each == 1 else f"GPU {first}-{first + each - 1}"


def _segments(stage: StageMemory, budget: float, total: float) -> tuple[Segment, ...]:
    likely, worst = stage.overhead_gib
    return (
        Segment("weights", stage.weights_gib),
        Segment("overhead", likely),
        Segment("perhaps overhead", worst - likely),
        Segment("KV cache", stage.kv_gib[0]),
        Segment("free", max(0.0, total - max(budget, stage.weights_gib + worst))),
    )
