"""The AWS stacks as committed, from preview to destroy: real engine and cluster, the lab's AWS, the provider double.

DescribeCluster answers with the lab's API server, and node groups add simulated nodes, which run no containers:
`test_group_without_names.py` shows on the real node that a node is staged before it serves.
"""

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import engine
from lab.aws.client import LabAWS
from lab.project import Project
from lab.site import CHECKOUT, Site
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import committed_stack

# One account and one cluster, and tests that build on one another.
pytestmark = pytest.mark.xdist_group("aws stacks")

REGION, ZONE = "us-east-2", "use2-az1"
RANGE = "8.8.8.0/24"
BLOCK, NEXT, PAIR = (f"cr-0123456789abcdef{number}" for number in range(3))
GROUP_LABEL = "nodes.heavylift/group"
SECONDS = 120


@pytest.fixture(scope="module")
def aws(site: Site) -> LabAWS:
    """The lab's AWS with two Capacity Blocks for `aws-h200` and one for `aws-h100x16`."""
    aws = LabAWS(site.url("aws"), REGION)
    zones = aws.api("ec2").describe_availability_zones()["AvailabilityZones"]
    [zone] = [each["ZoneName"] for each in zones if each["ZoneId"] == ZONE]
    for identity in (BLOCK, NEXT):
        aws.add_reservation(identity, "p5en.48xlarge", 1, zone, ReservationType="capacity-block")
    aws.add_reservation(PAIR, "p5.48xlarge", 2, zone, ReservationType="capacity-block")
    return aws


def in_account(aws: LabAWS) -> dict[str, set[str]]:
    """Returns what is in the account, besides AWS' own."""
    ec2 = aws.api("ec2")
    return {
        "networks": {each["VpcId"] for each in ec2.describe_vpcs()["Vpcs"]},
        "addresses": {each["AllocationId"] for each in ec2.describe_addresses()["Addresses"]},
        "templates": {each["LaunchTemplateId"] for each in ec2.describe_launch_templates()["LaunchTemplates"]},
        "clusters": set(aws.api("eks").list_clusters()["clusters"]),
        "roles": {each["RoleName"] for each in aws.api("iam").list_roles()["Roles"]},
        "keys": {each["KeyId"] for each in aws.api("kms").list_keys()["Keys"]},
        "buckets": {each["Name"] for each in aws.api("s3").list_buckets()["Buckets"]},
    }


@pytest.fixture(scope="module")
def before(aws: LabAWS) -> dict[str, set[str]]:
    """What was in the account before these tests."""
    return in_account(aws)


@contextmanager
def aws_stack(name: str, block: str, directory: Path, site: Site, kubectl: Kubectl) -> Iterator[Project]:
    """Yields an AWS stack as committed but for its Capacity Block and address range, and destroys it afterwards."""
    with committed_stack(name, name, directory, engine.aws_settings(site), kubectl) as project:
        link_environment(project)
        project.configure(
            aws={"public_access_cidrs": [RANGE]},
            nodes={"capacity": {"kind": "capacity-block", "id": block}},
        )
        yield project


def link_environment(project: Project) -> None:
    """Gives a copy the virtual environment that `make` makes in a checkout, where the credential plugin is."""
    (project.directory / ".venv").symlink_to(CHECKOUT / ".venv")


@pytest.fixture(scope="module")
def h200(
    aws: LabAWS,
    before: dict[str, set[str]],
    site: Site,
    kubectl: Kubectl,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Project]:
    """The stack `aws-h200` with a mirror of its own."""
    assert before["clusters"] == set()
    with aws_stack("aws-h200", BLOCK, tmp_path_factory.mktemp("aws-h200"), site, kubectl) as project:
        project.configure(aws={"mirror": {"create": True}})
        yield project


def nodes_of(kubectl: Kubectl, stack: str) -> list[dict[str, Any]]:
    """Returns the GPU nodes of a stack."""
    found = kubectl.get("nodes", "-l", GROUP_LABEL)["items"]
    return [each for each in found if each["metadata"]["labels"][GROUP_LABEL].startswith(f"{stack}-nodes-")]


def server_pods(kubectl: Kubectl, namespace: str) -> list[dict[str, Any]]:
    """Returns the pods of the server."""
    return [
        each for each in kubectl.get("pods", "-n", namespace)["items"] if each["metadata"]["name"].startswith("server-")
    ]


def serving_nodes(kubectl: Kubectl, namespace: str) -> list[str]:
    """Returns the nodes of the server's ready pods."""
    pods = [each for each in server_pods(kubectl, namespace) if each["status"].get("phase") == "Running"]
    return sorted(each["spec"]["nodeName"] for each in pods if "deletionTimestamp" not in each["metadata"])


def wait_until(reached: Callable[[], bool], told: Callable[[], str]) -> None:
    """Waits until `reached` holds. `told`: what to show if it does not."""
    deadline = time.monotonic() + SECONDS
    while not reached():
        assert time.monotonic() < deadline, told()
        time.sleep(0.2)


def unchanged(project: Project) -> None:
    """Asserts that a preview has nothing to do."""
    preview = project.preview("--expect-no-changes")
    assert preview.status == 0, preview


