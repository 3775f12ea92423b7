"""A short summary of a plan, for the terminal and for previews."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import NotInCatalogueError, engine_facts, find_gpu
from config.checkpoint.directory import DirectoryError
from config.checkpoint.model_spec import find_model
from config.units import duration
from engines.plan import CostPart, Plan
from engines.registry import engine_of
from engines.request import FitRequest
from planner.report.bars import Bar, bars
from planner.report.speed import speed_facts

_WIDTH = 60
_GLYPHS = {"weights": "█", "overhead": "▓", "perhaps overhead": "▒", "KV cache": "░", "free": "·"}
_COLOURS = {"weights": "34", "overhead": "33", "perhaps overhead": "33", "KV cache": "32", "free": "90"}
_VERDICT_COLOURS = {"fits": "32", "tight": "33", "rejected": "31", "unknown": "35"}


def summary(request: FitRequest, plan: Plan, *, colour: bool = False) -> str:
    """The plan without its warnings: verdict, memory, cache, speed, disk, time, cost, and what is wrong."""
    return "\n".join(_lines(request, plan, colour))


def headline(request: FitRequest, plan: Plan) -> str:
    """The verdict and what it is about, in one line."""
    return f"{plan.verdict}: {request.model} on {_machine(request)}, {_engine(request)}{_layout(plan)}"


def facts(request: FitRequest, plan: Plan) -> Iterator[tuple[str, str]]:
    """What is known of memory, cache, speed, disk, time and cost: a label and a line each."""
    yield from _memory(plan)
    yield from _cache(request, plan)
    yield from speed_facts(plan.speed)
    yield from _logistics(request, plan)


def _lines(request: FitRequest, plan: Plan, colour: bool) -> Iterator[str]:
    first = headline(request, plan)
    yield _painted(first, _VERDICT_COLOURS[plan.verdict], colour)
    drawn = bars(request, plan)
    yield from (_drawn(bar, colour) for bar in drawn)
    if drawn:
        yield "  " + "  ".join(f"{_painted(glyph, _COLOURS[name], colour)} {name}" for name, glyph in _GLYPHS.items())
    yield from (f"  {label:<10} {text}" for label, text in facts(request, plan))
    for problem in plan.problems:
        yield _painted(f"  {problem.code}: ", _VERDICT_COLOURS[plan.verdict], colour) + problem.message
        yield f"    {problem.fix}"


def _machine(request: FitRequest) -> str:
    if request.gpu is None:
        return "the processor"
    try:
        title = find_gpu(request.gpu).title
    except NotInCatalogueError:
        title = request.gpu
    nodes = f"{request.nodes} nodes of " if request.nodes > 1 else ""
    return f"{nodes}{request.gpus_per_node} {title}"


def _engine(request: FitRequest) -> str:
    title = engine_of(request.engine).title
    return f"{title} {request.engine_version or engine_facts(request.engine).default_version}"


def _layout(plan: Plan) -> str:
    sizes = {"TP": plan.layout.tp, "PP": plan.layout.pp, "DP": plan.layout.dp}
    sizes |= {"PCP": plan.layout.pcp, "EP": plan.layout.ep, "DCP": plan.layout.dcp}
    named = " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1)
    return f", {named}" if named else ""


def _drawn(bar: Bar, colour: bool) -> str:
    scale = _WIDTH / bar.length_gib
    cells, edge = "", 0.0
    for segment in bar.segments:
        edge += segment.gib
        missing = round(edge * scale) - len(cells)
        cells += _GLYPHS[segment.name] * max(0, missing)
    end = round(bar.total_gib * scale)
    cells = cells[:end] + ("|" if len(cells) > end else "") + cells[end:]
    if colour:
        for name, glyph in _GLYPHS.items():
            cells = cells.replace(glyph, _painted(glyph, _COLOURS[name], colour))
    return f"  {bar.label:<10} {cells} {bar.total_gib:.1f} GiB"


def _memory(plan: Plan) -> Iterator[tuple[str, str]]:
    per_gpu = plan.per_gpu
    if per_gpu is None or per_gpu.overhead_gib is None or per_gpu.kv_gib is None:
        return
    weights = "/".join(f"{stage.weights_gib:.2f}" for stage in plan.stages) or f"{per_gpu.weights_gib:.2f}"
    yield (
        "per GPU",
        f"budget {per_gpu.budget_gib:.2f} GiB: weights {weights}, overhead {_range(per_gpu.overhead_gib)}, "
        f"left for KV cache {_range(per_gpu.kv_gib)}",
    )
    if plan.overhead_widened_by:
        yield "", f"the worst end of the overhead is wider: no public log of {_listed(plan.overhead_widened_by)}"


def _cache(request: FitRequest, plan: Plan) -> Iterator[tuple[str, str]]:
    if plan.kv_tokens is None or plan.per_gpu is None:
        return
    worst, likely = plan.kv_tokens
    tokens = f"{worst:,}" if worst == likely else f"{worst:,} to {likely:,}"
    cache = f"{tokens} tokens, {plan.per_gpu.kv_bytes_per_token:,} B per token on each GPU"
    if request.available_kv_gib is not None and plan.kv_block_tokens is not None:
        cache += f", in blocks of {plan.kv_block_tokens} ({plan.attention_backend})"
    yield "KV cache", cache
    if plan.context and plan.max_concurrency and worst:
        low, high = plan.max_concurrency
        concurrency = f"{low:.1f} to {high:.1f}" if low != high else f"{low:g}"
        longest = f"the longest that surely fits is {plan.max_context:,}"
        yield "context", f"{plan.context:,} tokens per request, maximum concurrency {concurrency}; {longest}"


def _logistics(request: FitRequest, plan: Plan) -> Iterator[tuple[str, str]]:
    parts = []
    if plan.weights_bytes is not None and plan.disk_bytes is not None:
        computed = " (computed from its shapes)" if _is_computed(request) else ""
        parts.append(f"weights {plan.weights_bytes / 1e9:.1f} GB{computed}, volume {plan.disk_bytes / 1e9:.1f} GB")
    if plan.download_seconds is not None and plan.load_seconds is not None:
        parts.append(f"download {duration(plan.download_seconds)}, load {duration(plan.load_seconds)}")
    if plan.cost_per_hour_usd is not None:
        nodes = request.deployment.nodes if request.deployment else request.nodes
        more = f" for all {nodes} nodes" if nodes != request.nodes else ""
        parts.append(f"{plan.cost_per_hour_usd:,.2f} $/h{more}")
    if parts:
        yield "logistics", "; ".join(parts)
    if len(plan.cost_parts) > 1:
        yield "cost", "; ".join(_cost_part(part) for part in plan.cost_parts)


def _cost_part(part: CostPart) -> str:
    price = f"not known ({part.source})" if part.usd_per_hour is None else f"{part.usd_per_hour:,.2f} $/h"
    return f"{part.name} {price}"


def _is_computed(request: FitRequest) -> bool:
    """Whether the size of the files is not published, but the sum of the tensors that follow from the shapes."""
    if request.weights_bytes is not None:
        return False
    try:
        model = find_model(request.model, request.include)
    except (NotInCatalogueError, DirectoryError):
        return False
    return model.checkpoint.staged_bytes is None and not model.measured


def _listed(words: tuple[str, ...]) -> str:
    """Words as a list in a sentence: `a`, `a or b`, `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def _range(ends: tuple[float, float]) -> str:
    low, high = sorted(ends)
    return f"{low:.1f} to {high:.1f}" if low != high else f"{low:.2f}"


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text
