"""Fits the constants of the likely range to published speeds, and judges them by sources that were left out.

`make accuracy` writes `config/data/speed_fit.json`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log, sqrt
from typing import Any, TypeVar

from config.catalogue.speeds import PublishedSpeed
from planner.speed.likely import Features, Fit, TpotConstants, TtftConstants, tpot, ttft
from planner.speed.nearness import Conditions, what_is_far

_START = (
    TpotConstants(1.2, 1.5, 1.0, 40e-6, 40e-6, 30e-6, 1.8, 2.5),
    TtftConstants(0.8e-3, 1.0e-3, 2.0, 4.5, 0.15, 2.0),
)
"""Where the fit starts, and what holds a constant that few points decide on."""
_HOLD = 0.03
"""How strongly the start holds a constant: so much of a distance in its logarithm counts as one of a point."""
_OUTLIER = 0.3
"""Logarithm of a ratio from which on a point counts less: a few published figures are wrong."""
_STEPS = 40
_TPOT_WIDTH = 2.5
"""The slow end of the range by the fast one: the widest that is of use for a decision."""
_LONGEST_PROMPT = 8192
"""Tokens: several publishers measured prompts of this length, and hardly one longer ones."""
_INSIDE = 0.9
"""Share of the points left out that the range of the first token holds; its width follows."""

Constants = TypeVar("Constants", TpotConstants, TtftConstants)


@dataclass(frozen=True, slots=True)
class Observation:
    """A published speed, and what the likely times depend on."""

    point: PublishedSpeed
    features: Features
    conditions: Conditions
    tpot: float | None
    """Seconds."""
    ttft: float | None


@dataclass(frozen=True, slots=True)
class Judged:
    """A published speed against the middle of a range that was fitted without its publisher."""

    observation: Observation
    measured: float
    middle: float

    @property
    def ratio(self) -> float:
        """Measured by the middle."""
        return self.measured / self.middle

    @property
    def error(self) -> float:
        """Share by which the middle is off."""
        return abs(self.middle / self.measured - 1)

    def inside(self, width: float) -> bool:
        """Whether it lies in a range of that width."""
        return abs(log(self.ratio)) <= log(width) / 2


Measured = Callable[[Observation], float | None]


def of_tpot(observation: Observation) -> float | None:
    """Its time per output token."""
    return observation.tpot


def of_ttft(observation: Observation) -> float | None:
    """Its time to first token."""
    return observation.ttft


def fit_of(observations: Sequence[Observation], evidence: Fit) -> Fit:
    """The constants that fit those observations which are near by the evidence."""
    near = [each for each in observations if not what_is_far(each.conditions, evidence)]
    token, first = _START
    return replace(
        evidence,
        tpot=_fitted(token, near, tpot, of_tpot),
        ttft=_fitted(first, near, ttft, of_ttft),
    )


def left_out(observations: Sequence[Observation], group: Callable[[Observation], str]) -> dict[str, Fit]:
    """The fit to the observations of all other groups, by group."""
    evidence, names = evidence_of(observations), sorted({group(each) for each in observations})
    return {name: fit_of([each for each in observations if group(each) != name], evidence) for name in names}


def complete_fit(observations: Sequence[Observation]) -> Fit:
    """The fit to all observations, with the width that the first token needs if a publisher is left out."""
    without = left_out(observations, by_publisher)
    first = judged(observations, lambda each: without[by_publisher(each)], of_ttft)
    return replace(fit_of(observations, evidence_of(observations)), ttft_width=width_that_holds(first))


def by_publisher(observation: Observation) -> str:
    """Who published it."""
    return observation.point.publisher


def as_fields(fit: Fit) -> dict[str, Any]:
    """A fit as its data file has it: constants to three digits."""
    return {
        "about": "Written by `make accuracy` from published_speeds.json: planner/speed/calibration.py.",
        "tpot": {name: float(f"{value:.3g}") for name, value in fit.tpot._asdict().items()},
        "ttft": {name: float(f"{value:.3g}") for name, value in fit.ttft._asdict().items()},
        "tpot_width": fit.tpot_width,
        "ttft_width": fit.ttft_width,
        "engines": sorted(fit.engines),
        "generations": sorted(fit.generations),
        "attentions": sorted(fit.attentions),
        "most_users": fit.most_users,
        "longest_prompt": fit.longest_prompt,
    }


def judged(
    observations: Iterable[Observation], fit_for: Callable[[Observation], Fit], measured: Measured
) -> tuple[Judged, ...]:
    """Observations with a point near among those of the fit, against it."""
    found = []
    for each in observations:
        value, fit = measured(each), fit_for(each)
        if value is not None and not what_is_far(each.conditions, fit):
            middle = tpot(fit.tpot, each.features) if measured is of_tpot else ttft(fit.ttft, each.features)
            found.append(Judged(each, value, middle))
    return tuple(found)


def width_that_holds(found: Sequence[Judged]) -> float:
    """The width of a range, to one decimal upwards, that holds the share `_INSIDE` of what was judged."""
    distances = sorted(abs(log(each.ratio)) for each in found)
    furthest = distances[min(len(distances) - 1, int(_INSIDE * len(distances)))]
    return int(10 * exp(2 * furthest) + 1) / 10


def evidence_of(observations: Sequence[Observation]) -> Fit:
    """What observations are of: engines, generations and attentions that two publishers at least have measured.

    The constants are those of the start.
    """
    all_kinds = Fit(
        *_START,
        tpot_width=_TPOT_WIDTH,
        ttft_width=0.0,
        engines=_measured_twice(observations, lambda each: each.conditions.engine),
        generations=_measured_twice(observations, lambda each: each.conditions.generation),
        attentions=_measured_twice(observations, lambda each: each.conditions.attention),
        most_users=max((each.features.users for each in observations), default=0),
        longest_prompt=_LONGEST_PROMPT,
    )
    near = [each for each in observations if not what_is_far(each.conditions, all_kinds)]
    return replace(all_kinds, attentions=_measured_twice(near, lambda each: each.conditions.attention))


def _measured_twice(observations: Sequence[Observation], kind: Callable[[Observation], str]) -> frozenset[str]:
    """The kinds that two publishers at least have measured."""
    publishers: dict[str, set[str]] = {}
    for each in observations:
        publishers.setdefault(kind(each), set()).add(by_publisher(each))
    return frozenset(name for name, found in publishers.items() if len(found) > 1)


def _fitted(
    start: Constants,
    observations: Sequence[Observation],
    form: Callable[[Constants, Features], float],
    measured: Measured,
) -> Constants:
    """Least squares of the logarithms, over the logarithms of the constants, so that all stay positive.

    A publisher with n points counts as the square root of n of them.
    """
    rows = [(each, log(value)) for each in observations if (value := measured(each)) is not None]
    counts = Counter(each.point.publisher for each, _ in rows)
    shares = [1 / sqrt(counts[each.point.publisher]) for each, _ in rows]
    first = [log(value) for value in start]
    now = list(first)
    for _ in range(_STEPS):
        matrix, side = _normal_equations(now, first, start, rows, shares, form)
        step = _solved(matrix, side)
        now = [value + max(-0.5, min(0.5, change)) for value, change in zip(now, step, strict=True)]
        if max(map(abs, step)) < 1e-6:
            break
    return type(start)(*map(exp, now))


def _normal_equations(
    now: Sequence[float],
    first: Sequence[float],
    start: Constants,
    rows: Sequence[tuple[Observation, float]],
    shares: Sequence[float],
    form: Callable[[Constants, Features], float],
) -> tuple[list[list[float]], list[float]]:
    """One step of Gauss and Newton; a point whose residual is large counts less."""
    size = len(now)
    matrix = [[_HOLD**2 * (row == column) for column in range(size)] for row in range(size)]
    side = [_HOLD**2 * (first[row] - now[row]) for row in range(size)]
    ends = [[value + (row == index) * 1e-6 for index, value in enumerate(now)] for row in range(size)]
    moved = [type(start)(*map(exp, end)) for end in ends]
    here = type(start)(*map(exp, now))
    for (each, target), share in zip(rows, shares, strict=True):
        said = log(form(here, each.features))
        slopes = [(log(form(end, each.features)) - said) / 1e-6 for end in moved]
        residual = target - said
        weight = share / sqrt(1 + (residual / _OUTLIER) ** 2)
        for row in range(size):
            side[row] += weight * slopes[row] * residual
            for column in range(size):
                matrix[row][column] += weight * slopes[row] * slopes[column]
    return matrix, side


def _solved(matrix: list[list[float]], side: list[float]) -> list[float]:
    """The solution of a symmetric positive system, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, side, strict=True)]
    for index, pivot in enumerate(rows):
        for below in rows[index + 1 :]:
            factor = below[index] / pivot[index]
            for column in range(index, len(pivot)):
                below[column] -= factor * pivot[column]
    solution = [0.0] * len(rows)
    for index in reversed(range(len(rows))):
        known = sum(rows[index][column] * solution[column] for column in range(index + 1, len(rows)))
        solution[index] = (rows[index][-1] - known) / rows[index][index]
    return solution
