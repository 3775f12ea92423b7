"""A plan as the arguments of the server: everything that it says of the pods is passed on."""

from components.planned.server import server_engine, server_pods, start_limits
from config.engine_name import EngineName
from config.stack.sections import Engine
from engines.plan import Host, Layout, PerGpu, Plan, Pods
from planner.time_limits import time_limits

GIB = 2**30
PLAN = Plan(
    verdict="fits",
    layout=Layout(tp=4, pp=3),
    pods=Pods(gpus_per_pod=6, pods_per_server=2, nodes_per_server=2),
    per_gpu=PerGpu(128.6, 71.2, None, None, None),
    weights_bytes=600 * 10**9,
    download_seconds=400.0,
    load_seconds=500.0,
    engine_args=("--tensor-parallel-size", "4"),
    engine_env=(("A", "1"), ("B", "1")),
    model_file="model.gguf",
    host=Host(shared_memory_bytes=16 * GIB, memory_bytes=100 * GIB, masked_directory="/compat"),
)
ENGINE = Engine(name=EngineName.VLLM, version="0.33.0", image="vllm/vllm-openai:v0.33.0", replicas=3)


def test_the_engine_is_started_with_what_the_plan_says() -> None:
    assert server_engine(PLAN, ENGINE) == {
        "name": EngineName.VLLM,
        "image": "vllm/vllm-openai:v0.33.0",
        "arguments": ["--tensor-parallel-size", "4"],
        "environment": {"A": "1", "B": "1"},
        "served_name": None,
        "host": "0.0.0.0",
        "model_file": "model.gguf",
    }


def test_the_stacks_environment_wins_over_the_plans() -> None:
    engine = ENGINE.model_copy(update={"environment": {"B": "2", "C": "2"}})
    assert server_engine(PLAN, engine)["environment"] == {"A": "1", "B": "2", "C": "2"}


def test_the_pods_are_the_plans() -> None:
    pods = server_pods(PLAN, ENGINE)
    assert (pods["replicas"], pods["nodes_per_server"], pods["gpus_per_pod"]) == (3, 2, 6)
    assert (pods["shared_memory_bytes"], pods["masked_directory"]) == (16 * GIB, "/compat")
    assert (pods["cpus"], pods["memory_request"], pods["memory_limit"]) == (None, "100Gi", "100Gi")


def test_shared_memory_is_counted_in_the_limit_of_the_memory_that_the_stack_names() -> None:
    pods = server_pods(PLAN, ENGINE.model_copy(update={"memory": "256Gi", "cpus": 48}))
    assert (pods["cpus"], pods["memory_request"], pods["memory_limit"]) == (48, "256Gi", "272Gi")


def test_each_limit_encloses_the_one_before() -> None:
    limits = start_limits(time_limits(PLAN), ENGINE)
    startup = limits["startup_period_seconds"] * limits["startup_failure_threshold"]
    assert 3 * 500 <= limits["engine_ready_seconds"] < startup < limits["await_seconds"]
