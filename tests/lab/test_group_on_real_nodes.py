"""A running group of two pods: the stager stages on two real nodes, a test double of the engine connects over TCP."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.cluster.simulated import SimulatedNodes
from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, Site
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, WEIGHTS
from tests.lab.sharing import REAL_NODES_WITH_GPUS

pytestmark = REAL_NODES_WITH_GPUS

NAMESPACE = "group-test"
ROOT = f"{WEIGHTS}/{NAMESPACE}"
REAL = ("real-0", "real-1")
FILES = ["README.md", "config.json"]


@pytest.fixture(scope="module")
def two_real_nodes(lab: Lab, site: Site) -> Iterator[None]:
    """Two nodes that run containers and report GPUs and a fabric that they do not have."""
    while lab.real_nodes < len(REAL):
        lab.add_real_node()
    nodes = SimulatedNodes(site)
    resources = {"nvidia.com/gpu": 8, "rdma/ib": 8}
    for node in REAL:
        for resource, count in resources.items():
            nodes.set_resource(node, resource, count)
    yield
    for node in REAL:
        for resource in resources:
            nodes.set_resource(node, resource, None)


@pytest.fixture
def stack(
    two_real_nodes: None,
    lab: Lab,
    hub: HubClient,
    kubectl: Kubectl,
    environment: dict[str, str],
    tmp_path: Path,
) -> Iterator[Project]:
    """The stack `h100x16` on the two real nodes, with a small model and no fabric, where pods must be `restricted`."""
    hub.clear_requests()
    kubectl("create", "namespace", NAMESPACE)
    kubectl("label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=restricted")
    for node in REAL:
        lab.on_node(node, "mkdir", "-p", ROOT)
    project = Project.copy(CHECKOUT, tmp_path / "program", {**environment, "HF_ENDPOINT": hub.url}, "h100x16")
    project.configure(
        cluster={"namespace": NAMESPACE},
        nodes={"names": list(REAL), "driver": None, "fabric": None},
        model={"repository": "acme/model", "revision": FIRST, "include": FILES},
        weights={"path": ROOT, "size": "1Gi"},
        engine={"cpus": None, "memory": "256Mi", "max_model_len": 4096, "mm_encoder_tp_mode": None, "drain": 0},
    )
    yield project
    destroyed = project.destroy()
    assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    for node in REAL:
        lab.on_node(node, "rm", "-rf", ROOT)


def pods(kubectl: Kubectl) -> list[dict[str, Any]]:
    """The server's pods, leader first."""
    found = kubectl.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=server")["items"]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def engines(kubectl: Kubectl) -> list[dict[str, Any]]:
    """Returns the statuses of the engines' containers.

    A pod of a group that was just made anew has none until its kubelet has seen it.
    """
    return [each for pod in pods(kubectl) for each in pod["status"].get("containerStatuses", [])]


