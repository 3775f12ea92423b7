"""The section of `docs/accuracy.md` on speed: the likely range against published speeds, worst first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import log
from statistics import median

from config.catalogue.speeds import PublishedSpeed, other_estimates, published_speeds
from planner.report.speed import digits
from planner.speed.calibration import (
    Judged,
    Measured,
    Observation,
    by_publisher,
    complete_fit,
    judged,
    left_out,
    of_tpot,
    of_ttft,
)
from planner.speed.likely import QUEUE_GROWTH, Fit
from planner.speed.nearness import what_is_far
from planner.speed.points import kept_back, observation, observations

_GOAL = 2.5
"""The slow end by the fast end that a range should not exceed."""
_COLUMNS = "TPOT | likely | aiconfigurator | TTFT | likely | aiconfigurator"
_MEASURED: tuple[tuple[str, Measured], ...] = (("TPOT", of_tpot), ("TTFT", of_ttft))


def section() -> Iterator[str]:
    """The lines of the section."""
    fit = complete_fit(observations())
    yield "## Speed"
    yield ""
    yield "The bound counts what a step must read, compute and send (`planner/speed/bound.py`); the likely range adds"
    yield "what published servers take beside it, fitted to the points below (`planner/speed/calibration.py`). Both are"
    yield "for servers without speculative decoding. The data are in `config/data/published_speeds.json`."
    yield ""
    yield "Goal: 90% of points whose source was left out of the fit inside a range no wider than a factor of"
    yield f"{_GOAL:g}, and a median error of its middle under 25%. TPOT, at 1 to 64 users, reaches it for sources left"
    yield "out; points kept back miss it by a little, and by more where nothing of their benchmark is fitted to. TTFT"
    yield "misses it: its range is as wide as it must be to hold 90%, and points of one configuration lie apart"
    yield f"(below). The wait for other users grows with their number to the power of {QUEUE_GROWTH:g}, chosen by the"
    yield "sources left out. Constants of each engine, a floor that grows with the users, the share of time that"
    yield "prompts take and the time of a running step did not narrow it both there and for the points kept back."
    yield ""
    yield from _summary(fit)
    yield ""
    yield from _constants(fit)
    yield ""
    yield from _measured_again()
    yield ""
    yield "### Beside aiconfigurator"
    yield ""
    yield from _beside(fit)
    yield ""
    yield "### Each point, judged without its source"
    yield ""
    yield from _points(fit)
    yield ""
    yield "### Points without a range"
    yield ""
    yield from _not_judged(fit)
    yield ""
    yield "### Points kept back"
    yield ""
    yield "Rows of one public table, drawn by the hash of their id after the first form of the fit was chosen. Nothing"
    yield "is fitted to them; they were seen when the growth of the wait with the users was chosen."
    yield ""
    yield f"| point | release, GPUs, users, tokens in and out | {_COLUMNS} | |"
    yield "|---|---|---|---|---|---|---|---|---|"
    yield from (_row(each, fit, what=each.point.id) for each in _worst_first(kept_back(), lambda _: fit))


def harness(each: Observation) -> str:
    """Publishers whose runs come from one benchmark are one."""
    publisher = by_publisher(each)
    return "InferenceX" if publisher.startswith("InferenceX") else publisher


def judgements(fit: Fit) -> Iterator[tuple[str, str, tuple[Judged, ...], float]]:
    """What is judged by what: a name, TPOT or TTFT, the points and the width of the range."""
    alone, together = left_out(observations(), by_publisher), left_out(observations(), harness)
    ways: tuple[tuple[str, Sequence[Observation], Callable[[Observation], Fit]], ...] = (
        ("each source by the others; a pull request is one", observations(), lambda each: alone[by_publisher(each)]),
        ("each benchmark by the others; InferenceX is one", observations(), lambda each: together[harness(each)]),
        ("points kept back, by all points", kept_back(), lambda _: fit),
        ("points kept back, without InferenceX", kept_back(), lambda _: together["InferenceX"]),
    )
    for name, measured in _MEASURED:
        width = fit.tpot_width if measured is of_tpot else fit.ttft_width
        for what, points, fit_for in ways:
            yield what, name, judged(points, fit_for, measured), width


def _summary(fit: Fit) -> Iterator[str]:
    yield f"| | judged | points | inside a factor of {_GOAL:g} | width | inside it | median error of the middle |"
    yield "|---|---|---|---|---|---|---|"
    for what, name, found, width in judgements(fit):
        goal, own = (sum(each.inside(size) for each in found) / len(found) for size in (_GOAL, width))
        error = median(each.error for each in found)
        yield f"| {name} | {what} | {len(found)} | {goal:.0%} | {width:g} | {own:.0%} | {error:.0%} |"


def spreads(measured: Measured) -> tuple[float, ...]:
    """The slowest by the fastest of points of one configuration, which differ in engine, release or publisher alone;
    in ascending order."""
    groups: dict[tuple[object, ...], list[float]] = {}
    for each in (*observations(), *kept_back()):
        point, value = each.point, measured(each)
        served = (point.checkpoint, point.quantization, point.file_bytes)
        machine = (point.gpu, point.gpus, point.tp, point.pp, point.expert_parallel)
        load = (point.users, point.prompt_tokens, point.answer_tokens)
        if value is not None:
            groups.setdefault((served, machine, load), []).append(value)
    return tuple(sorted(max(found) / min(found) for found in groups.values() if len(found) > 1))


def _measured_again() -> Iterator[str]:
    """How far published points of one configuration lie apart, which no range of it can be narrower than."""
    yield "### One configuration, measured again"
    yield ""
    yield "Points of the same checkpoint, GPUs, layout, users and lengths, by other engines, releases or publishers:"
    yield "the slowest by the fastest. A form that knows neither engine nor release gives them one range, so that a"
    yield f"group further apart than {_GOAL:g} has a point outside any range as wide as the goal."
    yield ""
    yield f"| | configurations | median | 90% within | furthest | further apart than {_GOAL:g} |"
    yield "|---|---|---|---|---|---|"
    for name, measured in _MEASURED:
        found = spreads(measured)
        tenth = found[min(len(found) - 1, int(0.9 * len(found)))]
        far = sum(spread > _GOAL for spread in found)
        yield f"| {name} | {len(found)} | {median(found):.2f} | {tenth:.2f} | {found[-1]:.2f} | {far} |"


def _beside(fit: Fit) -> Iterator[str]:
    """The median errors of the middle of the range and of aiconfigurator, on the points that both answer."""
    yield "aiconfigurator estimates one figure from kernels that it measured on each GPU, and from the launches between"
    yield "them (`make aiconfigurator`). The points kept back are from its own table. Its figures stand in the tables"
    yield "below. It has no AMD GPUs, no H20 and no RTX PRO 6000, and not every checkpoint and layout."
    yield ""
    yield "| | judged | points | median error | of aiconfigurator | within a factor of 1.58 | aiconfigurator | nearer |"
    yield "|---|---|---|---|---|---|---|---|"
    for what, name, found, _ in judgements(fit):
        both = [(each, theirs) for each in found if (theirs := _estimated(each, name)) is not None]
        ours, others = (
            median(errors) for errors in zip(*((each.error, abs(it - 1)) for each, it in both), strict=True)
        )
        inside = sum(each.inside(_GOAL) for each, _ in both) / len(both)
        inside_too = sum(abs(log(theirs)) <= log(_GOAL) / 2 for _, theirs in both) / len(both)
        nearer = sum(each.error < abs(theirs - 1) for each, theirs in both) / len(both)
        yield (
            f"| {name} | {what} | {len(both)} | {ours:.0%} | {others:.0%} | {inside:.0%} | {inside_too:.0%} | "
            f"{nearer:.0%} |"
        )


def _estimated(each: Judged, name: str) -> float | None:
    """What aiconfigurator says, by what was measured."""
    estimate = other_estimates().get(each.observation.point.id)
    found = None if estimate is None else estimate.tpot_ms if name == "TPOT" else estimate.ttft_ms
    return None if found is None else found / 1000 / each.measured


def _constants(fit: Fit) -> Iterator[str]:
    token, first = fit.tpot, fit.ttft
    yield (
        f"TPOT = {token.weights:.2f} x weights + {token.cache:.2f} x cache + layers x ({1e6 * token.layer:.0f} us, "
        f"with experts {1e6 * token.layer_experts:.0f} more, with several ranks {1e6 * token.layer_sums:.0f} more) + "
        f"{token.prompts:.2f} x prefill of the others; floor and prefill x {token.ampere:.1f} on A100, x "
        f"{token.amd:.1f} on MI300X and MI325X."
    )
    yield ""
    yield (
        f"TTFT = layers x ({1e3 * first.layer:.2f} ms, with latent attention {1e3 * first.layer_latent:.2f} more) + "
        f"prefill x ({first.dense:.1f}, with experts {first.experts:.1f}) x (1 + {first.queue:.2f} x other users to "
        f"the power of {QUEUE_GROWTH:g}); x {first.amd:.1f} on MI300X and MI325X."
    )


def _points(fit: Fit) -> Iterator[str]:
    without = left_out(observations(), by_publisher)
    near = [each for each in observations() if not what_is_far(each.conditions, fit)]
    yield f"| point | release, GPUs, users, tokens in and out | {_COLUMNS} | source |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for each in _worst_first(near, lambda each: without[by_publisher(each)]):
        own = replace(without[by_publisher(each)], ttft_width=fit.ttft_width)
        yield _row(each, own, what=each.point.model, source=each.point.source)


def _worst_first(points: Sequence[Observation], fit_for: Callable[[Observation], Fit]) -> list[Observation]:
    """By the distance of the TPOT from the middle of its range."""
    found = judged(points, fit_for, of_tpot)
    return [each.observation for each in sorted(found, key=lambda each: -abs(log(each.ratio)))]


def _row(each: Observation, fit: Fit, *, what: str, source: str = "") -> str:
    cells = []
    for name, measured in _MEASURED:
        width = fit.tpot_width if measured is of_tpot else fit.ttft_width
        found = judged([each], lambda _: fit, measured)
        cells.append(_cells(found[0], width, name) if found else " | | ")
    return f"| {what} | {_conditions(each.point)} | {cells[0]} | {cells[1]} | {source} |"


def _cells(found: Judged, width: float, name: str) -> str:
    low, high = found.middle / width**0.5, found.middle * width**0.5
    outside = "" if found.inside(width) else " **outside**"
    theirs = _estimated(found, name)
    other = "" if theirs is None else digits(1000 * found.measured * theirs)
    return f"{digits(1000 * found.measured)} ms | {digits(1000 * low)} to {digits(1000 * high)}{outside} | {other}"


def _conditions(point: PublishedSpeed) -> str:
    users = point.stated_concurrency or point.users
    lengths = [f"{tokens:,.0f}" if tokens else "?" for tokens in (point.prompt_tokens, point.answer_tokens)]
    return f"{point.release}, {point.gpus or '?'} {point.gpu or ''}, {users}, {' + '.join(lengths)}"


def _not_judged(fit: Fit) -> Iterator[str]:
    yield "| point | release, GPUs, users, tokens in and out | TPOT | bound | why | source |"
    yield "|---|---|---|---|---|---|"
    for point in published_speeds().points:
        seen = observation(point)
        far = what_is_far(seen.conditions, fit) if seen is not None else ()
        why = point.left_out or (f"no other source {', '.join(far)}" if far else None)
        if why is None:
            continue
        measured = "" if point.tpot_ms is None else f"{digits(point.tpot_ms)} ms"
        bound = "" if seen is None else f"{digits(1000 * (seen.features.weights + seen.features.cache))} ms"
        yield f"| {point.model} | {_conditions(point)} | {measured} | {bound} | {why} | {point.source} |"
