"""Tables in the sources of vLLM's releases, read from their wheels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from config.catalogue.reading import Fields, frozen, read


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """How a release's KV cache planner deals with layers that differ."""

    group_factor: float | None
    """Groups are as large as the commoner kind of layers where it has fewer than the rarer times this."""
    batches_in_flight: bool
    """A window keeps the tokens of every batch in flight, not of one."""
    checkpoint_alignment: bool
    """Blocks of linear attention are aligned to its prefill checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendFacts:
    """What an attention backend takes; `None`: its source has no plain value."""

    cache_types: tuple[str, ...] | None
    blocks: tuple[str, ...] | None
    """Tokens of a block: `64`, or `MultipleOf(16)`."""
    capabilities: tuple[str, ...] | None
    """Compute capabilities, of those of the catalogue's GPUs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmRelease:
    """One release."""

    release: str
    gpu_memory_utilization: float
    """Its default."""
    cache_types: tuple[str, ...]
    cache_rules: CacheRules
    quantization: Mapping[str, int | None]
    """Methods with the least compute capability, such as 75; `None`: its source has no plain value."""
    attention_backends: Mapping[str, BackendFacts]
    tool_parsers: tuple[str, ...]
    reasoning_parsers: tuple[str, ...]
    architectures: tuple[str, ...]
    short_forms: Mapping[str, str]
    flags: tuple[str, ...]


@cache
def vllm_releases() -> tuple[VllmRelease, ...]:
    """The releases that were read, oldest first."""
    return tuple(_release(entry) for entry in read("vllm_releases.json")["releases"])


def _release(entry: Fields) -> VllmRelease:
    rules = CacheRules(**entry["cache_rules"])
    backends = {name: BackendFacts(**frozen(found)) for name, found in entry["attention_backends"].items()}
    return VllmRelease(**{**frozen(entry), "cache_rules": rules, "attention_backends": backends})