def ask(kubectl: Kubectl, path: str) -> Any:
    """Returns the Service's response, through the API server."""
    return json.loads(kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/services/h100x16:8000/proxy{path}"))


def complete(kubectl: Kubectl, tokens: int) -> int:
    """Returns the number of tokens in the answer to a request of so many."""
    body = json.dumps({"model": "acme/model", "prompt": "1", "max_tokens": tokens})
    path = f"/api/v1/namespaces/{NAMESPACE}/services/h100x16:8000/proxy/v1/completions"
    return len(json.loads(kubectl("create", "--raw", path, "-f", "-", text=body))["choices"])


def ready(kubectl: Kubectl) -> bool:
    """Whether the group is ready."""
    [group] = kubectl.get("leaderworkersets", "-n", NAMESPACE)["items"]
    return bool(group.get("status", {}).get("readyReplicas") == 1)


def last_words(kubectl: Kubectl, container: str) -> set[str]:
    """Returns the last termination messages of an init container, in all pods."""
    said = set()
    for pod in pods(kubectl):
        for status in pod["status"].get("initContainerStatuses", []):
            for state in (status["state"], status.get("lastState", {})):
                ended = state.get("terminated", {})
                if status["name"] == container and ended.get("exitCode"):
                    said.add(str(ended.get("message", "")))
    return said


def wait_for_words(kubectl: Kubectl, container: str, wanted: str, seconds: float = 90) -> set[str]:
    """Waits until the termination message of an init container contains `wanted`, and returns it."""
    deadline = time.monotonic() + seconds
    said = last_words(kubectl, container)
    while not any(wanted in words for words in said):
        assert time.monotonic() < deadline, f"{container} did not say {wanted!r} within {seconds} s but {said}"
        time.sleep(0.5)
        said = last_words(kubectl, container)
    return said


def digest_on(lab: Lab, node: str) -> str:
    """Returns the only staged directory on a node."""
    [digest] = lab.on_node(node, "ls", ROOT).split()
    return f"{ROOT}/{digest}"


def test_two_pods_find_each_other_by_rank_and_address_and_serve_what_was_staged(
    stack: Project, kubectl: Kubectl, lab: Lab, hub: HubClient
) -> None:
    stack.configure(engine={"drain": 60, "environment": {"LAB_TOKEN_SECONDS": "0.5"}})
    up = stack.up()
    assert up.status == 0, up
    leader, worker = ask(kubectl, "/ranks")
    assert (leader["rank"], worker["rank"]) == (0, 1)
    assert (leader["files"], worker["files"]) == (FILES, FILES)
    assert leader["host"] != worker["host"]
    name = leader["host"].removesuffix("-0")
    assert {leader["address"], worker["address"]} == {f"{name}-0.{name}.{NAMESPACE}"}
    assert {pod["spec"]["nodeName"] for pod in pods(kubectl)} == set(REAL)
    assert "2 of 2 pods ready; first answer after" in up.output
    assert ask(kubectl, "/v1/models")["data"][0]["id"] == "acme/model"

    again = stack.up("--expect-no-changes")
    assert again.status == 0, again

    before = {pod["metadata"]["uid"] for pod in pods(kubectl)}
    with ThreadPoolExecutor() as client:
        longer_than_deregistration = client.submit(complete, kubectl, tokens=40)
        while not ask(kubectl, "/running"):
            assert not longer_than_deregistration.done()
        kubectl("delete", "pod", "-n", NAMESPACE, pods(kubectl)[1]["metadata"]["name"], "--wait=false")
        assert longer_than_deregistration.result() == 40
    deadline = time.monotonic() + 120
    while before & {pod["metadata"]["uid"] for pod in pods(kubectl)} or not ready(kubectl):
        assert time.monotonic() < deadline, "the group was not made anew"
        time.sleep(0.5)
    assert [each["rank"] for each in ask(kubectl, "/ranks")] == [0, 1]

    destroyed = stack.destroy()
    assert destroyed.status == 0, destroyed
    for node in REAL:
        assert sorted(lab.on_node(node, "ls", digest_on(lab, node)).split()) == FILES, "destroy keeps the weights"


def test_two_pods_of_sglang_find_each_other_and_answer_with_a_key(stack: Project, kubectl: Kubectl) -> None:
    stack.configure(engine={"name": "sglang", "version": "0.5.23"})
    key = "sample-key-of-32-characters-0001"
    stored = stack.pulumi("config", "set", "--secret", "heavylift:api_key", key, "--stack", "h100x16")
    assert stored.status == 0, stored
    up = stack.up()
    assert up.status == 0, up
    assert "2 of 2 pods ready; first answer after" in up.output
    for rank, pod in enumerate(pods(kubectl)):
        [engine] = pod["spec"]["containers"]
        assert engine["args"][-6:-2] == ["--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)"]
        said = kubectl("logs", "-n", NAMESPACE, pod["metadata"]["name"], "-c", "engine")
        assert ("met rank 0" if rank else "every rank is here") in said
    service = f"/api/v1/namespaces/{NAMESPACE}/services/h100x16:30000/proxy"
    assert kubectl("get", "--raw", f"{service}/health_generate") == "{}"


def test_a_pod_on_a_node_whose_weights_are_gone_refuses_to_start_and_says_so(
    stack: Project, kubectl: Kubectl, lab: Lab
) -> None:
    up = stack.up()
    assert up.status == 0, up
    manifest = f"{digest_on(lab, 'real-1')}/.heavylift/manifest.json"
    lab.on_node("real-1", "mv", manifest, f"{manifest}.away")
    kubectl("delete", "pod", "-n", NAMESPACE, pods(kubectl)[1]["metadata"]["name"], "--wait=false")
    wait_for_words(kubectl, "verify", "no manifest")
    assert not ready(kubectl)
    lab.on_node("real-1", "mv", f"{manifest}.away", manifest)


def test_an_image_that_cannot_be_had_ends_up_after_a_minute_with_the_nodes_words(stack: Project) -> None:
    refused = stack.up(HEAVYLIFT_ENGINE_IMAGE="heavylift.lab/nowhere:1")
    assert refused.status != 0
    assert "the server cannot start" in refused.output
    assert "heavylift.lab/nowhere:1" in refused.output.split("the server cannot start")[-1], refused
    assert "Traceback" not in refused.output


def test_a_group_that_is_made_anew_again_and_again_is_given_up_with_the_words_of_the_rank_that_fails(
    stack: Project, kubectl: Kubectl
) -> None:
    """Each restart creates new pods, so that no single pod fails three times."""
    stack.configure(engine={"environment": {"PYTHONHASHSEED": "never"}})
    refused = stack.up()
    assert refused.status != 0
    assert "the engine failed on real-" in refused.output, refused
    assert "PYTHONHASHSEED must be" in refused.output
    assert "heavylift:engine" in refused.output
    assert all(each["restartCount"] < 3 for each in engines(kubectl))


@pytest.mark.parametrize(
    ("fault", "words"), [("500", "HTTP 500: "), ("end", "it ended while it was asked")], ids=["answers 500", "ends"]
)
def test_a_server_that_is_healthy_and_fails_at_its_first_answer_ends_up(stack: Project, fault: str, words: str) -> None:
    """vLLM did this with a quantisation that does not divide by the ranks (vllm-project/vllm, issue 17604)."""
    stack.configure(engine={"environment": {"LAB_FIRST_ANSWER": fault}})
    refused = stack.up()
    assert refused.status != 0
    assert "the server is ready, and fails at its first answer" in refused.output, refused
    assert words in refused.output
    assert "endpoint" not in stack.outputs()

    stack.configure(engine={"environment": {}})
    mended = stack.up()
    assert mended.status == 0, mended


def test_a_stack_that_asks_for_infiniband_is_refused_in_seconds_and_goes_on_when_mended(
    stack: Project, kubectl: Kubectl
) -> None:
    """The nodes report `rdma/ib` without a card or device plugin. Only a pod can detect this."""
    stack.configure(nodes={"fabric": {"kind": "infiniband", "resource": "rdma/ib", "count": 8}})
    began = time.monotonic()
    refused = stack.up()
    assert refused.status != 0, refused
    assert time.monotonic() - began < 150, "the plan would have given the server 45 minutes"
    for words in (
        "the server cannot start",
        "the fabric check failed on real-",
        "the node has no InfiniBand device",
        "heavylift:nodes.names",
    ):
        assert words in refused.output, refused
    assert "Traceback" not in refused.output
    assert all("waiting" in each["state"] for each in engines(kubectl)), "no engine has started"
    assert "endpoint" not in stack.outputs()
    assert "LeaderWorkerSet" in stack.exported(), "what was made is in the state"

    stack.configure(nodes={"fabric": None})
    mended = stack.up()
    assert mended.status == 0, mended
    assert [each["rank"] for each in ask(kubectl, "/ranks")] == [0, 1]
