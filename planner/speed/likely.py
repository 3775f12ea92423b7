"""The likely range: the bound's parts at the efficiency that is observed, and a floor for each layer of a step.

At few users, launches, kernels and sums over ranks take longer than the reads that the bound counts, whatever the size
of the layer: published times less their bound are steadier than their ratio. Fitted by `planner.speed.calibration` to
published speeds; `docs/accuracy.md` says how far measurements lie from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import sqrt
from typing import NamedTuple

from config.catalogue.reading import read
from engines.speed import Times

QUEUE_GROWTH = 0.7
"""Power of the number of other users with which the wait for their prompts grows: they do not all ask at once. Of 0.35,
0.5, 0.7 and 1, the narrowest range for sources left out."""


@dataclass(frozen=True, slots=True)
class Features:
    """What the likely times depend on. Times in seconds."""

    users: int
    layers: int
    experts: bool
    sums: bool
    """Whether ranks add up their results in each layer."""
    latent: bool
    """Latent attention."""
    generation: str
    """Of the GPU."""
    weights: float
    """Bound of the reads of weights in a step."""
    cache: float
    """Bound of the reads of KV cache in a step."""
    prefill: float
    """Bound of the prefill of one prompt."""
    answer_tokens: float

    @property
    def prompts(self) -> float:
        """The prefill of the other users' prompts that falls on one step, each user asking again at once."""
        return self.users * self.prefill / self.answer_tokens


class TpotConstants(NamedTuple):
    """Of the time per output token; layers in seconds."""

    weights: float
    """Times the bound."""
    cache: float
    """Times the bound."""
    prompts: float
    """Times the bound of the prefill that falls on a step."""
    layer: float
    layer_experts: float
    """More, of a layer of a model with experts."""
    layer_sums: float
    """More, if ranks add up their results."""
    ampere: float
    """What floor and prefill are multiplied by on GPUs of compute capability 8.0."""
    amd: float
    """The same on gfx942."""


class TtftConstants(NamedTuple):
    """Of the time to first token; layers in seconds."""

    layer: float
    layer_latent: float
    """More, of a layer with latent attention."""
    dense: float
    """Times the bound of the prefill."""
    experts: float
    """The same of a model with experts."""
    queue: float
    """Share of a prefill by which one other user delays a prompt; more users by the power `QUEUE_GROWTH`."""
    amd: float
    """What all is multiplied by on gfx942."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Constants, the widths of the ranges and what the points are of."""

    tpot: TpotConstants
    ttft: TtftConstants
    tpot_width: float
    """The slow end by the fast end."""
    ttft_width: float
    engines: frozenset[str]
    generations: frozenset[str]
    attentions: frozenset[str]
    most_users: int
    longest_prompt: float


class TpotParts(NamedTuple):
    """What the time per output token adds up from, in seconds."""

    weights: float
    cache: float
    floor: float
    """Launches, kernels and sums over ranks, of all layers."""
    prompts: float
    """The prefill of other users' prompts."""


def tpot_parts(constants: TpotConstants, of: Features) -> TpotParts:
    """The parts of the time per output token."""
    layer = constants.layer + of.experts * constants.layer_experts + of.sums * constants.layer_sums
    slower = {"8.0": constants.ampere, "gfx942": constants.amd}.get(of.generation, 1.0)
    return TpotParts(
        weights=constants.weights * of.weights,
        cache=constants.cache * of.cache,
        floor=slower * of.layers * layer,
        prompts=slower * constants.prompts * of.prompts,
    )


def tpot(constants: TpotConstants, of: Features) -> float:
    """Seconds per output token, in the middle of the range."""
    return sum(tpot_parts(constants, of))


def ttft(constants: TtftConstants, of: Features) -> float:
    """Seconds to the first token, in the middle of the range, of a user among others who ask again at once."""
    floor = of.layers * (constants.layer + of.latent * constants.layer_latent)
    each = (constants.experts if of.experts else constants.dense) * of.prefill
    slower = constants.amd if of.generation == "gfx942" else 1.0
    waiting: float = (of.users - 1) ** QUEUE_GROWTH
    return slower * (floor + each * (1 + constants.queue * waiting))


def likely_times(fit: Fit, of: Features, bound: Times) -> tuple[Times, Times]:
    """The fast and the slow end. Nothing is faster than the bound."""
    per_token, first = tpot(fit.tpot, of), ttft(fit.ttft, of)
    token_half, first_half = sqrt(fit.tpot_width), sqrt(fit.ttft_width)
    return (
        Times(tpot=max(bound.tpot, per_token / token_half), ttft=max(bound.ttft, first / first_half)),
        Times(tpot=per_token * token_half, ttft=first * first_half),
    )


@cache
def fitted() -> Fit:
    """What `make accuracy` fitted last."""
    entry = read("speed_fit.json")
    return Fit(
        tpot=TpotConstants(**entry["tpot"]),
        ttft=TtftConstants(**entry["ttft"]),
        tpot_width=entry["tpot_width"],
        ttft_width=entry["ttft_width"],
        engines=frozenset(entry["engines"]),
        generations=frozenset(entry["generations"]),
        attentions=frozenset(entry["attentions"]),
        most_users=entry["most_users"],
        longest_prompt=entry["longest_prompt"],
    )