def test_a_stack_goes_from_an_account_to_a_served_model_and_stays_as_it_is(
    aws: LabAWS, h200: Project, kubectl: Kubectl
) -> None:
    preview = h200.preview()
    assert preview.status == 0, preview
    up = h200.up()
    assert up.status == 0, up
    [node] = nodes_of(kubectl, "aws-h200")
    assert node["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "p5en.48xlarge"
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8", "the device plugin found them"
    [pod] = server_pods(kubectl, "aws-h200")
    assert pod["spec"]["nodeName"] == node["metadata"]["name"]
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "8"
    assert h200.outputs()["endpoint"].startswith("http://aws-h200.aws-h200.svc")
    [stage] = kubectl.get("daemonsets", "-n", "aws-h200")["items"]
    assert stage["status"]["numberReady"] == 1
    unchanged(h200)
    refreshed = h200.refresh()
    assert refreshed.status == 0, refreshed
    unchanged(h200)


def test_a_second_checkout_with_the_same_state_sees_no_change_and_what_drifted(
    h200: Project, kubectl: Kubectl, tmp_path: Path
) -> None:
    """The kubeconfig names no path of a machine: a runner previews and refreshes what a laptop made."""
    shutil.copytree(h200.directory, tmp_path / "another", ignore=shutil.ignore_patterns(".venv"))
    second = replace(h200, directory=tmp_path / "another")
    link_environment(second)
    unchanged(second)
    kubectl("delete", "service", "aws-h200", "-n", "aws-h200")
    drifted = second.preview("--refresh")
    assert drifted.status == 0, drifted
    assert "core/v1:Service" in drifted.output, drifted
    assert "1 to create" in drifted.output, drifted
    again = second.up("--refresh")
    assert again.status == 0, again


def test_a_replaced_node_is_staged_and_served_again_without_an_update(
    aws: LabAWS, h200: Project, kubectl: Kubectl
) -> None:
    [before] = nodes_of(kubectl, "aws-h200")
    name = aws.replace_node(before["metadata"]["name"])
    assert name != before["metadata"]["name"]
    wait_until(lambda: serving_nodes(kubectl, "aws-h200") == [name], lambda: kubectl("get", "pods", "-A", "-o", "wide"))
    unchanged(h200)


def test_a_block_that_launches_nothing_ends_up_with_ec2s_reason_while_the_old_one_serves(
    aws: LabAWS, h200: Project, kubectl: Kubectl
) -> None:
    serving = serving_nodes(kubectl, "aws-h200")
    h200.configure(nodes={"capacity": {"kind": "capacity-block", "id": NEXT}})
    aws.faults(failing_reservations=[NEXT])
    failed = h200.up()
    assert failed.status != 0
    assert failed.output.count("0 of 1 instances of node group nodes-cr-0123456789abcdef1") >= 1, failed
    assert "ReservationCapacityExceeded" in failed.output
    assert "Traceback" not in failed.output
    assert serving_nodes(kubectl, "aws-h200") == serving

    aws.faults()
    moved = h200.up()
    assert moved.status == 0, moved
    [node] = nodes_of(kubectl, "aws-h200")
    assert NEXT in node["metadata"]["labels"][GROUP_LABEL]
    assert serving_nodes(kubectl, "aws-h200") == [node["metadata"]["name"]]
    unchanged(h200)


def test_a_server_over_two_nodes_goes_up_on_efa_in_a_cluster_that_exists(
    aws: LabAWS, h200: Project, site: Site, kubectl: Kubectl, tmp_path: Path
) -> None:
    [cluster] = in_account(aws)["clusters"]
    with aws_stack("aws-h100x16", PAIR, tmp_path, site, kubectl) as h100x16:
        h100x16.configure(aws=None)
        # The lab's cluster has the controller; `test_leader_worker_set_manifest.py` shows how a stack installs it.
        h100x16.configure(aws={"region": REGION, "cluster": {"name": cluster}}, nodes={"install": []})
        fails_as_half_of_the_nodes_join(aws, h100x16)
        h100x16.configure(nodes={"capacity": {"kind": "capacity-block", "id": PAIR}})
        up = h100x16.up()
        assert up.status == 0, up
        nodes = nodes_of(kubectl, "aws-h100x16")
        # docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html: 32 network cards.
        assert [node["status"]["allocatable"]["vpc.amazonaws.com/efa"] for node in nodes] == ["32", "32"]
        assert serving_nodes(kubectl, "aws-h100x16") == sorted(node["metadata"]["name"] for node in nodes)
        for pod in server_pods(kubectl, "aws-h100x16"):
            limits = pod["spec"]["containers"][0]["resources"]["limits"]
            assert limits["vpc.amazonaws.com/efa"] == "32"
            assert limits["nvidia.com/gpu"] == "8"
        unchanged(h100x16)
    assert in_account(aws)["clusters"] == {cluster}
    assert nodes_of(kubectl, "aws-h100x16") == []


def fails_as_half_of_the_nodes_join(aws: LabAWS, stack: Project) -> None:
    """Asserts that `up` on demand ends with EKS' reason where one of two instances does not join."""
    stack.configure(nodes={"capacity": {"kind": "on-demand"}})
    aws.quotas(L_417A185B=1000)
    aws.faults(joining=1)
    failed = stack.up()
    aws.faults()
    assert failed.status != 0
    assert "NodeCreationFailure: Instances failed to join the kubernetes cluster" in failed.output, failed
    assert "Traceback" not in failed.output


def test_destroy_leaves_the_bucket_and_a_key_that_waits_to_be_deleted(
    aws: LabAWS, h200: Project, kubectl: Kubectl, before: dict[str, set[str]]
) -> None:
    destroyed = h200.destroy()
    assert destroyed.status == 0, destroyed
    assert nodes_of(kubectl, "aws-h200") == []
    left = {kind: found - before[kind] for kind, found in in_account(aws).items()}
    [key] = left.pop("keys")
    assert aws.api("kms").describe_key(KeyId=key)["KeyMetadata"]["KeyState"] == "PendingDeletion"
    assert len(left.pop("buckets")) == 1
    assert {kind: found for kind, found in left.items() if found} == {}
