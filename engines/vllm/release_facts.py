"""What the tables in a release's own sources say (`config/data/vllm_releases.json`, read from its wheel)."""

from __future__ import annotations

from functools import cache

from config.catalogue import VllmRelease, vllm_releases
from engines.versions import Version
from engines.vllm.memory.kv_cache import PoolRules


@cache
def facts_of(version: Version) -> VllmRelease:
    """The tables of a release: of itself, or of the newest one before it that was read, or else of the oldest."""
    before = [found for found in vllm_releases() if Version.parse(found.release) <= version]
    return before[-1] if before else vllm_releases()[0]


def pool_rules(version: Version) -> PoolRules:
    """How a release lays out the pool of a model whose layers differ."""
    rules = facts_of(version).cache_rules
    return PoolRules(
        group_factor=rules.group_factor or 1.0,
        batches_in_flight=rules.batches_in_flight,
        prefill_checkpoints=rules.checkpoint_alignment,
    )
