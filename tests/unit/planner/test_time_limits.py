"""Five time limits from two durations: each outer one is longer than what it covers."""

import pytest

from engines.plan import PerGpu, Plan
from engines.request import FitRequest
from planner.time_limits import TimeLimits, limits_at_floor, time_limits
from tests.unit.planner.asking import plan

_ON_GPU = PerGpu(None, None, None, None, None)


def _limits(download: float | None, load: float | None, per_gpu: PerGpu | None = _ON_GPU) -> TimeLimits:
    return time_limits(Plan(verdict="fits", per_gpu=per_gpu, download_seconds=download, load_seconds=load))


@pytest.mark.parametrize(("download", "load"), [(None, None), (0.5, 1.0), (2380.7, 531.6), (40_000.0, 9_000.0)])
def test_the_innermost_limit_fires_first(download: float | None, load: float | None) -> None:
    limits = _limits(download, load)
    assert limits.stage_deadline_seconds < limits.stage_await_seconds
    assert limits.engine_ready_seconds < limits.startup_seconds
    assert limits.startup_seconds < limits.server_await_seconds


def test_a_start_three_times_as_slow_as_planned_is_waited_for() -> None:
    limits = _limits(10_000.0, 1_000.0)
    assert limits.stage_deadline_seconds >= 30_000
    assert limits.engine_ready_seconds >= 3_000


def test_a_gpu_model_never_gets_less_than_ten_minutes_to_start() -> None:
    assert _limits(1.0, 1.0).startup_seconds >= 600
    assert _limits(1.0, 1.0).engine_ready_seconds >= 600
    assert _limits(1.0, 1.0, per_gpu=None).startup_seconds < 600


def test_a_full_verification_is_counted_where_it_happens() -> None:
    planned = plan("kimi-k2.5")
    quick, full = time_limits(planned), time_limits(planned, full_verification=True)
    # 595.18 GB at 1 GB/s, three times.
    assert full.server_await_seconds == quick.server_await_seconds + 1786
    assert full.startup_seconds == quick.startup_seconds


def test_no_limit_of_kimi_is_a_default_of_ten_minutes() -> None:
    limits = time_limits(plan("kimi-k2.5"))
    # 595 GB at 250 MB/s is 40 minutes, and loads in about 9.
    assert limits.stage_deadline_seconds > 3600
    assert limits.startup_seconds > 1500


def test_where_the_bytes_are_not_known_those_of_the_volume_stand_for_them() -> None:
    unknown = Plan(verdict="unknown", per_gpu=_ON_GPU)
    request = FitRequest(
        model="acme/new", volume_bytes=2000 * 2**30, staging_bytes_per_second=1.25e9, read_bytes_per_second=0.4e9
    )
    limits = time_limits(unknown, request)
    # 2,147 GB at 1.25 GB/s and at 0.4 GB/s, three times.
    assert limits.stage_deadline_seconds == 5154
    assert limits.engine_ready_seconds == 16107
    assert limits_at_floor(unknown, request, limits) is None


def test_limits_that_follow_from_nothing_are_said() -> None:
    unknown, request = Plan(verdict="unknown", per_gpu=_ON_GPU), FitRequest(model="acme/new")
    words = limits_at_floor(unknown, request, time_limits(unknown, request)) or ""
    assert "staging gets 900 s and the start of the engine 600 s" in words
    assert "heavylift:weights.size" in words
