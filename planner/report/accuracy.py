"""Predicted against published, worst first: writes `docs/accuracy.md`.

Everything that `config/data/ground_truth.json` has is compared, what misses too.
`python -m planner.report.accuracy --check` fails when the document is not what the planner would write.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.catalogue import (
    LeftForCache,
    Log,
    PublishedCache,
    PublishedSize,
    find_checkpoint,
    find_gpu,
    ground_truth,
)
from config.checkpoint.model_spec import find_model
from config.units import GIB
from engines.request import FitRequest
from engines.vllm.memory.calibration import observations, ratios
from engines.vllm.memory.stages import weights_by_group
from engines.vllm.resolved_request import resolve
from planner.fit import plan_only
from planner.report import oracle

DOCUMENT = Path(__file__).parents[2] / "docs" / "accuracy.md"
GATE = 0.01
"""Weights per GPU must be within this share of a log that states its layout and prints two decimals."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One published figure and what the planner says."""

    what: str
    published: str
    predicted: str
    error: float
    """Share by which the prediction is off."""
    source: str
    not_gated: str | None = None
    """Why a test does not hold it to the gate."""


def weight_comparisons() -> tuple[Comparison, ...]:
    """Weights per GPU that logs print."""
    return tuple(_weights())


def size_comparisons() -> tuple[Comparison, ...]:
    """Sizes of whole checkpoints."""
    return tuple(_size(entry) for entry in ground_truth().sizes)


def cache_comparisons() -> tuple[Comparison, ...]:
    """Tokens that logs print for the bytes of cache that they print."""
    return tuple(_cache(entry) for entry in ground_truth().caches)


def _weights() -> Iterator[Comparison]:
    for log in ground_truth().logs:
        for tp, pp, published in _layouts(log):
            gpu = log.gpu or "b300"
            request = FitRequest(
                model=log.checkpoint, gpu=gpu, gpus_per_node=tp * pp, tensor_parallel=tp, pipeline_parallel=pp
            )
            resolved = resolve(request, find_model(request.model), find_gpu(gpu))
            predicted = sum(weights_by_group(resolved, 0).values()) / GIB
            layout = f"TP{tp}" + (f" PP{pp}, first stage" if pp > 1 else "")
            yield Comparison(
                what=f"log {log.id}: {log.model}, {layout}",
                published=f"{published:g} GiB",
                predicted=f"{predicted:.2f} GiB",
                error=predicted / published - 1,
                source=log.source,
                not_gated=log.not_gated,
            )


def _layouts(log: Log) -> Iterator[tuple[int, int, float]]:
    """Tensor and pipeline parallel sizes of a log, and the weights that it prints for them."""
    weights = log.weights_gib
    if isinstance(weights, tuple):
        yield from ((1, pp, published) for pp, published in zip(log.pp, weights, strict=True))
    elif weights is not None:
        # Where no layout is stated, the GPUs that are stated are taken as one tensor-parallel group.
        yield log.tp or int(log.gpus.split("x")[0].split()[0]), 1, weights


_UNITS = {"bytes": (1, ",.0f"), "GB": (1e9, ".1f"), "GiB": (GIB, ".2f")}
"""Bytes of each unit, and how it is printed."""


def _size(entry: PublishedSize) -> Comparison:
    model = find_model(entry.checkpoint)
    predicted = sum(group.bytes for group in model.groups)
    in_bytes, form = _UNITS[entry.unit]
    shown = f"{entry.size:{form}} {entry.unit}"
    own = f"{predicted / in_bytes:{form}} {entry.unit}"
    what = f"{find_checkpoint(entry.checkpoint)[1].repository}: {entry.what}"
    return Comparison(what, shown, own, predicted / (entry.size * in_bytes) - 1, entry.source)


def predicted_tokens(entry: PublishedCache, kv_gib: float) -> int:
    """Tokens that the planner says fit in so much cache per GPU, for an entry of `caches`."""
    plan = plan_only(
        FitRequest(
            model=entry.checkpoint,
            gpu=entry.gpu,
            gpus_per_node=entry.tp,
            decode_context_parallel=entry.dcp,
            max_model_len=entry.max_model_len,
            kv_cache_dtype=entry.kv_cache_dtype,
            block_size=entry.block_size,
            engine_version=entry.engine_version,
            available_kv_gib=kv_gib,
        )
    )
    if plan.kv_tokens is None:
        raise ValueError(f"no tokens are planned for {entry.id}")
    return plan.kv_tokens[0]


def _cache(entry: PublishedCache) -> Comparison:
    tokens = predicted_tokens(entry, entry.kv_gib)
    return Comparison(
        what=f"{entry.id}: {entry.what}, {entry.kv_gib:.2f} GiB of cache",
        published=f"{entry.tokens:,} tokens",
        predicted=f"{tokens:,} tokens",
        error=tokens / entry.tokens - 1,
        source=entry.source,
        not_gated=entry.not_gated,
    )


