"""Every stack and example on simulated nodes of its shape, and the planner's verdict in the preview.

`test_h200.py` covers the stack `h200`, `test_gate.py` covers `dev`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from config.catalogue import find_gpu
from config.engine_name import EngineName
from config.stack.file import read_stack_file, stack_file
from lab.project import Project
from lab.site import CHECKOUT
from tests.lab.conftest import AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import on_nodes_of

SERVER = "app.kubernetes.io/component=server"
PROFILES = {
    "h200-gguf": "8xh200",
    "h200-sglang": "8xh200",
    "b200": "4xb200",
    "mi300x": "8xmi300x",
    "llama-3-1-8b": "8xa100-40gb",
    "qwen3-5-35b": "8xa100-40gb",
    "qwen3-235b": "8xa100",
    "minimax-m2-5": "8xa100",
    "qwen3-5-397b": "8xa100",
    "glm-5": "8xh100",
    "qwen3-32b": "8xh200",
}

Make = Callable[[str], Project]


@pytest.fixture
def namespace(worker_id: str) -> str:
    """The namespace of these tests. Each process runs one test at a time."""
    return f"stacks-test-{worker_id}"


@pytest.fixture
def make(public_environment: dict[str, str], tmp_path: Path, kubectl: Kubectl, namespace: str) -> Iterator[Make]:
    """Creates a stack as committed, with its own images, in a namespace of these tests."""
    made: list[Project] = []

    def copied(name: str) -> Project:
        project = Project.copy(CHECKOUT, tmp_path / "program", public_environment, name)
        example = project.directory / "examples" / f"Pulumi.{name}.yaml"
        if example.exists():
            file = stack_file(name, project.directory)
            # The encryption salt of a new stack.
            file.write_text((file.read_text() if file.exists() else "") + example.read_text())
        project.configure(cluster={"namespace": namespace})
        made.append(project)
        return project

    yield copied
    for project in made:
        destroyed = project.destroy()
        assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", namespace, "--ignore-not-found")


def server_pod(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    """Returns the engine's pod."""
    found: list[dict[str, Any]] = kubectl.get("pods", "-n", namespace, "-l", SERVER)["items"]
    [pod] = found
    return pod


@pytest.mark.parametrize("name", [pytest.param(name, marks=on_nodes_of(PROFILES[name])) for name in PROFILES])
def test_a_stack_goes_up_on_a_node_of_its_shape(
    nodes: AddNodes, make: Make, kubectl: Kubectl, namespace: str, name: str
) -> None:
    nodes(PROFILES[name])
    project = make(name)
    stack = read_stack_file(stack_file(name, project.directory))
    up = project.up()
    assert up.status == 0, up

    pod = server_pod(kubectl, namespace)
    [engine] = pod["spec"]["containers"]
    assert [pod["spec"]["nodeName"]] == stack.nodes.names
    assert {"type": "Ready", "status": "True"}.items() <= ready_condition(pod).items()
    assert engine["image"] == stack.engine.image
    resource = find_gpu(stack.nodes.gpu or "").vendor.resource
    assert engine["resources"]["limits"][resource] == str(stack.nodes.gpus_per_node)
    arguments = " ".join(engine["args"])
    if stack.nodes.driver == "570":
        assert {"name": "VLLM_ENABLE_CUDA_COMPATIBILITY", "value": "1"} in engine["env"]
    if stack.engine.name is EngineName.VLLM:
        assert f"--tensor-parallel-size {stack.engine.tensor_parallel} " in arguments
        assert f"--max-model-len {stack.engine.max_model_len} " in arguments
    elif stack.engine.name is EngineName.SGLANG:
        assert f"--tp-size {stack.engine.tensor_parallel} " in arguments
        assert f"--context-length {stack.engine.max_model_len} --mem-fraction-static 0.806 " in arguments
    else:
        assert "--ctx-size 98304 --parallel 8 --gpu-layers 999" in arguments
        assert "cpu" not in arguments.lower()
    plan = project.outputs()["plan"]
    assert plan["verdict"] == "fits"
    assert gibibytes_of_volume(kubectl, namespace) * 2**30 >= plan["disk_bytes"] > 2 * plan["weights_bytes"]


def ready_condition(pod: dict[str, Any]) -> dict[str, Any]:
    """Returns the pod's condition Ready."""
    [condition] = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    found: dict[str, Any] = condition
    return found


def gibibytes_of_volume(kubectl: Kubectl, namespace: str) -> int:
    """Returns the size of the only weights volume, in GiB."""
    [claim] = kubectl.get("pvc", "-n", namespace)["items"]
    return int(claim["status"]["capacity"]["storage"].removesuffix("Gi"))


