"""A group on two real nodes in a lab of its own, where kube-network-policies enforces: who reaches what, and how the
nodes share one download."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from lab import engine
from lab.cluster.simulated import SimulatedNodes
from lab.hub.client import HubClient, running_hub
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, LABS
from tests.lab.kubectl import Kubectl
from tests.lab.reaching import LISTENER, Reaching, client
from tests.lab.serving import FIRST, WEIGHTS
from tests.lab.sharing import LABS_OF_THEIR_OWN, with_own_state

pytestmark = LABS_OF_THEIR_OWN

NAMESPACE = "closed"
OUTSIDE = "outside"
ROOT = f"{WEIGHTS}/{NAMESPACE}"
REAL = ("real-0", "real-1")
API, RANKS = 8000, 29501
SHARDS, SHARD_BYTES = 8, 16 * 1024**2
LOCK = "model.lock.json"


@pytest.fixture(scope="module")
def enforcing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with two real nodes that report GPUs, and enforce NetworkPolicies."""
    lab = Lab(LABS / f"{CHECKOUT.name}-network-policies")
    site = lab.start()
    try:
        lab.add_real_node()
        lab.enforce_network_policies()
        for node in REAL:
            SimulatedNodes(site).set_resource(node, "nvidia.com/gpu", 8)
            lab.on_node(node, "mkdir", "-p", ROOT)
        yield lab
    finally:
        lab.stop()


def repositories() -> dict[str, Any]:
    """Returns the hub's table: a model of 128 MiB in 8 shards."""
    names = [f"model-{number:05d}-of-{SHARDS:05d}.safetensors" for number in range(1, SHARDS + 1)]
    shards = {name: {"generate": {"seed": place, "size": SHARD_BYTES}} for place, name in enumerate(names)}
    files = {"README.md": {"text": "shared\n"}, "config.json": {"text": "{}\n"}, **shards}
    return {"repositories": {"acme/model": {"revisions": [{"commit": FIRST, "branches": ["main"], "files": files}]}}}


@pytest.fixture(scope="module")
def hub(enforcing: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubClient]:
    state = tmp_path_factory.mktemp("hub")
    with running_hub(repositories(), state_dir=state, host=enforcing.site.host_address) as hub:
        yield hub


