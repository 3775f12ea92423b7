"""The plan as the pods of the server see it."""

from components.pods.serving import Serving
from engines.plan import Host, Layout, PerGpu, Plan, Pods
from planner.time_limits import time_limits

PLAN = Plan(
    verdict="fits",
    layout=Layout(tp=4, pp=3),
    pods=Pods(gpus_per_pod=6, pods_per_server=2, nodes_per_server=2),
    per_gpu=PerGpu(128.6, 71.2, None, None, None),
    weights_bytes=600 * 10**9,
    download_seconds=400.0,
    load_seconds=500.0,
    engine_args=("--tensor-parallel-size", "4"),
    engine_env=(("A", "1"),),
    host=Host(shared_memory_bytes=16, memory_bytes=100, masked_directory="/compat"),
)


def of(replicas: int = 1) -> Serving:
    return Serving.of(PLAN, time_limits(PLAN), replicas)


def test_all_that_the_plan_says_of_the_pods_is_passed_on() -> None:
    serving = of(replicas=3)
    assert (serving.gpus, serving.nodes, serving.replicas, serving.pods) == (6, 2, 3, 6)
    assert serving.arguments == ("--tensor-parallel-size", "4")
    assert serving.environment == {"A": "1"}
    assert (serving.shared_memory_bytes, serving.memory_bytes, serving.masked_directory) == (16, 100, "/compat")


def test_each_limit_encloses_the_one_before() -> None:
    serving = of()
    startup = serving.startup_period_seconds * serving.startup_failure_threshold
    assert 3 * 500 <= serving.engine_ready_seconds < startup < serving.await_seconds