@on_nodes_of("8xh200")
def test_kimi_on_four_h200_stops_preview_and_up_with_the_reasons_and_nothing_is_made(
    nodes: AddNodes, make: Make, kubectl: Kubectl, namespace: str
) -> None:
    nodes("4xh200")
    project = make("h200")
    project.configure(nodes={"names": ["h200-4gpu-0"], "gpus_per_node": 4}, engine={"tensor_parallel": 4})
    for answer in (project.preview(), project.up()):
        assert answer.status != 0
        for words in (
            "rejected: moonshotai/Kimi-K2.5 on 4 H200, vLLM 0.33.0, TP4; nothing was created:",
            "weights_do_not_fit: 140.8 GiB of weights per GPU, and H200 has 139.8 GiB in all",
            "8 H200",
        ):
            assert words in answer.output
        assert "Traceback" not in answer.output
    project.configure(engine={"quantization": "fp8", "max_model_len": 1_000_000})
    all_at_once = project.preview()
    for code in ("weights_do_not_fit:", "quantization_contradicts_checkpoint:", "context_beyond_model:"):
        assert code in all_at_once.output
    assert kubectl("get", "namespace", namespace, "--ignore-not-found") == ""
    assert kubectl("get", "pv", "-l", "app.kubernetes.io/instance=h200", "-o", "name") == ""


@on_nodes_of("8xh200")
def test_a_preview_prints_the_summary_and_warnings_as_warnings(nodes: AddNodes, make: Make) -> None:
    nodes("8xh200")
    project = make("h200")
    project.configure(nodes={"driver": None})
    answer = project.preview()
    assert answer.status == 0, answer
    for words in (
        "fits: moonshotai/Kimi-K2.5 on 8 H200, vLLM 0.33.0, TP8",
        "budget 128.62 GiB: weights 71.86",
        "1,459,840 to 1,578,496 tokens, 35,136 B per token on each GPU",
        "weights 595.2 GB",
        "warning: driver_not_known: ",
        "warning: the release is not proven for h200, heavylift:promotion.allow_unproven lets it through:",
        "warning: whether the cluster enforces NetworkPolicies is not known: ",
        "warning: images without a digest may be other images tomorrow: engine.image vllm/vllm-openai:v0.33.0, ",
        "4 warnings",
    ):
        assert words in answer.output


@on_nodes_of("8xh200")
def test_one_server_becomes_two_when_it_is_ended_as_the_message_says(
    nodes: AddNodes, make: Make, kubectl: Kubectl, namespace: str
) -> None:
    """A Deployment and a LeaderWorkerSet are different objects, so the new server waits for the GPUs of the old one."""
    nodes("2x8h200")
    project = make("h200")
    project.configure(weights={"kind": "host-path"})
    assert project.up().status == 0
    project.configure(nodes={"names": ["h200-0", "h200-1"]}, engine={"replicas": 2})
    refused = project.up()
    assert refused.status != 0
    assert "Insufficient nvidia.com/gpu" in refused.output
    which = "app.kubernetes.io/instance=h200,app.kubernetes.io/component=server"
    assert f"`kubectl delete deployment -n {namespace} -l {which}`" in refused.output, refused

    kubectl("delete", "deployment", "-n", namespace, "-l", which)
    up = project.up()
    assert up.status == 0, up
    pods = kubectl.get("pods", "-n", namespace, "-l", SERVER)["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"h200-0", "h200-1"}
    again = project.up("--expect-no-changes")
    assert again.status == 0, again


@on_nodes_of("8xh200")
def test_the_articles_expert_offload_is_said_to_be_needless(nodes: AddNodes, make: Make) -> None:
    nodes("8xh200")
    project = make("h200-gguf")
    project.configure(engine={"expert_offload": True})
    answer = project.preview()
    assert answer.status == 0, answer
    assert (
        "warning: expert_offload_not_needed: The experts go to host memory although they fit on the GPUs"
        in answer.output
    )


@on_nodes_of("8xh200")
def test_a_changed_setting_shows_in_the_plan_of_a_preview(nodes: AddNodes, make: Make) -> None:
    nodes("8xh200")
    project = make("h200")
    up = project.up()
    assert up.status == 0, up
    project.configure(engine={"kv_cache_dtype": "bfloat16"}, nodes={"usd_per_gpu_hour": 2.5})
    preview = project.preview("--diff")
    assert preview.status == 0, preview
    lines = [line.strip() for line in preview.output.splitlines()]
    assert "+ cost_per_hour_usd: 20" in lines
    assert "~ [0]: 1459840 => 729920" in lines
    assert "~ kv_bytes_per_token: 35136 => 70272" in lines
