"""The likely range: figures of the accuracy document, what it is fitted to, and where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from statistics import median

import pytest

from config.catalogue.speeds import PublishedSpeed, other_estimates, published_speeds
from engines.speed import Times, Workload
from planner import FitRequest, fit
from planner.fit import with_workload
from planner.report.accuracy import SPEED_FIT, fit_of_speed
from planner.report.speed import NOT_KNOWN, speed_facts
from planner.report.speeds import judgements
from planner.speed.calibration import complete_fit
from planner.speed.likely import Features, fitted, likely_times, tpot, ttft
from planner.speed.nearness import what_is_far
from planner.speed.points import kept_back, observation, observations
from tests.unit.planner.asking import plan


def test_the_fit_in_the_data_is_current() -> None:
    assert SPEED_FIT.read_text() == fit_of_speed(), "run make accuracy"


def test_the_ranges_hold_what_the_accuracy_document_says() -> None:
    found = {
        (name, what.split(" by ")[0]): (points, width)
        for what, name, points, width in judgements(complete_fit(observations()))
    }
    sources, width = found["TPOT", "each source"]
    assert width == 2.5
    assert sum(each.inside(width) for each in sources) / len(sources) >= 0.9
    assert median(each.error for each in sources) < 0.25
    assert len(sources) >= 90
    kept, _ = found["TPOT", "points kept back,"]
    assert sum(each.inside(width) for each in kept) / len(kept) >= 0.85
    assert median(each.error for each in kept) < 0.25
    first, width = found["TTFT", "each source"]
    assert sum(each.inside(width) for each in first) / len(first) >= 0.9


def test_no_measurement_is_faster_than_its_bound() -> None:
    seen = [found for point in published_speeds().points if (found := observation(point)) is not None]
    alone = [each for each in (*seen, *kept_back()) if each.tpot and _without_speculation(each.point)]
    assert len(alone) > 200
    faster = {
        each.point.id: (each.tpot, bound)
        for each in alone
        if (bound := each.features.weights + each.features.cache) > (each.tpot or 0)
    }
    assert faster == {}


def _without_speculation(point: PublishedSpeed) -> bool:
    return point.left_out is None or point.speculation.startswith("off")


def test_every_point_has_a_source_and_is_in_the_document() -> None:
    points = published_speeds().points
    assert len(points) == 190
    assert len({point.id for point in points}) == 190
    assert all(point.source and point.publisher for point in points)
    kept = published_speeds().kept_back
    assert len({point.id for point in kept}) == 150
    assert not any(own.id in point.source for own in kept for point in points)


def test_each_estimate_of_another_is_of_a_published_speed() -> None:
    estimates, published = other_estimates(), published_speeds()
    assert estimates.keys() <= {point.id for point in (*published.points, *published.kept_back)}
    assert all((each.tpot_ms is None) == (each.why is not None) for each in estimates.values())
    assert sum(each.tpot_ms is not None for each in estimates.values()) > 200


def test_a_layer_more_costs_its_floor() -> None:
    of = Features(
        users=1, layers=60, experts=True, sums=True, latent=False, generation="9",
        weights=1e-3, cache=0.0, prefill=0.0, answer_tokens=1000,
    )  # fmt: skip
    constants = fitted().tpot
    more = tpot(constants, replace(of, layers=61)) - tpot(constants, of)
    assert more == pytest.approx(constants.layer + constants.layer_experts + constants.layer_sums)
    assert ttft(fitted().ttft, replace(of, latent=True)) > ttft(fitted().ttft, of)


def test_the_fast_end_is_never_beyond_the_bound() -> None:
    of = Features(
        users=1, layers=1, experts=False, sums=False, latent=False, generation="9",
        weights=1.0, cache=0.0, prefill=1.0, answer_tokens=1000,
    )  # fmt: skip
    fast, slow = likely_times(fitted(), of, Times(tpot=1.0, ttft=1.0))
    assert fast.tpot == 1.0
    assert slow.tpot == pytest.approx(tpot(fitted().tpot, of) * 2.5**0.5)


def test_a_measured_stack_lies_in_its_range() -> None:
    # InferenceX pull request 3173: DeepSeek-R1 in fp8 on 8 H200, 8,192 tokens in, 1,024 out, 4 and 64 users.
    planned = plan("deepseek-r1-0528")
    speed = planned.speed
    assert speed is not None
    assert speed.most_likely is not None
    assert speed.most_likely.users == min(64, speed.most.users)
    assert speed.one.likely is not None
    fast, slow = speed.one.likely
    assert fast.tpot < 10.94e-3 < slow.tpot


@pytest.mark.parametrize(
    ("model", "settings", "why"),
    [
        ("glm-5-fp8", {}, "sparse latent attention"),
        ("qwen3.5-397b-a17b-fp8", {}, "linear layers"),
        ("kimi-k2.5", {"pipeline_parallel": 2, "nodes": 2, "gpus_per_node": 8}, "pipeline parallelism"),
        ("deepseek-r1", {"speculative_tokens": 1}, "speculative decoding"),
        ("llama-3.1-8b", {"gpu": "l4", "gpus_per_node": 1, "max_model_len": 8192}, "this generation of GPUs"),
        ("kimi-k2.5", {"enforce_eager": True}, "eager mode"),
    ],
)
def test_where_nothing_is_near_the_bound_stands_alone_and_says_so(
    model: str, settings: dict[str, object], why: str
) -> None:
    speed = plan(model, **settings).speed
    assert speed is not None
    assert all(at.likely is None for at in speed.at)
    assert speed.as_dict()["likely"] is None
    assert speed.why_no_range is not None
    assert why in speed.why_no_range
    assert NOT_KNOWN in dict(speed_facts(speed))["likely"]


def test_long_prompts_have_no_range() -> None:
    request = FitRequest(model="kimi-k2.5", gpu="h200")
    speed = with_workload(fit(request), request, Workload(100_000, 1000)).speed
    assert speed is not None
    assert "longer than 8,192" in str(speed.why_no_range)


def test_every_speed_says_which_of_the_two_it_is() -> None:
    lines = dict(speed_facts(plan("kimi-k2.5", usd_per_gpu_hour=2.0).speed))
    assert list(lines) == ["bound", "likely"]
    assert all("tokens/s" in line and "$" in line for line in lines.values())
    exported = plan("kimi-k2.5", usd_per_gpu_hour=2.0).as_dict()["speed"]
    slow = exported["likely"]["users"][-1]["slow"]
    # 8 GPUs at 2 $ an hour, and the tokens that they give in one.
    dollars = 16 / (3600 * slow["output_tokens_per_second"]) * 1e6
    assert slow["usd_per_million_output_tokens"] == pytest.approx(dollars, rel=0.01)
    stated = {name for name, value in exported.items() if "tpot_ms" in json.dumps(value)}
    assert stated == {"bound", "likely"}


def test_what_is_near_is_what_two_publishers_measured() -> None:
    fit_now = fitted()
    near = [each for each in observations() if not what_is_far(each.conditions, fit_now)]
    for kind, names in (
        ("engine", fit_now.engines),
        ("generation", fit_now.generations),
        ("attention", fit_now.attentions),
    ):
        for name in names:
            of = {each.point.publisher for each in near if getattr(each.conditions, kind) == name}
            assert len(of) > 1, (kind, name)
