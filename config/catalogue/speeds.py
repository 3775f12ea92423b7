"""Published speeds of served models."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from config.catalogue.reading import read


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSpeed:
    """One measurement of a public source. None: the source does not say it."""

    id: str
    model: str
    """As the source names it."""
    precision: str
    checkpoint: str | None = None
    """Of the catalogue. None: it has none."""
    quantization: str | None = None
    """What the engine makes of an unquantised checkpoint while it loads."""
    file_bytes: int | None = None
    """Bytes of the file, where the catalogue has another one of the model."""
    gpu: str | None = None
    gpus: int | None = None
    layout: str
    """As the source names it."""
    tp: int = 1
    pp: int = 1
    expert_parallel: bool = False
    engine: str | None = None
    release: str
    prompt_tokens: float | None = None
    answer_tokens: float | None = None
    users: int | None = None
    stated_concurrency: str | None = None
    """Where it is no number of users."""
    tokens_per_second: float | None = None
    tpot_ms: float | None = None
    ttft_ms: float | None = None
    speculation: str = ""
    publisher: str
    source: str
    confidence: str = ""
    left_out: str | None = None
    """Why nothing is fitted to it, and it is not judged."""


@dataclass(frozen=True, slots=True)
class PublishedSpeeds:
    """All of them, and those that are kept back to judge what was fitted to the others."""

    points: tuple[PublishedSpeed, ...]
    kept_back: tuple[PublishedSpeed, ...]


@cache
def published_speeds() -> PublishedSpeeds:
    """Published speeds of served models."""
    entry = read("published_speeds.json")
    return PublishedSpeeds(
        points=tuple(PublishedSpeed(**row) for row in entry["points"]),
        kept_back=tuple(PublishedSpeed(**row) for row in entry["kept_back"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What another estimator says of a published speed. None: nothing."""

    tpot_ms: float | None = None
    ttft_ms: float | None = None
    database: str | None = None
    why: str | None = None
    """Why it says nothing."""


@cache
def other_estimates() -> dict[str, Estimate]:
    """Estimates of aiconfigurator, by the id of the published speed."""
    entry = read("aiconfigurator_speeds.json")
    return {name: Estimate(**found) for name, found in entry["estimates"].items()}
