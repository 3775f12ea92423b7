"""The range of the overhead against what logs measured, whole releases and GPUs left out."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.catalogue import ground_truth, overheads
from config.checkpoint.model_spec import find_model
from engines.plan import Plan
from engines.vllm.memory.calibration import Observation, held_out, observations, ratios
from engines.vllm.memory.overhead import Overhead
from planner import FitRequest, fit
from planner.report.explain import explain
from planner.report.summary import summary
from tests.unit.planner.asking import GIB, plan

_ALL = observations()
_GROUPS: dict[str, Callable[[Observation], str]] = {
    "release": lambda each: each.release,
    "gpu": lambda each: each.gpu,
}


@pytest.mark.parametrize("group", _GROUPS.values(), ids=_GROUPS)
def test_the_range_bounds_releases_and_gpus_that_it_was_not_fitted_to(group: Callable[[Observation], str]) -> None:
    judged = [*held_out(group)]
    assert len(judged) == len(_ALL)
    assert sum(each.inside for each in judged) >= 0.95 * len(judged)
    assert max(each.beyond_worst for each in judged) <= 0.01


@pytest.mark.parametrize("each", _ALL, ids=lambda each: each.name)
def test_every_observation_lies_in_the_range_of_a_plan(each: Observation) -> None:
    part = each.modelled
    assert part.likely <= each.measured * GIB <= part.worst


def test_the_logs_and_runs_of_large_models_are_among_the_observations() -> None:
    named = {each.name.split(":")[0] for each in _ALL if each.name.startswith(("log", "run"))}
    runs = {f"run {run.id}" for run in ground_truth().runs}
    assert named == {"log a", "log h", "log l"} | runs
    assert {"run q8", "run q32", "run q65", "run g8", "run g1", "run M01", "run M15"} <= runs


def test_the_catalogues_ratios_are_those_of_all_observations() -> None:
    assert ratios(_ALL) == (overheads().low_ratio, overheads().high_ratio)


def _observed(measured: float, modelled: float) -> Observation:
    """An observation without graphs and weights."""
    part = Overhead(modelled * GIB, 0.0, 0.0, 0.0, 0.0, 0.0)
    return Observation("any", "0.33", "h200", 8192, measured, part, "none")


def test_ratios_are_rounded_outwards() -> None:
    """9 / 8 = 1.125 and 7 / 8 = 0.875, each with the margin of 0.05 beyond it."""
    assert overheads().margin == 0.05
    assert ratios([_observed(7.0, 8.0), _observed(9.0, 8.0)]) == (0.82, 1.18)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=1))
def test_no_observation_lies_outside_of_its_ratios(measured: list[tuple[float, float]]) -> None:
    found = [_observed(*each) for each in measured]
    low, high = ratios(found)
    for each in found:
        assert low <= each.low_ratio - overheads().margin + 1e-9
        assert each.high_ratio + overheads().margin - 1e-9 <= high


def test_an_observation_far_off_widens_the_range() -> None:
    low, high = ratios([*_ALL, _observed(9.0, 3.0)])
    assert high > 3
    assert low == ratios(_ALL)[0]


def _worst(**settings: Any) -> float:
    found = plan("minimax-m2.5", **settings).per_gpu
    assert found is not None
    assert found.overhead_gib is not None
    return found.overhead_gib[1]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"engine_version": "0.33.0"}, "vLLM 0.33"),
        ({"gpu": "b200"}, "B200"),
        ({"max_num_batched_tokens": 131_072}, "more than 65,536 batched tokens"),
        ({"gpus_per_node": 8, "tensor_parallel": 4, "data_parallel": 2}, "data parallelism"),
    ],
)
def test_where_no_log_is_near_the_worst_end_is_wider_and_the_plan_says_why(
    settings: dict[str, Any], reason: str
) -> None:
    near = {"gpu": "h200", "gpus_per_node": 4, "engine_version": "0.20.0", "max_num_batched_tokens": 8192}
    assert _worst(**{**near, **settings}) > _worst(**near)
    request = FitRequest(model="minimax-m2.5", **{**near, **settings})
    planned = fit(request)
    assert reason in planned.overhead_widened_by
    assert reason in summary(request, planned)
    assert reason in explain(request, fit(request))


def test_where_a_log_is_near_the_range_is_not_widened() -> None:
    planned = plan("minimax-m2.5", "h200", gpus_per_node=4, engine_version="0.20.2")
    assert planned.overhead_widened_by == ()


def _width(planned: Plan) -> float:
    assert planned.per_gpu is not None
    assert planned.per_gpu.overhead_gib is not None
    likely, worst = planned.per_gpu.overhead_gib
    assert likely < worst
    return worst - likely


@pytest.mark.parametrize(
    ("model", "gpu", "gpus"),
    [
        ("kimi-k2.5", "h200", 8),
        ("kimi-k2.5-nvfp4", "b200", 4),
        ("glm-5-fp8", "h200", 8),
        ("qwen3.5-397b-a17b", "h200", 8),
        ("qwen3-235b-a22b", "b200", 8),
        ("qwen3-235b-a22b-fp8", "h100", 4),
        ("minimax-m2.5", "h100", 4),
        ("qwen3.5-35b-a3b", "h200", 1),
        ("llama-3.1-8b", "l4", 1),
    ],
)
def test_the_range_is_at_most_6_gib_wide_at_default_settings(model: str, gpu: str, gpus: int) -> None:
    """Up to a tenth of the GPU's memory, on GPUs and with layers of which no log was found; near a log it is 4."""
    assert _width(plan(model, gpu, gpus_per_node=gpus)) <= 6
    if gpu == "h200" and not find_model(model).shape.linear:
        assert _width(plan(model, gpu, gpus_per_node=gpus, engine_version="0.28.0")) <= 4.1


