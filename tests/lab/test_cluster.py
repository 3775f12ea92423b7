"""The lab's cluster: groups of pods, DNS, Services, containers, and simulated nodes that tests can break."""

import json
import time
import urllib.request
from typing import Any

import pytest

from lab.build.images import ENGINE_IMAGE, MODEL_FILE, PYTHON_IMAGE
from lab.cluster.simulated import SimulatedNodes
from lab.lifecycle import Lab
from lab.site import Site
from tests.lab.conftest import AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import REAL_NODES_WITH_GPUS, on_nodes_of

LISTENER = """
import os, socket
listener = socket.create_server(("0.0.0.0", 5000))
connection, _ = listener.accept()
print("leader heard", connection.recv(100).decode(), flush=True)
"""
CALLER = """
import os, socket, time
address = (os.environ["LWS_LEADER_ADDRESS"], 5000)
for attempt in range(60):
    try:
        connection = socket.create_connection(address, 2)
        break
    except OSError:
        time.sleep(1)
connection.sendall(b"worker " + os.environ["LWS_WORKER_INDEX"].encode())
print("worker spoke", flush=True)
"""
RENDEZVOUS = f"""
import os, time
exec({LISTENER!r} if os.environ["LWS_WORKER_INDEX"] == "0" else {CALLER!r})
time.sleep(3600)
"""


