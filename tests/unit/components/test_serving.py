"""What the plan settles for the server's pod."""

from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.pods.serving import Serving, verification_seconds
from config.stack.sections import Engine, Nodes, Verification, Weights, WeightsKind
from engines.plan import Host, Layout, PerGpu, Plan
from planner.time_limits import time_limits
from tests.unit.components.samples import LLAMA_CPP, VLLM

EIGHT = Nodes(gpu="h200", gpus_per_node=8)
PLAN = Plan(
    verdict="fits",
    layout=Layout(tp=4, pp=2),
    per_gpu=PerGpu(128.6, 71.2, None, None, None),
    weights_bytes=600 * 10**9,
    download_seconds=400.0,
    load_seconds=500.0,
    engine_args=("--tensor-parallel-size", "4"),
    engine_env=(("A", "1"),),
    host=Host(shared_memory_bytes=16, memory_bytes=100, masked_directory="/compat"),
)


def of(plan: Plan = PLAN, engine: Engine = VLLM, nodes: Nodes = EIGHT, **limits: Any) -> Serving:
    return Serving.of(plan, replace(time_limits(plan), **limits), engine, nodes)


def test_vllm_takes_a_gpu_for_each_rank() -> None:
    assert of().gpus == 8
    assert of(replace(PLAN, layout=Layout(tp=4))).gpus == 4


def test_llama_cpp_takes_all_gpus_it_may() -> None:
    assert of(replace(PLAN, layout=Layout()), engine=LLAMA_CPP).gpus == 8


def test_on_the_processor_no_gpu_is_taken() -> None:
    assert of(replace(PLAN, layout=Layout()), engine=LLAMA_CPP, nodes=Nodes()).gpus == 0


def test_all_that_the_plan_says_of_the_pod_is_passed_on() -> None:
    serving = of()
    assert serving.arguments == ("--tensor-parallel-size", "4")
    assert serving.environment == {"A": "1"}
    assert (serving.shared_memory_bytes, serving.memory_bytes, serving.masked_directory) == (16, 100, "/compat")


def test_each_limit_encloses_the_one_before() -> None:
    serving = of()
    startup = serving.startup_period_seconds * serving.startup_failure_threshold
    assert 3 * 500 <= serving.engine_ready_seconds < startup < serving.await_seconds


TWO = Nodes(gpu="h100", gpus_per_node=8, names=["a", "b"])


def test_a_layout_of_more_gpus_than_a_node_has_is_a_group_of_nodes() -> None:
    serving = of(replace(PLAN, layout=Layout(tp=8, pp=2)), nodes=TWO)
    assert (serving.gpus, serving.nodes, serving.replicas, serving.pods) == (8, 2, 1, 2)


@pytest.mark.parametrize("layout", [Layout(tp=8, dp=2, ep=16), Layout(tp=16), Layout(tp=4, pp=4), Layout(tp=8, pp=2)])
def test_other_layouts_over_the_same_nodes_are_the_same_group(layout: Layout) -> None:
    serving = of(replace(PLAN, layout=layout), nodes=TWO)
    assert (serving.gpus, serving.nodes) == (8, 2)


def test_a_layout_that_leaves_gpus_of_each_node_idle_takes_the_same_number_on_each() -> None:
    serving = of(replace(PLAN, layout=Layout(tp=6, pp=2)), nodes=TWO)
    assert (serving.gpus, serving.nodes) == (6, 2)


def test_a_layout_that_its_nodes_cannot_share_evenly_is_refused() -> None:
    with pytest.raises(pulumi.RunError, match="takes 9 GPUs, which 2 nodes of 8 cannot share evenly"):
        of(replace(PLAN, layout=Layout(tp=3, pp=3)), nodes=TWO)


def test_more_nodes_than_are_named_are_refused_with_both_numbers() -> None:
    engine = VLLM.model_copy(update={"replicas": 2})
    with pytest.raises(pulumi.RunError, match=r"nodes\.names: has 2 nodes: expected at least 4") as caught:
        of(replace(PLAN, layout=Layout(tp=8, pp=2)), engine=engine, nodes=TWO)
    assert "nothing was created" in str(caught.value)


@pytest.mark.parametrize(("verify", "seconds"), [(Verification.QUICK, 0.0), (Verification.FULL, 600.0)])
def test_reading_every_byte_takes_time_and_the_server_is_given_it(verify: Verification, seconds: float) -> None:
    weights = Weights(kind=WeightsKind.CLAIM, verify=verify)
    assert verification_seconds(weights, PLAN) == seconds
    quick, full = (time_limits(PLAN, verification_seconds=time) for time in (0.0, seconds))
    assert full.server_await_seconds == quick.server_await_seconds + 3 * seconds