def _overhead(**settings: object) -> tuple[float, float]:
    found = plan("minimax-m2.5", "b300", **{"gpus_per_node": 4, **settings}).per_gpu
    assert found is not None
    assert found.overhead_gib is not None
    return found.overhead_gib


def test_the_overhead_grows_with_what_it_depends_on() -> None:
    base = _overhead()
    assert _overhead(max_num_batched_tokens=65_536) > base
    assert _overhead(max_num_seqs=64) < base
    spread = {"gpus_per_node": 8, "tensor_parallel": 4, "data_parallel": 2, "expert_parallel": True}
    assert _overhead(**spread)[1] > base[1]
    # More weights on the GPU.
    assert _overhead(gpus_per_node=2)[1] > base[1]


def test_the_last_pipeline_stage_has_more_since_it_samples() -> None:
    first, last = plan("kimi-k2.5", "h100", nodes=2, tensor_parallel=8).stages
    assert last.overhead_gib > first.overhead_gib


def test_sparse_decode_with_an_fp8_cache_reserves_what_profiling_misses() -> None:
    settings = {"kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.9, "expert_parallel": True}
    small = plan("glm-5-fp8", **settings, max_num_batched_tokens=8192).per_gpu
    large = plan("glm-5-fp8", **settings, max_num_batched_tokens=32_768)
    assert small is not None
    assert small.overhead_gib is not None
    assert large.per_gpu is not None
    assert large.per_gpu.overhead_gib is not None
    # 2 x 32,768 x 64 x 512 x 4 B = 8 GiB; the scratch alone is 6 GiB more than at 8,192.
    assert large.per_gpu.overhead_gib[0] - small.overhead_gib[0] > 6
    assert "sparse_decode_scratch" in {warning.code for warning in large.warnings}


def test_qwen3_235b_on_an_old_release_has_the_overhead_that_was_reported() -> None:
    """M15: 0.90 x 79.19 less 55.12 of weights and 8.11 of cache is 8.04 GiB, under a release of mid-2025."""
    found = plan("qwen3-235b-a22b-fp8", "h100", gpus_per_node=4, engine_version="0.9.2").per_gpu
    assert found is not None
    assert found.overhead_gib is not None
    assert found.overhead_gib[0] <= 8.04 <= found.overhead_gib[1]
