"""How near a request is to the runs that the overhead was fitted to.

Where none is near, the worst end of the range moves away, and the plan says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from config.catalogue import overheads


@dataclass(frozen=True, slots=True)
class Observed:
    """What the observations cover."""

    releases: frozenset[str]
    """Releases of vLLM as `major.minor`."""
    gpus: frozenset[str]
    """Names of GPUs in the catalogue."""
    batched_tokens: int
    """The most batched tokens."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a request is compared by."""

    release: str
    gpu: str
    gpu_title: str
    batched_tokens: int
    settings: tuple[str, ...] = ()
    """Settings and kinds of layers that no observation has, in words."""


@dataclass(frozen=True, slots=True)
class Distance:
    """One respect in which no observation is near."""

    reason: str
    widening: float
    """Share of the modelled overhead that is added to the worst end."""


def distances(conditions: Conditions, observed: Observed) -> tuple[Distance, ...]:
    """Every respect in which no observation is near."""
    return tuple(_distances(conditions, observed))


def _distances(conditions: Conditions, observed: Observed) -> Iterator[Distance]:
    widening = overheads().widening
    if conditions.release not in observed.releases:
        yield Distance(f"vLLM {conditions.release}", widening.release)
    if conditions.gpu not in observed.gpus:
        yield Distance(conditions.gpu_title, widening.gpu)
    if conditions.batched_tokens > observed.batched_tokens:
        yield Distance(f"more than {observed.batched_tokens:,} batched tokens", widening.setting)
    yield from (Distance(setting, widening.setting) for setting in conditions.settings)
