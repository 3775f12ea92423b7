"""A draft model on the real node: two repositories are staged and verified, and the server starts only with both.

vLLM is a test double; the stager, the hub, the checks and the prune Jobs are real.
"""

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from config.stack.file import stack_file
from lab.cluster.simulated import SimulatedNodes
from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, Site
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, WEIGHTS
from tests.lab.sharing import REAL_NODES_WITH_GPUS

pytestmark = REAL_NODES_WITH_GPUS

NAMESPACE = "draft-model-test"
STACK = "qwen3-32b"
NODE = "real-0"
ROOT = f"{WEIGHTS}/{NAMESPACE}"
FILES = ["README.md", "config.json"]


@pytest.fixture
def stack(
    lab: Lab, site: Site, hub: HubClient, kubectl: Kubectl, environment: dict[str, str], tmp_path: Path
) -> Iterator[Project]:
    """The example `qwen3-32b` on the real node, with two small repositories in place of its models."""
    nodes = SimulatedNodes(site)
    nodes.set_resource(NODE, "nvidia.com/gpu", 1)
    project = Project.copy(CHECKOUT, tmp_path / "program", {**environment, "HF_ENDPOINT": hub.url}, STACK)
    file = stack_file(STACK, project.directory)
    example = project.directory / "examples" / f"Pulumi.{STACK}.yaml"
    # The encryption salt of a new stack.
    file.write_text((file.read_text() if file.exists() else "") + example.read_text())
    draft = {"repository": "acme/large", "revision": FIRST, "include": FILES}
    project.configure(
        cluster={"namespace": NAMESPACE},
        nodes={"names": [NODE], "driver": None},
        model={
            "repository": "acme/model",
            "revision": FIRST,
            "allow_unpinned": False,
            "include": FILES,
            "draft": draft,
        },
        weights={"kind": "host-path", "path": ROOT, "cache": True},
        engine={"cpus": None, "memory": "256Mi", "drain": 0},
    )
    yield project
    destroyed = project.destroy()
    assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    lab.on_node(NODE, "rm", "-rf", ROOT)
    nodes.set_resource(NODE, "nvidia.com/gpu", None)


def jobs(kubectl: Kubectl) -> dict[str, dict[str, Any]]:
    """The Jobs by their component."""
    found = kubectl.get("jobs", "-n", NAMESPACE)["items"]
    return {str(job["metadata"]["labels"]["app.kubernetes.io/component"]): job for job in found}


def server(kubectl: Kubectl) -> dict[str, Any]:
    """The server's pod."""
    [pod] = kubectl.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=server")["items"]
    found: dict[str, Any] = pod
    return found


def directory_of(pod: dict[str, Any], container: str) -> str:
    """The directory on the node that an init container checks."""
    [command] = [each["command"] for each in pod["spec"]["initContainers"] if each["name"] == container]
    return f"{ROOT}/{command[2].rpartition('/')[2]}"


def cache_directory(pod: dict[str, Any]) -> str:
    """The directory on the node for what the engine compiles."""
    [engine] = pod["spec"]["containers"]
    [path] = [mount["subPath"] for mount in engine["volumeMounts"] if "subPath" in mount]
    return f"{ROOT}/{path}"


def in_engine(kubectl: Kubectl, pod: dict[str, Any], script: str) -> str:
    """Runs a shell script as the server's user, and returns its output."""
    return kubectl("exec", "-n", NAMESPACE, pod["metadata"]["name"], "-c", "engine", "--", "sh", "-c", script)


def test_both_repositories_are_staged_and_a_changed_draft_model_keeps_the_server_from_starting(
    stack: Project, kubectl: Kubectl, lab: Lab
) -> None:
    up = stack.up()
    assert up.status == 0, up
    pod, made = server(kubectl), jobs(kubectl)
    model, draft = directory_of(pod, "verify"), directory_of(pod, "verify-draft")
    assert model != draft
    for directory in (model, draft):
        assert sorted(lab.on_node(NODE, "ls", directory).split()) == FILES
    assert moment(made["stage-draft"], "completionTime") <= moment(made["stage"], "startTime")
    [engine] = pod["spec"]["containers"]
    assert engine["args"][engine["args"].index("--spec-model") + 1] == draft.replace(ROOT, "/weights")
    for part in ("prune", "prune-draft"):
        kubectl.wait("--for=condition=complete", "job", "-n", NAMESPACE, made[part]["metadata"]["name"], seconds=180)
    assert set(lab.on_node(NODE, "ls", ROOT).split()) == {Path(model).name, Path(draft).name}
    assert lab.on_node(NODE, "stat", "-c", "%a %u", cache_directory(pod)).split() == ["700", "2000"]
    in_engine(kubectl, pod, "echo compiled > /kept-cache/graph && ! touch /weights/graph")

    lab.on_node(NODE, "sh", "-c", f"echo changed >> {draft}/README.md")
    kubectl("delete", "pod", "-n", NAMESPACE, pod["metadata"]["name"], "--wait=false")
    wait_for_another(kubectl, pod)
    refused = stack.up()
    assert refused.status != 0
    assert f"the check of the draft model failed on {NODE}" in refused.output, refused
    assert "README.md" in refused.output
    assert "app.kubernetes.io/component=stage-draft`, then `pulumi up --refresh`" in refused.output
    assert "Traceback" not in refused.output

    # What the message says to do.
    selector = f"app.kubernetes.io/instance={STACK},app.kubernetes.io/component=stage-draft"
    kubectl("delete", "jobs,pods", "-n", NAMESPACE, "-l", selector)
    mended = stack.up("--refresh")
    assert mended.status == 0, mended
    assert "changed" not in lab.on_node(NODE, "cat", f"{draft}/README.md")
    assert in_engine(kubectl, server(kubectl), "cat /kept-cache/graph") == "compiled\n", "it outlived its pod"


def moment(job: dict[str, Any], field: str) -> datetime:
    """A time in a Job's status."""
    return datetime.fromisoformat(job["status"][field])


def wait_for_another(kubectl: Kubectl, old: dict[str, Any], seconds: float = 90) -> None:
    """Waits until another pod has taken the place of the server's."""
    deadline = time.monotonic() + seconds
    while True:
        found = kubectl.get("pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/component=server")["items"]
        if [pod["metadata"]["uid"] for pod in found] not in ([], [old["metadata"]["uid"]]) and len(found) == 1:
            return
        assert time.monotonic() < deadline, "no other pod was made"
        time.sleep(0.5)
