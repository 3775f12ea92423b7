"""A group of nodes that only a label describes: staged by a DaemonSet, also after a node was replaced.

On the real node, which leaves the group and joins it again with an empty disk. Simulated nodes run no containers, and
show what `up` does while nodes are missing.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest

from lab.build.images import MODEL_FILE
from lab.cluster.servers import S3_ACCESS_KEY, S3_REGION, S3_SECRET_KEY
from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.project import Answer, Project
from lab.site import CHECKOUT, Site
from tests.lab.conftest import PROGRAMS, AddNodes
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, WEIGHTS, pinned
from tests.lab.sharing import with_own_state

# One stack, whose tests build on one another.
pytestmark = pytest.mark.xdist_group("group without names")

LABEL = "heavylift.lab/pool"
SECONDS = 300
LATE = "credentials"
"""Name of the Secret with the credentials of the mirror."""


class Group:
    """One stack of the program `group` in a namespace of its own, on nodes whose label has the namespace's name."""

    def __init__(self, project: Project, kubectl: Kubectl, lab: Lab, namespace: str, nodes: int) -> None:
        self.project, self.kubectl, self.lab, self.namespace, self.nodes = project, kubectl, lab, namespace, nodes
        self.root = f"{WEIGHTS}/{namespace}"
        self.mirror: dict[str, Any] = {}
        """Settings of the program to stage from the mirror, with credentials that a Secret gives."""

    def up(self, revision: str, **more: Any) -> Answer:
        """Runs `pulumi up` for a revision of the hub's model."""
        return self.project.up(**self.settings(revision, **more))

    def settings(self, revision: str, **more: Any) -> dict[str, str]:
        """Returns the environment of the program. `more`: settings of the group."""
        group = {
            "namespace": self.namespace,
            "labels": {LABEL: self.namespace},
            "nodes": self.nodes,
            "path": self.root,
            "model": pinned("acme/model", revision),
            "model_file": MODEL_FILE,
            "serves": True,
            "await_seconds": SECONDS,
            **more,
        }
        return {"GROUP": json.dumps(group)}

    def get(self, kind: str) -> list[dict[str, Any]]:
        """Returns all objects of a kind in the namespace."""
        found: list[dict[str, Any]] = self.kubectl.get(kind, "-n", self.namespace)["items"]
        return found

    def pods(self, part: str) -> list[dict[str, Any]]:
        """Returns the pods of `stage` or `server` that have not failed.

        A kubelet that hears of a new label later than the scheduler refuses the pod (`NodeAffinity`). The failed pod
        stays beside the one that replaces it.
        """
        pods = [pod for pod in self.get("pods") if pod["metadata"]["name"].startswith(f"{part}-")]
        return [pod for pod in pods if pod["status"].get("phase") != "Failed"]

    def stage_pods(self) -> set[str]:
        """Returns the UIDs of the stage pods."""
        return {pod["metadata"]["uid"] for pod in self.pods("stage")}

    def joins(self, node: str) -> None:
        """Gives a node the label of the group."""
        self.kubectl("label", "node", node, f"{LABEL}={self.namespace}", "--overwrite")

    def leaves(self, node: str) -> None:
        """Takes the label of the group from a node."""
        self.kubectl("label", "node", node, f"{LABEL}-")

    def wait_until(self, reached: Callable[[], bool], what: str) -> None:
        """Waits until `reached` holds."""
        deadline = time.monotonic() + SECONDS
        while not reached():
            assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}; {self.get('pods')}"
            time.sleep(0.2)


def mirror_of(site: Site) -> dict[str, Any]:
    """Fills a new bucket of the lab's S3 server, and returns the settings to stage from it."""
    keys = {"aws_access_key_id": S3_ACCESS_KEY, "aws_secret_access_key": S3_SECRET_KEY, "region_name": S3_REGION}
    client = boto3.client("s3", endpoint_url=site.url("s3"), **keys)
    bucket = f"group-{uuid.uuid4().hex[:8]}"
    client.create_bucket(Bucket=bucket)
    client.put_object(Bucket=bucket, Key=f"acme/model/{FIRST}/README.md", Body=b"the first revision\n")
    client.upload_file(str(site.directory / MODEL_FILE), bucket, f"acme/model/{FIRST}/{MODEL_FILE}")
    late = {"name": "stage", "envFrom": [{"secretRef": {"name": LATE, "optional": True}}]}
    where = {"AWS_ENDPOINT_URL_S3": site.url("s3"), "AWS_REGION": S3_REGION, "AWS_EC2_METADATA_DISABLED": "true"}
    return {
        "sources": [f"s3://{bucket}"],
        "service_account": "default",
        "pod": {"patch": {"initContainers": [late]}},
        "environment": where,
    }


