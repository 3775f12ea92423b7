"""SGLang's own part of the accuracy document: published caches against those that the plan gives for their fraction."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import PublishedPool, find_gpu, ground_truth
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.request import FitRequest
from engines.sglang.plan import plan_sglang
from engines.sglang.resolved_request import resolve


def predicted_pool(entry: PublishedPool) -> tuple[int, int]:
    """Tokens that the plan has for a share of the memory: [worst, likely]."""
    request = FitRequest(
        model=entry.checkpoint,
        gpu=entry.gpu,
        gpus_per_node=entry.tp,
        engine=EngineName.SGLANG,
        gpu_memory_utilization=entry.fraction,
        max_num_batched_tokens=entry.max_num_batched_tokens,
    )
    plan = plan_sglang(resolve(request, find_model(request.model), find_gpu(entry.gpu)))
    if plan.kv_tokens is None:
        raise ValueError(f"no tokens are planned for {entry.id}")
    return plan.kv_tokens


def sections() -> Iterator[str]:
    """The cache by SGLang's own arithmetic, from the GPU's memory on."""
    yield "## Cache of SGLang by its fraction"
    yield ""
    yield "From `--mem-fraction-static`, the weights and what is in use before the load, without a figure of the log: a"
    yield "test holds the published tokens to lie between the two ends (`engines/sglang/memory.py`)."
    yield ""
    yield "| what | published | predicted | source |"
    yield "|---|---|---|---|"
    for entry in ground_truth().pools:
        worst, likely = predicted_pool(entry)
        where = f"{entry.tp} {find_gpu(entry.gpu).title} TP{entry.tp}, fraction {entry.fraction:g}"
        yield (
            f"| {entry.id}: {entry.what}, {where} | {entry.tokens:,} tokens | {worst:,} to {likely:,} tokens | "
            f"{entry.source} |"
        )
