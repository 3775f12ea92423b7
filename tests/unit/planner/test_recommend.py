"""Recommendations: accepted by the planner, smallest first, within quality and budget."""

import pytest

from planner.fit import plan_only
from planner.recommend import Query, recommend, table


def test_every_recommendation_is_accepted_and_ordered_by_cost() -> None:
    found = recommend(Query(quality="high"))
    costs = [best.plan.cost_per_hour_usd or 0.0 for best in found]
    assert costs == sorted(costs)
    assert all(cost > 0 for cost in costs)
    for best in found:
        assert best.model.quality == "high"
        assert plan_only(best.request).verdict in ("fits", "tight")


def test_a_budget_is_kept() -> None:
    found = recommend(Query(usd_per_hour=30.0))
    assert found
    assert all((best.plan.cost_per_hour_usd or 99) <= 30.0 for best in found)


@pytest.mark.parametrize(
    ("checkpoint", "gpu", "nodes", "gpus"),
    [
        ("kimi-k2.5", "h200", 1, 8),
        ("kimi-k2.5", "h100", 2, 16),
        ("kimi-k2.5-nvfp4", "b200", 1, 4),
        ("glm-5-fp8", "h200", 1, 8),
        ("minimax-m2.5", "h100", 1, 4),
        ("qwen3-235b-a22b", "h200", 1, 4),
        ("qwen3-235b-a22b-fp8", "h100", 1, 4),
        ("qwen3.5-397b-a17b", "h200", 1, 8),
        ("qwen3.5-35b-a3b", "h200", 1, 1),
        ("llama-3.1-8b", "l4", 1, 1),
    ],
)
def test_the_smallest_machine_is_the_one_that_recipes_name(checkpoint: str, gpu: str, nodes: int, gpus: int) -> None:
    """Sizes of vllm-project/recipes at 8959cf64, and the collection's own screen by bytes."""
    found = {best.checkpoint.name: best for best in recommend(Query(gpu=gpu, nodes=nodes))}
    assert found[checkpoint].gpus == gpus


def test_kimi_is_not_recommended_for_one_node_of_h100() -> None:
    names = {best.checkpoint.name for best in recommend(Query(gpu="h100", nodes=1, quality="frontier"))}
    assert not names & {"kimi-k2.5", "kimi-k2.6", "kimi-k2.5-nvfp4"}


def test_nothing_found_is_said() -> None:
    assert recommend(Query(gpu="l4", gpus_per_node=1, quality="frontier")) == ()
    assert "Try more GPUs" in table(())
