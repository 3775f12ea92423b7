"""Predicted against published, worst first: writes `docs/accuracy.md` and `config/data/speed_fit.json`.

Everything that `config/data/ground_truth.json` has is compared, what misses too.
`python -m planner.report.accuracy --check` fails when the document is not what the planner would write.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from config.catalogue import (
    DATA,
    Log,
    PublishedCache,
    PublishedSize,
    find_checkpoint,
    ground_truth,
)
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from config.units import GIB
from engines.registry import engine_of
from engines.request import FitRequest
from planner.fit import plan_only
from planner.report import oracle, speeds
from planner.speed.calibration import as_fields, complete_fit
from planner.speed.points import observations as speeds_observed

DOCUMENT = Path(__file__).parents[2] / "docs" / "accuracy.md"
SPEED_FIT = DATA / "speed_fit.json"
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
            predicted = engine_of(request.engine).weights(request, find_model(request.model))[0] / GIB
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
    request = FitRequest(
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
    plan = plan_only(request if entry.engine is None else replace(request, engine=entry.engine))
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
            *_of_engines(),
            *oracle.sections(),
            *speeds.section(),
            "",
            "## Left out",
            "",
            *(f"- {entry.case}: {entry.why}." for entry in ground_truth().left_out),
            "",
        )
    )


def _of_engines() -> Iterator[str]:
    """What each engine alone has evidence of."""
    for name in EngineName:
        found = tuple(engine_of(name).evidence())
        yield from (*found, "") if found else ()


def _table(comparisons: tuple[Comparison, ...]) -> list[str]:
    rows = ["| what | published | predicted | error | source |", "|---|---|---|---|---|"]
    for comparison in sorted(comparisons, key=lambda found: -abs(found.error)):
        note = f" (not gated: {comparison.not_gated})" if comparison.not_gated else ""
        rows.append(
            f"| {comparison.what}{note} | {comparison.published} | {comparison.predicted} | "
            f"{comparison.error:+.2%} | {comparison.source} |"
        )
    return rows


def fit_of_speed() -> str:
    """The data file with what is fitted to published speeds."""
    return json.dumps(as_fields(complete_fit(speeds_observed())), indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the document and the fit of the speed, or with `--check` compares them."""
    texts = {DOCUMENT: document(), SPEED_FIT: fit_of_speed()}
    if arguments == ["--check"]:
        old = [file for file, text in texts.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]
        if old:
            print(f"{', '.join(map(str, old))}: not current: run make accuracy", file=sys.stderr)
        return 1 if old else 0
    for file, text in texts.items():
        file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
