"""The range of the overhead against what logs measured, each left out in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from config.catalogue import LeftForCache, ground_truth, overheads
from engines.plan import Plan
from engines.vllm.memory.calibration import Observation, observations, ratios
from planner.report.accuracy import left_for_cache
from tests.unit.planner.asking import plan

_ALL = observations()


@pytest.mark.parametrize("index", range(len(_ALL)), ids=[observation.name for observation in _ALL])
def test_each_observation_lies_in_the_range_fitted_without_it(index: int) -> None:
    low, high = ratios(_ALL[:index] + _ALL[index + 1 :])
    assert low <= _ALL[index].ratio <= high


@pytest.mark.parametrize("entry", ground_truth().held_out, ids=lambda entry: entry.id)
def test_what_logs_outside_the_calibration_have_left_lies_in_the_range(entry: LeftForCache) -> None:
    worst, likely = left_for_cache(entry)
    assert worst <= entry.kv_gib <= likely


def test_the_three_logs_of_large_models_are_among_the_observations() -> None:
    logs = {observation.name.split(":")[0] for observation in _ALL if observation.name.startswith("log")}
    assert logs == {"log a", "log h", "log l"}


def test_the_catalogues_ratios_span_every_observation_and_the_margin() -> None:
    found = [observation.ratio for observation in _ALL]
    low, high, margin = (overheads().low_ratio, overheads().high_ratio, overheads().margin)
    assert low + margin <= min(found) < low + margin + 0.01
    assert high - margin - 0.01 < max(found) <= high - margin


def test_ratios_are_rounded_outwards() -> None:
    """9 / 8 = 1.125 and 7 / 8 = 0.875, each with the margin of 0.05 beyond it."""
    assert overheads().margin == 0.05
    assert ratios([Observation("low", 7.0, 8.0), Observation("high", 9.0, 8.0)]) == (0.82, 1.18)


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=1))
def test_no_observation_lies_outside_of_its_ratios(measured: list[tuple[float, float]]) -> None:
    found = [Observation("any", *each) for each in measured]
    low, high = ratios(found)
    for observation in found:
        assert low <= observation.ratio - overheads().margin + 1e-9
        assert observation.ratio + overheads().margin - 1e-9 <= high


def test_an_observation_far_off_widens_the_range() -> None:
    low, high = ratios([*_ALL, Observation("odd", measured=9.0, modelled=3.0)])
    assert high > 3
    assert low == ratios(_ALL)[0]


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
def test_the_range_is_at_most_4_gib_wide_at_default_settings(model: str, gpu: str, gpus: int) -> None:
    assert _width(plan(model, gpu, gpus_per_node=gpus)) <= 4


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
