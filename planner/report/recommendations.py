"""Recommendations as a text table, with the numbers that `--row` takes."""

from __future__ import annotations

from collections.abc import Iterator

from planner.recommend import Nearness, Recommendation
from planner.report.speed import speed_of_row
from planner.targets import Reach

_NEARNESS = {Nearness.ORIGINAL: "original", Nearness.CLOSE: "close", Nearness.FOUR_BITS: "", Nearness.FEWER_BITS: ""}

_REACH = {Reach.LIKELY: "likely reached", Reach.PERHAPS: "perhaps reached", Reach.NOT_KNOWN: "not known"}


def table(found: tuple[Recommendation, ...], larger: tuple[Recommendation, ...] = ()) -> str:
    """The recommendations, and those that need more nodes than the query has."""
    return "\n".join(_lines(found, larger))


def _lines(found: tuple[Recommendation, ...], larger: tuple[Recommendation, ...]) -> Iterator[str]:
    if found:
        machine = max(len(row.machine) for row in found) + 2
        yield (
            f"{'':>3} {'checkpoint':<28}{'quality':<10}{'format':<16}{'machine':<{machine}}{'layout':<16}"
            f"{'context':>9}{'$/h':>9}  verdict"
        )
        yield from (_row(number, row, machine) for number, row in enumerate(found, start=1))
    else:
        yield "No checkpoint fits. Try more GPUs, a larger budget, a shorter context or lower targets."
    if larger:
        yield ""
        yield "On more nodes:"
        yield from (f"  {_with_more(row)}" for row in larger)


def _row(number: int, row: Recommendation, machine: int) -> str:
    cost = row.plan.cost_per_hour_usd
    price = "-" if cost is None else f"{cost:.2f}"
    more = f", {row.times_the_tokens:.1f} x the tokens" if row.times_the_tokens > 1 else ""
    more += f"; target {_REACH[row.reach]}; {speed_of_row(row.speed)}" if row.speed is not None else ""
    return (
        f"{number:>3} {row.checkpoint.name:<28}{row.model.quality:<10}{_format(row):<16}{row.machine:<{machine}}"
        f"{_layout(row):<16}{row.request.max_model_len or 0:>9,}{price:>9}  {row.plan.verdict}{more}"
    )


def _with_more(row: Recommendation) -> str:
    nodes = {2: "two", 4: "four"}.get(row.request.nodes, str(row.request.nodes))
    per_node = row.gpus // row.request.nodes
    title = row.machine.split(" ", 1)[1]
    checkpoint = f"{_format(row)} checkpoint {row.checkpoint.name}"
    verdict = f"{row.plan.verdict}, {_layout(row)}; add --nodes {row.request.nodes}"
    return f"{nodes} nodes of {per_node} {title} hold the {checkpoint}: {verdict}"


def _format(row: Recommendation) -> str:
    quantization = row.checkpoint.gguf.quantization if row.checkpoint.gguf else row.checkpoint.format
    return " ".join(filter(None, (_NEARNESS[row.nearness], quantization)))


def _layout(row: Recommendation) -> str:
    layout = row.plan.layout
    sizes = {"TP": layout.tp, "PP": layout.pp, "DP": layout.dp, "PCP": layout.pcp, "EP": layout.ep, "DCP": layout.dcp}
    return " ".join(f"{name}{size}" for name, size in sizes.items() if size > 1) or "TP1"
