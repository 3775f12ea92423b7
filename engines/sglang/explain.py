"""The arithmetic of SGLang's memory, line by line, each with its formula and source."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import find_gpu
from config.checkpoint.model_spec import ModelSpec
from config.units import GIB
from engines.plan import Plan
from engines.request import FitRequest
from engines.sglang.memory import Memory, Stage, headroom_bytes, memory_of, outside_gib
from engines.sglang.release_facts import sglang_defaults
from engines.sglang.resolved_request import ResolvedRequest, resolve


def explain_sglang(request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
    """The memory of every stage. Empty: not known."""
    if request.gpu is None or not plan.stages:
        return
    resolved = resolve(request, model, find_gpu(request.gpu))
    if resolved.gpu.memory_bytes is not None:
        yield from _memory(resolved, memory_of(resolved, resolved.gpu.memory_bytes), plan)


def _memory(resolved: ResolvedRequest, memory: Memory, plan: Plan) -> Iterator[str]:
    likely, worst = outside_gib(resolved)
    source = "[kv_cache_configurator.py _profile_available_bytes; memory as torch reports it]"
    yield (
        f"budget = {resolved.gpu.torch_gib or 0} GiB x mem_fraction_static {resolved.fraction:g} = "
        f"{memory.budget / GIB:.2f} GiB  {source}"
    )
    source = f"[{sglang_defaults().outside_source}]"
    yield f"in use before the load = {likely} to {worst} GiB, of which the fraction counts  {source}"
    for index, stage in enumerate(memory.stages):
        yield f"stage {index}: layers {stage.layers.start} to {stage.layers.stop - 1}"
        yield from _stage(resolved, memory, stage)
    cell = memory.fullest.cell
    yield f"token = {cell:,} B of {resolved.kv_cache_dtype} on each GPU  [pool_configurator.py _compute_cell_size]"
    if plan.kv_tokens:
        worst_tokens, likely_tokens = plan.kv_tokens
        yield f"tokens = cache / token, in pages of {memory.page} = {worst_tokens:,} to {likely_tokens:,}"
    left = headroom_bytes(resolved, resolved.gpu.memory_bytes or 0, memory.tokens(worst=True), plan.context or 0)
    yield f"left beside weights and cache = {left / GIB:.1f} GiB  [{sglang_defaults().headroom_source}]"


def _stage(resolved: ResolvedRequest, memory: Memory, stage: Stage) -> Iterator[str]:
    for group, size in sorted(stage.groups.items(), key=lambda part: -part[1]):
        yield f"  {group:<18} {size / GIB:8.2f} GiB"
    basis = "headers of its files" if resolved.model.measured else resolved.model.family.config_source
    yield f"  weights            {stage.weights / GIB:8.2f} GiB per GPU  [{basis}; cut for TP{resolved.layout.tp}]"
    likely, worst = stage.overhead
    yield (
        f"  KV cache = budget - weights - overhead = {memory.budget / GIB:.2f} - {stage.weights / GIB:.2f} - "
        f"{worst / GIB:.2f} to {likely / GIB:.2f} = {stage.cache[1] / GIB:.2f} to {stage.cache[0] / GIB:.2f} GiB"
    )
