"""Upgrades a stack from an earlier release: same weights, volumes and Service, one restart of the server."""

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.project import Answer, Project
from lab.site import CHECKOUT
from tests.lab.conftest import AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, Served, dev_stack, pinned
from tests.lab.sharing import on_nodes_of

EARLIER = "f5682b515badb7fe15e6be16e1fb2646b71cad1b"
KEPT = ("persistentvolumes", "persistentvolumeclaims", "services")
KEPT_TYPES = {"PersistentVolume", "PersistentVolumeClaim", "Service", "Namespace"}


@pytest.fixture(scope="session")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The earlier program, from the git history of this checkout."""
    archive = subprocess.run(["git", "archive", EARLIER], cwd=CHECKOUT, capture_output=True, check=False)
    assert archive.returncode == 0, f"{archive.stderr.decode()}: a clone with its history is needed"
    directory = tmp_path_factory.mktemp("earlier")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(directory, filter="data")
    return directory


def upgraded(project: Project) -> Project:
    """The same stack with an unchanged stack file and the program of this checkout."""
    stack_file = project.directory / f"Pulumi.{project.stack}.yaml"
    text = stack_file.read_text()
    now = Project.copy(CHECKOUT, project.directory, project.environment, project.stack)
    stack_file.write_text(text)
    return now


def kept_objects(kubectl: Kubectl, namespace: str) -> dict[str, str]:
    """Returns the UID of each object that must stay, by kind and name."""
    found: list[dict[str, Any]] = []
    for kind in KEPT:
        found += kubectl.get(kind, "-n", namespace)["items"]
    mine = [each for each in found if namespace in (each["metadata"].get("namespace"), claimant(each))]
    return {f"{each['kind']} {each['metadata']['name']}": each["metadata"]["uid"] for each in mine}


def claimant(volume: dict[str, Any]) -> str | None:
    """Returns the namespace of the claim that is bound to a volume."""
    claim: dict[str, str] = volume["spec"].get("claimRef", {})
    return claim.get("namespace")


def steps(preview: Answer) -> dict[str, str]:
    """Returns the steps of a preview by URN, without unchanged resources."""
    assert preview.status == 0, preview
    found = json.loads(preview.output[preview.output.index("{") :])["steps"]
    return {step["urn"]: step["op"] for step in found if step["op"] != "same"}


def assert_only_the_server_restarts(preview: Answer, server: str) -> None:
    """Checks that no volume, claim, Service or namespace is replaced, and that the server is updated in place."""
    planned = steps(preview)
    kinds = {urn: urn.split("::")[2].rpartition(":")[2] for urn in planned}
    assert [urn for urn in planned if kinds[urn] in KEPT_TYPES and planned[urn] != "update"] == []
    assert {planned[urn] for urn in planned if kinds[urn] == server} == {"update"}


@pytest.fixture
def served(
    earlier: Path, lab: Lab, hub: HubClient, kubectl: Kubectl, environment: dict[str, str], tmp_path: Path
) -> Iterator[Served]:
    """The stack `dev` on a volume of the real node, after `up` with the earlier program."""
    namespace = "upgrade-dev"
    own = {**environment, "HF_ENDPOINT": hub.url}
    project = dev_stack(earlier, tmp_path / "program", own, namespace, pinned("acme/model", FIRST))
    served = Served(project, kubectl, lab, namespace)
    project.configure(weights={"kind": "local", "size": "1Gi"})
    lab.on_node("real-0", "mkdir", "-p", served.root)
    up = project.up()
    assert up.status == 0, up
    yield served
    destroyed = upgraded(project).destroy()
    assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", namespace, "--ignore-not-found")
    lab.on_node("real-0", "rm", "-rf", served.root)


def test_a_served_model_goes_on_from_the_staged_weights(served: Served, hub: HubClient, kubectl: Kubectl) -> None:
    before, digests = kept_objects(kubectl, served.namespace), served.digests()
    assert {name.split()[0] for name in before} == {"PersistentVolume", "PersistentVolumeClaim", "Service"}
    hub.clear_requests()

    now = upgraded(served.project)
    assert_only_the_server_restarts(now.preview("--json"), "Deployment")
    up = now.up()
    assert up.status == 0, up
    assert hub.bytes_sent() == 0
    assert served.digests() == digests
    assert kept_objects(kubectl, served.namespace) == before
    [deployment] = served.get("deployments")
    assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2", "one restart"
    assert served.ask()

    again = now.preview("--expect-no-changes", "--diff")
    assert again.status == 0, again


@on_nodes_of("2x8h100")
def test_a_group_goes_on_on_its_volumes(
    earlier: Path, nodes: AddNodes, kubectl: Kubectl, public_environment: dict[str, str], tmp_path: Path
) -> None:
    namespace = "upgrade-group"
    nodes("2x8h100")
    project = Project.copy(earlier, tmp_path / "program", public_environment, "h100x16")
    project.configure(cluster={"namespace": namespace})
    first = project.up()
    assert first.status == 0, first
    before = kept_objects(kubectl, namespace)

    now = upgraded(project)
    assert_only_the_server_restarts(now.preview("--json"), "LeaderWorkerSet")
    up = now.up()
    assert up.status == 0, up
    assert kept_objects(kubectl, namespace).items() >= before.items()
    again = now.preview("--expect-no-changes", "--diff")
    assert again.status == 0, again

    destroyed = now.destroy()
    assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", namespace, "--ignore-not-found")