@pytest.fixture(scope="module")
def stack(enforcing: Lab, hub: HubClient, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The stack `h100x16` on the two nodes, taken up, with a small model, its lock and no fabric.

    The lab goes with everything in it.
    """
    place = tmp_path_factory.mktemp("stack")
    settings = {**with_own_state(engine.settings(enforcing.site), place), "HF_ENDPOINT": hub.url}
    project = Project.copy(CHECKOUT, place / "program", settings, "h100x16")
    project.configure(
        cluster={"namespace": NAMESPACE},
        nodes={"names": list(REAL), "driver": None, "fabric": None},
        model={"repository": "acme/model", "revision": FIRST},
        weights={"path": ROOT, "size": "1Gi", "keep_newest": 1},
        stage={"lock": LOCK, "fan_out": True},
        engine={"cpus": None, "memory": "256Mi", "max_model_len": 4096, "mm_encoder_tp_mode": None, "drain": 0},
    )
    what = ["lock", "acme/model", "--revision", FIRST, "--output", str(project.directory / LOCK)]
    subprocess.run([sys.executable, "-m", "stager", *what], env={**os.environ, **settings}, cwd=CHECKOUT, check=True)
    hub.clear_requests()
    up = project.up()
    assert up.status == 0, up
    assert "first answer after" in up.output, "through the API server's proxy"
    return project


def test_the_nodes_share_one_download(enforcing: Lab, hub: HubClient, stack: Project) -> None:
    total = json.loads((stack.directory / LOCK).read_text())["total_bytes"]
    assert total > SHARDS * SHARD_BYTES
    assert total <= hub.bytes_sent() <= 1.05 * total
    sources = []
    for node in REAL:
        manifest = json.loads(enforcing.on_node(node, "sh", "-c", f"cat {ROOT}/*/.heavylift/manifest.json"))
        assert manifest["total_bytes"] == total
        sources.append(manifest["source"])
    assert any("real-" in source for source in sources), f"no node read from the other: {sources}"
    kubectl = Kubectl(enforcing.site.kubeconfig)
    for pod in server_pods(kubectl):
        said = kubectl("logs", "-n", NAMESPACE, pod, "-c", "verify")
        assert f"verified {SHARDS + 2} files" in said
        assert "as ordered" in said


def server_pods(kubectl: Kubectl) -> list[str]:
    found = kubectl.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=server")["items"]
    return sorted(pod["metadata"]["name"] for pod in found)


def test_who_reaches_what(enforcing: Lab, stack: Project) -> None:
    kubectl = Kubectl(enforcing.site.kubeconfig)
    kubectl("create", "namespace", OUTSIDE)
    for namespace, name, node in ((NAMESPACE, "neighbour", "real-0"), (NAMESPACE, "chat", "real-1")):
        kubectl.apply(client(name, node), namespace=namespace)
    kubectl.apply(client("stranger", "real-1"), namespace=OUTSIDE)
    for namespace, name in ((NAMESPACE, "neighbour"), (NAMESPACE, "chat"), (OUTSIDE, "stranger")):
        kubectl.wait("pod", name, "-n", namespace, "--for=condition=Ready")
    reaches = Reaching(kubectl)

    def table() -> dict[tuple[str, str], bool]:
        leader, worker = server_pods(kubectl)
        to_leader = reaches.address(NAMESPACE, leader)
        clients = ((NAMESPACE, "neighbour"), (NAMESPACE, "chat"), (OUTSIDE, "stranger"))
        stranger = reaches.address(OUTSIDE, "stranger")
        return {
            **{(name, "API"): reaches(namespace, name, to_leader, API) for namespace, name in clients},
            **{(name, "ranks"): reaches(namespace, name, to_leader, RANKS) for namespace, name in clients},
            ("worker", "API"): reaches(NAMESPACE, worker, to_leader, API),
            ("worker", "ranks"): reaches(NAMESPACE, worker, to_leader, RANKS),
            ("leader", "stranger"): reaches(NAMESPACE, leader, stranger, LISTENER),
            ("worker", "stranger"): reaches(NAMESPACE, worker, stranger, LISTENER),
            ("leader", "DNS"): reaches.resolves(NAMESPACE, leader, "kubernetes.default.svc.cluster.local"),
        }

    by_default = {
        ("neighbour", "API"): True,
        ("chat", "API"): True,
        ("stranger", "API"): True,
        ("neighbour", "ranks"): False,
        ("chat", "ranks"): False,
        ("stranger", "ranks"): False,
        ("worker", "API"): True,
        ("worker", "ranks"): True,
        ("leader", "stranger"): False,
        ("worker", "stranger"): False,
        ("leader", "DNS"): True,
    }
    assert table() == by_default
    assert reaches(NAMESPACE, "chat", reaches.address(OUTSIDE, "stranger"), LISTENER), "others are not closed"

    stack.configure(network={"from": [{"pods": {"app": "chat"}}], "media": True})
    changed = stack.up()
    assert changed.status == 0, changed
    narrowed = {("neighbour", "API"): False, ("stranger", "API"): False}
    expected = by_default | narrowed | {("leader", "stranger"): True, ("worker", "stranger"): True}
    deadline = time.monotonic() + 30
    while (seen := table()) != expected:
        assert time.monotonic() < deadline, {place: each for place, each in seen.items() if each != expected[place]}
    leader, _ = server_pods(kubectl)
    models = kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{leader}:{API}/proxy/v1/models")
    assert json.loads(models)["data"], "the API server gets through, by its addresses"


def test_pruning_works_without_any_network(enforcing: Lab, stack: Project) -> None:
    """A pod with the labels of the Jobs' pods stays long enough to be asked."""
    kubectl = Kubectl(enforcing.site.kubeconfig)
    jobs = kubectl.get("jobs", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=prune")["items"]
    assert len(jobs) == len(REAL), "one for each node"
    for job in jobs:
        kubectl.wait("job", job["metadata"]["name"], "-n", NAMESPACE, "--for=condition=Complete")
    labels = jobs[0]["spec"]["template"]["metadata"]["labels"]
    own = {key: value for key, value in labels.items() if key.startswith("app.kubernetes.io/")}
    pruner, other = client("pruner", "real-0"), client("other", "real-1")
    pruner["metadata"]["labels"] = own
    kubectl.apply(pruner, other, namespace=NAMESPACE)
    for pod in ("pruner", "other"):
        kubectl.wait("pod", pod, "-n", NAMESPACE, "--for=condition=Ready")
    reaches = Reaching(kubectl)
    to_pruner, to_other = (reaches.address(NAMESPACE, pod) for pod in ("pruner", "other"))
    assert not reaches(NAMESPACE, "pruner", to_other, LISTENER)
    assert not reaches(NAMESPACE, "other", to_pruner, LISTENER)
    assert reaches(NAMESPACE, "other", to_other, LISTENER), "the listener listens"
