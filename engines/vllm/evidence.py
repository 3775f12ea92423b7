"""vLLM's own part of the accuracy document: the memory beside weights and cache, against public logs."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from config.catalogue import find_gpu
from engines.vllm.memory.calibration import HeldOut, held_out, observations, ratios


def sections() -> Iterator[str]:
    """The range of the overhead: each observation judged by those of other releases, and by those of other GPUs."""
    low, high = ratios(observations())
    groups = {"release": held_out(lambda each: each.release), "GPU": held_out(lambda each: each.gpu)}
    yield "## Memory beside weights and cache"
    yield ""
    yield f"The likely end is {low} of the modelled sum of activations and memory outside torch, the worst end {high},"
    yield "each with CUDA graphs (`engines/vllm/memory/overhead.py`). Both span every observation with a margin."
    middle = median(each.low_ratio for each in observations())
    yield f"The median observation is {middle:.2f}, so that the likely end is {middle - low:.2f} too optimistic for it."
    yield "Where no observation is of the release, the GPU or a setting, the worst end is wider"
    yield "(`engines/vllm/memory/nearness.py`)."
    for name, found in groups.items():
        yield from _held_out(name, tuple(found))


def _held_out(name: str, found: tuple[HeldOut, ...]) -> Iterator[str]:
    """Each observation against the range that those of other releases or other GPUs give, worst first."""
    inside = sum(each.inside for each in found)
    furthest = max(each.beyond_worst for each in found)
    yield ""
    yield f"### Each {name} judged by the others"
    yield ""
    yield f"{inside} of {len(found)} lie inside; the furthest beyond its worst end is {furthest:.1%} of the GPU's"
    yield "memory."
    yield ""
    yield f"| observation | vLLM, GPU | measured | range without its {name} | | source |"
    yield "|---|---|---|---|---|---|"
    for each in sorted(found, key=_room):
        of = each.observation
        yield (
            f"| {of.name} | {of.release}, {find_gpu(of.gpu).title} | {of.measured:.2f} GiB | "
            f"{each.likely:.2f} to {each.worst:.2f} GiB | {'' if each.inside else 'outside'} | {of.source} |"
        )


def _room(each: HeldOut) -> float:
    """The distance of a measurement from the nearer end of its range, as a share of it; negative: outside."""
    measured = each.observation.measured
    return min(measured - each.likely, each.worst - measured) / measured
