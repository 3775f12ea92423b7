"""Recommendations for a speed: what surely misses it is left out, and what likely reaches it goes first."""

from __future__ import annotations

import pytest

from engines.speed import SpeedAt, Times
from planner.__main__ import main
from planner.recommend import Query, recommend
from planner.targets import Reach, Targets

_BOUND = Times(tpot=0.01, ttft=0.5)
_RANGE = (Times(tpot=0.02, ttft=1.0), Times(tpot=0.05, ttft=3.0))


@pytest.mark.parametrize(
    ("tokens_per_second", "ttft", "reach"),
    [(20, None, Reach.LIKELY), (21, None, Reach.PERHAPS), (50, None, Reach.PERHAPS), (51, None, Reach.NO),
     (None, 3.0, Reach.LIKELY), (None, 2.0, Reach.PERHAPS), (None, 0.9, Reach.NO), (20, 0.9, Reach.NO)],
)  # fmt: skip
def test_a_target_is_reached_by_an_end_of_the_range(
    tokens_per_second: float | None, ttft: float | None, reach: Reach
) -> None:
    targets = Targets(users=4, tokens_per_second=tokens_per_second, ttft_seconds=ttft)
    assert targets.reached(SpeedAt(4, _BOUND, _RANGE)) is reach


@pytest.mark.parametrize(("tokens_per_second", "reach"), [(100, Reach.NOT_KNOWN), (101, Reach.NO)])
def test_the_bound_alone_can_only_say_no(tokens_per_second: float, reach: Reach) -> None:
    assert Targets(tokens_per_second=tokens_per_second).reached(SpeedAt(1, _BOUND)) is reach


def test_users_that_the_cache_does_not_hold_are_not_served() -> None:
    assert Targets(users=10_000).reached(None) is Reach.NO
    assert recommend(Query(model="kimi-k2.5", gpu="h200", targets=Targets(users=10_000))) == ()


def test_every_row_reaches_the_targets_by_its_own_figures() -> None:
    targets = Targets(users=16, tokens_per_second=30.0, ttft_seconds=3.0)
    rows = recommend(Query(gpu="h200", targets=targets))
    assert {row.reach for row in rows} == {Reach.LIKELY, Reach.PERHAPS, Reach.NOT_KNOWN}
    for row in rows:
        assert row.speed is not None
        ends = row.speed.likely or (row.speed.bound, row.speed.bound)
        assert 1 / ends[0].tpot >= 30
        assert ends[0].ttft <= 3
        assert (row.reach is Reach.LIKELY) == (
            row.speed.likely is not None and 1 / ends[1].tpot >= 30 and ends[1].ttft <= 3
        )


def test_a_larger_machine_is_taken_where_the_smaller_misses_the_target() -> None:
    # Llama-3.1-70B in 16 bits reads 141 GB for each token: on 4 H200 7.3 ms at best, and more layers' floors beside it.
    slow = recommend(Query(model="llama-3.1-70b", gpu="h200"))[0]
    fast = recommend(Query(model="llama-3.1-70b", gpu="h200", targets=Targets(tokens_per_second=55.0)))[0]
    assert slow.gpus < fast.gpus


def test_the_command_says_which_speed_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "--model", "kimi-k2.5", "--gpu", "h200", "--users", "32", "--target-tps", "20"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if "32 users" in line]
    assert rows
    assert all(": likely " in row or ": bound " in row for row in rows)
    assert all("target " in row for row in rows)


def test_invalid_targets_are_all_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "--users", "0", "--target-tps", "-1", "--target-ttft", "nan"]) == 2
    said = capsys.readouterr().err
    assert all(flag in said for flag in ("--users: 0", "--target-tps: -1", "--target-ttft: nan"))


def test_a_workload_beyond_the_context_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["fit", "--model", "kimi-k2.5", "--gpu", "h200", "--max-model-len", "4096"]
    assert main([*given, "--prompt-tokens", "8000"]) == 2
    assert "context of 4,096" in capsys.readouterr().err
    assert main([*given, "--answer-tokens", "0"]) == 2
    assert "--answer-tokens: 0" in capsys.readouterr().err