def group(name: str, selector: dict[str, str], container: dict[str, Any]) -> dict[str, Any]:
    """A LeaderWorkerSet of two pods on two different nodes."""
    apart = {"labelSelector": {"matchLabels": {"group": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "leaderWorkerTemplate": {
                "size": 2,
                "workerTemplate": {
                    "metadata": {"labels": {"group": name}},
                    "spec": {
                        "nodeSelector": selector,
                        "terminationGracePeriodSeconds": 1,
                        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
                        "containers": [{"name": "main", "image": PYTHON_IMAGE, **container}],
                    },
                },
            },
        },
    }


@on_nodes_of("2x8h100")
def test_a_group_of_two_lands_on_two_simulated_nodes_with_its_rank_environment(
    nodes: AddNodes, kubectl: Kubectl, namespace: str
) -> None:
    nodes("2x8h100")
    gpus = {"resources": {"limits": {"nvidia.com/gpu": "8", "rdma/ib": "1"}}}
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    kubectl.apply(group("pair", selector, gpus), namespace=namespace)
    kubectl.wait("-n", namespace, "--for=jsonpath={.status.readyReplicas}=1", "leaderworkerset/pair")
    pods = kubectl.get("pods", "-n", namespace)["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"h100-0", "h100-1"}
    for pod in pods:
        environment = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert environment["LWS_LEADER_ADDRESS"] == f"pair-0.pair.{namespace}"
        assert environment["LWS_GROUP_SIZE"] == "2"
        assert "LWS_WORKER_INDEX" in environment


@REAL_NODES_WITH_GPUS
def test_a_group_of_two_on_real_nodes_finds_its_leader_by_name_and_talks_to_it(
    lab: Lab, kubectl: Kubectl, namespace: str
) -> None:
    while lab.real_nodes < 2:
        lab.add_real_node()
    meeting = {"command": ["python3", "-c", RENDEZVOUS]}
    for node in ("real-0", "real-1"):
        kubectl("label", "node", node, "--overwrite", "heavylift.lab/meeting=true")
    kubectl.apply(group("pair", {"heavylift.lab/meeting": "true"}, meeting), namespace=namespace)
    kubectl.logs_until("leader heard worker 1", "-n", namespace, "pair-0", seconds=120)
    kubectl.logs_until("worker spoke", "-n", namespace, "pair-0-1")
    pods = kubectl.get("pods", "-n", namespace)["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} == {"real-0", "real-1"}


def serving(pod: dict[str, Any], port: int) -> list[dict[str, Any]]:
    """A pod on a real node and a Service in front of it."""
    metadata = {"name": "server", "labels": {"app": "server"}}
    service = {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": port}]}
    pod = {**pod, "nodeSelector": {"kubernetes.io/hostname": "real-0"}}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod},
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service},
    ]


def address_of(kubectl: Kubectl, namespace: str) -> str:
    """Returns the Service's cluster IP address."""
    service = kubectl.get("service", "server", "-n", namespace)
    return f"http://{service['spec']['clusterIP']}"


def ask(url: str, content: dict[str, Any] | None = None, seconds: float = 60) -> str:
    """Waits until a server responds, and returns its response."""
    body = None if content is None else json.dumps(content).encode()
    deadline = time.monotonic() + seconds
    while True:
        try:
            request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def test_a_service_answers_from_the_host(kubectl: Kubectl, namespace: str) -> None:
    container = {
        "name": "web",
        "image": PYTHON_IMAGE,
        "command": ["python3", "-m", "http.server", "8000", "-d", "/etc"],
    }
    kubectl.apply(*serving({"containers": [container], "terminationGracePeriodSeconds": 0}, 8000), namespace=namespace)
    assert "root:" in ask(address_of(kubectl, namespace) + "/passwd")


def test_the_engine_image_answers_a_chat_completion_with_llama_cpps_own_server(
    kubectl: Kubectl, namespace: str, site: Site
) -> None:
    weights = site.directory / "nodes/real-0/mnt" / MODEL_FILE
    weights.write_bytes((site.directory / MODEL_FILE).read_bytes())
    server = {
        "name": "server",
        "image": ENGINE_IMAGE,
        "args": ["--model", f"/weights/{MODEL_FILE}", "--host", "0.0.0.0", "--port", "8080", "--ctx-size", "1024"],
        "volumeMounts": [{"name": "weights", "mountPath": "/weights", "readOnly": True}],
    }
    pod = {
        "containers": [server],
        "volumes": [{"name": "weights", "hostPath": {"path": "/mnt", "type": "Directory"}}],
        "terminationGracePeriodSeconds": 0,
    }
    kubectl.apply(*serving(pod, 8080), namespace=namespace)
    question = {"messages": [{"role": "user", "content": "The capital of France is"}], "max_tokens": 8}
    answer = json.loads(ask(address_of(kubectl, namespace) + "/v1/chat/completions", question))
    assert answer["choices"][0]["message"]["content"].strip()
    assert answer["usage"]["completion_tokens"] in range(1, 9)


def test_the_engine_image_refuses_a_flag_that_llama_server_does_not_have(kubectl: Kubectl, namespace: str) -> None:
    container = {"name": "server", "image": ENGINE_IMAGE, "args": ["--model", "/x.gguf", "--tensor-parallel-size", "8"]}
    pod = {"containers": [container], "restartPolicy": "Never"}
    kubectl.apply(*serving(pod, 8080), namespace=namespace)
    log = kubectl.logs_until("unrecognized arguments", "-n", namespace, "server")
    assert "--tensor-parallel-size 8" in log


@REAL_NODES_WITH_GPUS
def test_a_real_node_can_be_given_gpus(lab: Lab, kubectl: Kubectl, namespace: str, site: Site) -> None:
    simulated = SimulatedNodes(site)
    simulated.set_resource("real-0", "nvidia.com/gpu", 8)
    try:
        node = after_next_status_update(kubectl, "real-0")
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        container = {
            "name": "x",
            "image": PYTHON_IMAGE,
            "command": ["true"],
            "resources": {"limits": {"nvidia.com/gpu": 8}},
        }
        kubectl.apply(*serving({"containers": [container], "restartPolicy": "Never"}, 1), namespace=namespace)
        kubectl.wait("-n", namespace, "--for=jsonpath={.status.phase}=Succeeded", "pod/server")
    finally:
        simulated.set_resource("real-0", "nvidia.com/gpu", None)


def after_next_status_update(kubectl: Kubectl, name: str, seconds: float = 60) -> dict[str, Any]:
    """Returns a real node after the kubelet's next status update, which must keep unknown resources."""

    def heartbeat(node: dict[str, Any]) -> str:
        [ready] = [each for each in node["status"]["conditions"] if each["type"] == "Ready"]
        return str(ready["lastHeartbeatTime"])

    node = kubectl.get("node", name)
    before, deadline = heartbeat(node), time.monotonic() + seconds
    while heartbeat(node) == before:
        assert time.monotonic() < deadline, f"the kubelet of {name} reported nothing within {seconds} s"
        time.sleep(0.5)
        node = kubectl.get("node", name)
    return node


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(profile, marks=on_nodes_of(profile))
        for profile in ("8xh200", "2x8h100", "4xb200", "2x8h200", "aws-p5en", "8xa100", "4xh200", "3x8h100")
    ],
)
def test_every_profile_makes_ready_nodes_with_the_resources_and_labels_it_states(
    nodes: AddNodes, kubectl: Kubectl, profile: str
) -> None:
    from lab.cluster.simulated import profile as shape_of

    shape = shape_of(profile)
    nodes(profile)
    for name in shape["nodes"]:
        node = kubectl.get("node", name)
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == str(shape["gpu"]["count"])
        if "fabric" in shape:
            assert node["status"]["allocatable"][shape["fabric"]["resource"]] == str(shape["fabric"]["count"])
        assert node["metadata"]["labels"]["nvidia.com/gpu.product"] == shape["gpu"]["product"]


@on_nodes_of("8xh200")
def test_a_simulated_node_can_lose_gpus_and_rdma_fall_silent_be_drained_and_be_made_anew(
    nodes: AddNodes, kubectl: Kubectl
) -> None:
    simulated = nodes("8xh200")
    simulated.set_resource("h200-0", "nvidia.com/gpu", 4)
    simulated.set_resource("h200-0", "rdma/ib", None)
    allocatable = kubectl.get("node", "h200-0")["status"]["allocatable"]
    assert allocatable["nvidia.com/gpu"] == "4"
    assert "rdma/ib" not in allocatable
    simulated.set_unready("h200-0")
    kubectl.wait("--for=condition=Ready=False", "node/h200-0")
    simulated.add("8xh200")
    kubectl.wait("--for=condition=Ready", "node/h200-0")
    assert kubectl.get("node", "h200-0")["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    simulated.drain("h200-0")
    assert kubectl.get("node", "h200-0")["spec"]["unschedulable"] is True
