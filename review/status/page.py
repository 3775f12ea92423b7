"""A server's page of Prometheus metrics, as the figures that a reader wants now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from engines.engine import Metrics


@dataclass(frozen=True)
class Page:
    """The sum of each series over its labels at one time. A group's leader answers for all of its ranks."""

    at: float
    """Seconds of a monotonic clock."""
    sums: Mapping[str, float]
    highest: Mapping[str, float]
    """The highest value of each series over its labels."""


@dataclass(frozen=True)
class Load:
    """What one server computes. None: the engine does not measure it, or there is nothing yet to compute it from."""

    running: int
    waiting: int
    kv_usage: float | None
    """Share of the KV cache in use, 0 to 1."""
    seconds: float | None
    """Time over which the rates are means. None: there is only one page."""
    generated_per_second: float | None
    prompt_per_second: float | None
    first_token_seconds: float | None
    """Mean time to the first token: of the requests in that time, or if there was none since the server's start."""
    first_token_requests: int
    """How many requests it is the mean of."""
    first_token_now: bool
    """Whether these requests are of that time."""


def read_page(text: str, at: float) -> Page:
    """Reads a page. Raises ValueError if the text is not one."""
    sums: dict[str, float] = defaultdict(float)
    highest: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            sums[sample.name] += sample.value
            highest[sample.name] = max(sample.value, highest.get(sample.name, sample.value))
    return Page(at, sums, highest)


def load_of(metrics: Metrics, now: Page, before: Page | None) -> Load:
    """Returns the load between two pages of one server. A counter that went back was reset: its rate is not known."""
    seconds = now.at - before.at if before else None
    running = now.sums.get(metrics.requests_running, 0.0)
    seen, requests, recent = _first_token(metrics, now, before)
    if metrics.steps:
        steps = _rate(metrics.steps, now, before)
        generated = None if steps is None else steps * running
    else:
        generated = _rate(metrics.generated_tokens, now, before)
    return Load(
        running=round(running),
        waiting=round(now.sums.get(metrics.requests_waiting, 0.0)),
        kv_usage=now.highest.get(metrics.kv_cache_usage) if metrics.kv_cache_usage else None,
        seconds=seconds,
        generated_per_second=generated,
        prompt_per_second=_rate(metrics.prompt_tokens, now, before),
        first_token_seconds=seen,
        first_token_requests=requests,
        first_token_now=recent,
    )


def _rate(name: str, now: Page, before: Page | None) -> float | None:
    if before is None or now.at <= before.at or name not in now.sums:
        return None
    grown = now.sums[name] - before.sums.get(name, 0.0)
    return grown / (now.at - before.at) if grown >= 0 else None


def _first_token(metrics: Metrics, now: Page, before: Page | None) -> tuple[float | None, int, bool]:
    """Returns mean, number of requests, and whether they are of the time between the pages."""
    name = metrics.time_to_first_token
    if name is None:
        return None, 0, False
    total, count = (now.sums.get(f"{name}_{part}", 0.0) for part in ("sum", "count"))
    if before:
        earlier_total, earlier_count = (before.sums.get(f"{name}_{part}", 0.0) for part in ("sum", "count"))
        if (grown := count - earlier_count) > 0:
            return (total - earlier_total) / grown, round(grown), True
    return (total / count if count else None), round(count), False
