"""A stack of the first reviewed version, taken over by this one: nothing is fetched, and nothing kept is made anew."""

import io
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.project import NOT_COPIED
from lab.site import CHECKOUT
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, WEIGHTS, Served, dev_stack, pinned

FIRST_REVIEWED = "f5682b5"
NAMESPACE = "upgrade"
KEPT = ("persistentvolumeclaims", "services", "deployments", "namespaces")


@pytest.fixture
def served(lab: Lab, hub: HubClient, kubectl: Kubectl, environment: dict[str, str], tmp_path: Path) -> Iterator[Served]:
    """The stack `dev` of the first reviewed version, on a disk of the real node."""
    command = ("git", "archive", "--format=tar", FIRST_REVIEWED)
    archive = subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as content:
        content.extractall(tmp_path / "first", filter="data")
    own = {**environment, "HF_ENDPOINT": hub.url}
    project = dev_stack(tmp_path / "first", tmp_path / "program", own, NAMESPACE, pinned("acme/model", FIRST))
    project.configure(weights={"kind": "local"})
    served = Served(project, kubectl, lab, NAMESPACE)
    lab.on_node("real-0", "mkdir", "-p", served.root)
    yield served
    destroyed = project.destroy()
    assert destroyed.status == 0, destroyed
    kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
    lab.on_node("real-0", "rm", "-rf", served.root)


def identities(served: Served) -> dict[str, str]:
    """The UID of everything that an upgrade keeps, by kind and name."""
    found = [each for kind in KEPT[:-1] for each in served.get(kind)]
    found += [served.kubectl.get("namespace", NAMESPACE), served.kubectl.get("persistentvolumes")["items"][0]]
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["uid"] for each in found}


def test_an_upgrade_fetches_nothing_replaces_nothing_kept_and_restarts_the_server_once_at_most(
    served: Served, hub: HubClient
) -> None:
    first = served.project.up()
    assert first.status == 0, first
    before = identities(served)
    assert "PersistentVolume/heavylift-upgrade-dev-weights-real-0" in before
    stack_file = (served.project.directory / "Pulumi.dev.yaml").read_text()

    shutil.rmtree(served.project.directory)
    shutil.copytree(CHECKOUT, served.project.directory, ignore=NOT_COPIED)
    (served.project.directory / "Pulumi.dev.yaml").write_text(stack_file)
    hub.clear_requests()
    upgraded = served.project.up()
    assert upgraded.status == 0, upgraded

    assert identities(served) == before
    assert hub.bytes_sent() < 1_000_000, "lists of files, but no weights"
    [deployment] = served.get("deployments")
    assert int(deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"]) <= 2
    preview = served.project.preview("--expect-no-changes", "--diff")
    assert preview.status == 0, preview
    assert served.project.outputs()["answered"] == "yes"
    assert f"{WEIGHTS}/{NAMESPACE}" == served.root