@pytest.fixture(scope="module")
def made(
    lab: Lab, hub: HubClient, kubectl: Kubectl, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str, int], Group]]:
    """Makes groups, and destroys them after the tests."""
    groups: list[Group] = []

    def make(namespace: str, nodes: int) -> Group:
        folder = tmp_path_factory.mktemp(namespace)
        environment = {**with_own_state(settings, folder), "HF_ENDPOINT": hub.url, "PYTHONPATH": str(CHECKOUT)}
        project = Project.copy(PROGRAMS / "group", folder / "program", environment, "test")
        kubectl("create", "namespace", namespace)
        groups.append(Group(project, kubectl, lab, namespace, nodes))
        return groups[-1]

    yield make
    for group in groups:
        destroyed = group.project.destroy(**group.settings(FIRST))
        assert destroyed.status == 0, destroyed
        kubectl("delete", "namespace", group.namespace, "--wait=false")
        lab.on_node("real-0", "rm", "-rf", group.root)


@pytest.fixture(scope="module")
def group(made: Callable[[str, int], Group], lab: Lab) -> Iterator[Group]:
    """A group of which the real node is the only one."""
    group = made("group-of-one", 1)
    group.mirror = mirror_of(lab.site)
    group.joins("real-0")
    yield group
    group.leaves("real-0")


def is_ready(pod: dict[str, Any]) -> bool:
    """Returns whether a pod is ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def ended(pod: dict[str, Any], container: str) -> str:
    """Returns when an init container of a pod succeeded."""
    [status] = [each for each in pod["status"]["initContainerStatuses"] if each["name"] == container]
    assert status["state"]["terminated"]["exitCode"] == 0
    return str(status["state"]["terminated"]["finishedAt"])


def test_a_revision_that_is_not_there_is_refused_at_the_first_attempt(group: Group) -> None:
    failed = group.up("9" * 40)
    assert failed.status != 0, failed
    assert "the weights cannot be staged:" in failed.output
    assert failed.output.count(f"acme/model has no revision '{'9' * 40}'") == 1, failed
    assert group.get("deployments") == []


def test_a_node_is_staged_and_served_though_its_first_pods_have_no_credentials(group: Group, kubectl: Kubectl) -> None:
    """A Secret that comes late stands for EKS Pod Identity, which changes a pod only when it is admitted."""
    before, later = group.stage_pods(), set[str]()

    def is_replaced() -> bool:
        later.update(group.stage_pods() - before)
        return len(later) > 1

    with ThreadPoolExecutor() as threads:
        running = threads.submit(group.up, FIRST, **group.mirror)
        group.wait_until(lambda: is_replaced() or running.done(), "a pod without credentials is replaced")
        key, secret = f"AWS_ACCESS_KEY_ID={S3_ACCESS_KEY}", f"AWS_SECRET_ACCESS_KEY={S3_SECRET_KEY}"
        literals = (f"--from-literal={key}", f"--from-literal={secret}")
        kubectl("create", "secret", "generic", LATE, "-n", group.namespace, *literals)
        up = running.result()
    assert up.status == 0, up
    assert is_replaced()
    assert "1 of 1 nodes staged" in up.output
    assert group.project.outputs()["answered"] == "yes"
    [daemon_set] = group.get("daemonsets")
    assert daemon_set["status"]["numberReady"] == 1, "that of the other weights is gone"
    assert group.get("jobs") == []
    preview = group.project.preview("--expect-no-changes", **group.settings(FIRST, **group.mirror))
    assert preview.status == 0, preview


def test_a_node_that_is_replaced_is_staged_before_it_serves_without_an_update(
    group: Group, lab: Lab, kubectl: Kubectl
) -> None:
    began = time.monotonic()
    group.leaves("real-0")
    group.wait_until(lambda: not group.stage_pods(), "the stage pod ends")
    assert time.monotonic() - began < 20, "it ends at once, and not after the 30 s that pods are given"
    kubectl("delete", "pod", "-n", group.namespace, *[pod["metadata"]["name"] for pod in group.pods("server")])
    lab.on_node("real-0", "rm", "-rf", group.root)

    group.joins("real-0")
    group.wait_until(lambda: [is_ready(pod) for pod in group.pods("server")] == [True], "only the new server is there")
    [stage], [server] = group.pods("stage"), group.pods("server")
    assert ended(stage, "stage") <= ended(server, "verify")
    log = kubectl("logs", "-n", group.namespace, server["metadata"]["name"], "-c", "verify")
    assert "which the stager of this node writes" in log
    assert "verified 2 files" in log


def test_up_waits_for_as_many_nodes_as_are_counted_and_ends_with_how_many_are_missing(
    made: Callable[[str, int], Group], nodes: AddNodes
) -> None:
    group = made("group-of-two", 2)
    nodes("8xh200", ["unnamed-0", "unnamed-1"])
    group.joins("unnamed-0")
    failed = group.up(FIRST, serves=False, await_seconds=5)
    assert failed.status != 0, failed
    assert "not done in 5 s" in failed.output
    missing = f"the cluster has 1 of 2 nodes with the labels of the group ({LABEL}=group-of-two)"
    assert f"1 of 2 nodes staged; {missing}" in failed.output
    group.joins("unnamed-1")
    up = group.up(FIRST, serves=False)
    assert up.status == 0, up
    for node in ("unnamed-0", "unnamed-1"):
        group.leaves(node)
    # Before the nodes go: the cluster takes more than a minute to remove a pod whose node is gone.
    group.wait_until(lambda: not group.stage_pods(), "the stage pods end")