def left_for_cache(entry: LeftForCache) -> tuple[float, float]:
    """GiB that the planner leaves for the cache, [worst, likely], for an entry of `held_out`."""
    plan = plan_only(
        FitRequest(
            model=entry.checkpoint,
            gpu=entry.gpu,
            gpus_per_node=entry.gpus,
            engine_version=entry.engine_version,
            language_model_only=entry.language_model_only,
        )
    )
    if plan.per_gpu is None or plan.per_gpu.kv_gib is None:
        raise ValueError(f"no memory is planned for {entry.id}")
    return plan.per_gpu.kv_gib


def document() -> str:
    """The whole document."""
    return "\n".join(
        (
            "# Accuracy of the planner",
            "",
            "Written by `make accuracy`; a test fails when it is not current. Every figure is what a public log or",
            "page prints; the data and their sources are in `config/data/ground_truth.json`. Worst first.",
            "",
            "## Weights per GPU",
            "",
            f"Gate: within {GATE:.0%} wherever the log states its layout and prints two decimals.",
            "",
            *_table(weight_comparisons()),
            "",
            "## Checkpoints",
            "",
            "Tensors derived from the configuration. Files are larger by their headers, about 0.005%.",
            "",
            *_table(size_comparisons()),
            "",
            "## Tokens of KV cache",
            "",
            "Given the GiB of cache that the log prints, rounded to two decimals: a test holds the published tokens to",
            "lie within that rounding, to the block. A hybrid model's figure scales with the context: no capacity.",
            "",
            *_table(cache_comparisons()),
            "",
            *_overheads(),
            "",
            *_held_out(),
            "",
            *oracle.section(),
            "",
            "## Left out",
            "",
            *(f"- {entry.case}: {entry.why}." for entry in ground_truth().left_out),
            "",
        )
    )


def _table(comparisons: tuple[Comparison, ...]) -> list[str]:
    rows = ["| what | published | predicted | error | source |", "|---|---|---|---|---|"]
    for comparison in sorted(comparisons, key=lambda found: -abs(found.error)):
        note = f" (not gated: {comparison.not_gated})" if comparison.not_gated else ""
        rows.append(
            f"| {comparison.what}{note} | {comparison.published} | {comparison.predicted} | "
            f"{comparison.error:+.2%} | {comparison.source} |"
        )
    return rows


def _overheads() -> Iterator[str]:
    """The range of the overhead, each observation judged by a range fitted without it."""
    found = observations()
    low, high = ratios(found)
    yield "## Memory beside weights and cache"
    yield ""
    yield f"The likely end is {low} of the modelled sum, the worst end {high} of it and more"
    yield "(`engines/vllm/memory/overhead.py`)."
    yield "Each row is judged by the ratios that the others give; a miss is marked. The form of the sum and its"
    yield "constants (`config/data/overheads.json`) were chosen on all of them. What graphs and releases after 0.20"
    yield "take rests on few figures: no log of 0.33 was found."
    yield ""
    yield "| observation | measured | modelled | ratio | range without it | |"
    yield "|---|---|---|---|---|---|"
    for index in sorted(range(len(found)), key=lambda index: -abs(found[index].ratio - 1)):
        observation = found[index]
        without = ratios(found[:index] + found[index + 1 :])
        inside = "" if without[0] <= observation.ratio <= without[1] else "outside"
        yield (
            f"| {observation.name} | {observation.measured:.2f} GiB | {observation.modelled:.2f} GiB | "
            f"{observation.ratio:.2f} | {without[0]} to {without[1]} | {inside} |"
        )


def _held_out() -> Iterator[str]:
    """Logs that print what is left for the cache and are not among the observations."""
    yield "## What is left for the cache, in logs outside the calibration"
    yield ""
    yield "| log | printed | predicted, worst to likely | | source |"
    yield "|---|---|---|---|---|"
    for entry in ground_truth().held_out:
        worst, likely = left_for_cache(entry)
        inside = "" if worst <= entry.kv_gib <= likely else "outside"
        note = f" ({entry.note})" if entry.note else ""
        yield (
            f"| {entry.id}: {entry.what}{note} | {entry.kv_gib:.2f} GiB | {worst:.2f} to {likely:.2f} GiB | "
            f"{inside} | {entry.source} |"
        )


def main(arguments: list[str]) -> int:
    """Writes the document, or with `--check` compares it."""
    text = document()
    if arguments == ["--check"]:
        current = DOCUMENT.is_file() and DOCUMENT.read_text(encoding="utf-8") == text
        if not current:
            print(f"{DOCUMENT} is not current: run make accuracy", file=sys.stderr)
        return 0 if current else 1
    DOCUMENT.parent.mkdir(exist_ok=True)
    DOCUMENT.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
