"""Whether published speeds are near a request: without one, only the bound is stated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from config.catalogue import Gpu
from config.checkpoint.attention import CompressedAttention, LatentAttention
from config.checkpoint.shape import Shape
from engines.plan import Layout
from planner.speed.likely import Fit

_LEAST_LINK = 100e9
"""Bytes per second: NVLink and Infinity Fabric have more, PCIe less. All points with several ranks have more."""
_MOST_RANKS = 8
"""Of a tensor-parallel group: a node. No point with more is near."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What speeds of one kind have in common."""

    engine: str
    generation: str
    attention: str
    prompt_tokens: float
    link_bytes_per_second: float
    layout: Layout
    settings: tuple[str, ...] = ()
    """Settings of which there is no point."""


def generation_of(gpu: Gpu) -> str:
    """The generation of a GPU: its compute capability, of which only the first number counts from 9.0 on, or gfx."""
    if gpu.compute_capability is None:
        return gpu.gfx or ""
    major, minor = gpu.compute_capability
    return f"{major}.{minor}" if major < 9 else f"{major}"


def attention_of(shape: Shape) -> str:
    """The kind of attention of a model, with the kinds of its other layers."""
    match shape.attention:
        case LatentAttention(indexer=indexer):
            name = "latent attention" if indexer is None else "sparse latent attention"
        case CompressedAttention():
            name = "compressed attention"
        case _:
            name = "grouped attention"
    others = sorted({*shape.layer_kinds} - {"full", "none"})
    return " with ".join([name, *(f"{kind} layers" for kind in others)])


def what_is_far(conditions: Conditions, fit: Fit) -> tuple[str, ...]:
    """What no published speed is of. Empty: one is near."""
    return tuple(_far(conditions, fit))


def _far(conditions: Conditions, fit: Fit) -> Iterator[str]:
    layout = conditions.layout
    if conditions.engine not in fit.engines:
        yield f"of {conditions.engine}"
    if conditions.generation not in fit.generations:
        yield "of this generation of GPUs"
    if conditions.attention not in fit.attentions:
        yield f"of {conditions.attention}"
    if conditions.prompt_tokens > fit.longest_prompt:
        yield f"of prompts longer than {fit.longest_prompt:,.0f} tokens"
    if layout.tp > _MOST_RANKS:
        yield f"of more than {_MOST_RANKS} tensor-parallel ranks"
    if layout.tp > 1 and conditions.link_bytes_per_second < _LEAST_LINK:
        yield "of several GPUs on PCIe"
    sizes = (("pipeline", layout.pp), ("data", layout.dp), ("prefill context", layout.pcp))
    for kind in [f"{name} parallelism" for name, size in sizes if size > 1]:
        yield f"with {kind}"
    if layout.dcp > 1:
        yield "with decode context parallelism"
    yield from (f"with {setting}" for setting in conditions.settings)
