"""The cost of a plan, part by part."""

import pytest

from config.catalogue import CapacityKind
from engines.cost import cost_parts, cost_per_hour
from engines.request import Deployment, FitRequest


def test_a_stack_that_makes_its_cluster_pays_for_every_part() -> None:
    request = FitRequest(
        model="llama-3.1-8b-instruct",
        gpu="l4",
        gpus_per_node=1,
        instance_type="g6.xlarge",
        deployment=Deployment(nodes=1, makes_cluster=True),
    )
    parts = cost_parts(request)
    assert [part.name for part in parts] == [
        "1 x g6.xlarge (on-demand)",
        "control plane",
        "NAT gateway",
        "2 system nodes (m5.large)",
    ]
    assert cost_per_hour(parts) == pytest.approx(0.8048 + 0.10 + 0.05 + 2 * 0.096)
    assert all(part.source for part in parts)


def test_nodes_cost_what_their_kind_of_capacity_costs() -> None:
    def cost(name: str, capacity: CapacityKind, nodes: int = 1) -> float | None:
        request = FitRequest(model="kimi-k2.5", gpu="h200", nodes=nodes, instance_type=name, capacity=capacity)
        return cost_per_hour(cost_parts(request))

    assert cost("p5en.48xlarge", CapacityKind.RESERVATION) == 63.296
    assert cost("p5en.48xlarge", CapacityKind.CAPACITY_BLOCK) == 41.61
    assert cost("p5en.48xlarge", CapacityKind.CAPACITY_BLOCK, nodes=2) == 83.22


def test_a_price_of_an_earlier_year_says_so() -> None:
    """The catalogue has Capacity Block prices of 2026 for p5en, and of 2024 for p5."""
    for gpu, name, dated in (("h200", "p5en.48xlarge", ""), ("h100", "p5.48xlarge", ", price of 2024")):
        request = FitRequest(model="kimi-k2.5", gpu=gpu, instance_type=name, capacity=CapacityKind.CAPACITY_BLOCK)
        (part,) = cost_parts(request)
        assert part.name == f"1 x {name} (capacity-block{dated})"


def test_one_unknown_price_makes_the_cost_unknown_and_is_named() -> None:
    request = FitRequest(
        model="kimi-k2.5", gpu="b200", instance_type="p6-b200.48xlarge", capacity=CapacityKind.CAPACITY_BLOCK
    )
    (part,) = cost_parts(request)
    assert part.usd_per_hour is None
    assert "state nodes.usd_per_gpu_hour" in part.source
    assert cost_per_hour([part]) is None


def test_the_stack_s_own_price_wins() -> None:
    request = FitRequest(model="kimi-k2.5", gpu="h200", instance_type="p5en.48xlarge", usd_per_gpu_hour=2.5)
    (part,) = cost_parts(request)
    assert (part.usd_per_hour, part.source) == (20.0, "nodes.usd_per_gpu_hour")


def test_no_price_no_cost() -> None:
    assert cost_per_hour(cost_parts(FitRequest(model="kimi-k2.5", gpu="h200"))) is None
