"""The components for AWS on the real engine, with the provider double, against the lab's AWS. No cluster is needed."""

from collections.abc import Iterator
from typing import Any

import pytest

from lab.aws.client import LabAWS
from lab.aws.server.running import running_server
from lab.engine import Engine
from lab.project import Project
from lab.site import CHECKOUT
from tests.lab.conftest import PROGRAMS

pytestmark = pytest.mark.xdist_group("aws components")

TYPE, ZONE = "p5.48xlarge", "use2-az1"
FIRST, NEXT, SHORT = (f"cr-0123456789abcdef{number}" for number in (1, 2, 3))


@pytest.fixture(scope="module")
def aws() -> Iterator[LabAWS]:
    """AWS with two Capacity Blocks of two nodes, and a reservation of one."""
    with running_server() as url:
        aws = LabAWS(url, "us-east-2")
        zones = aws.api("ec2").describe_availability_zones()["AvailabilityZones"]
        [zone] = [each["ZoneName"] for each in zones if each["ZoneId"] == ZONE]
        for identity in (FIRST, NEXT):
            aws.add_reservation(identity, TYPE, 2, zone, ReservationType="capacity-block")
        aws.add_reservation(SHORT, TYPE, 1, zone)
        yield aws


@pytest.fixture(scope="module")
def project(aws: LabAWS, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The program `programs/aws`, for the first Capacity Block."""
    directory = tmp_path_factory.mktemp("aws")
    engine = Engine(directory)
    engine.install()
    project = Project.copy(CHECKOUT, directory / "program", {**engine.settings, **aws.settings}, "test")
    (project.directory / "__main__.py").write_text((PROGRAMS / "aws/__main__.py").read_text())
    choose(project, FIRST, "capacity-block")
    yield project
    destroyed = project.destroy()
    assert destroyed.status == 0, destroyed


def choose(project: Project, reservation: str, kind: str) -> None:
    """Sets the reservation of the GPU nodes."""
    for key, value in {"reservation": reservation, "kind": kind}.items():
        answer = project.pulumi("config", "set", f"aws-test:{key}", value)
        assert answer.status == 0, answer


def groups(aws: LabAWS, cluster: str) -> dict[str, Any]:
    """Returns the node groups of a cluster by name."""
    eks = aws.api("eks")
    names = eks.list_nodegroups(clusterName=cluster)["nodegroups"]
    return {name: eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"] for name in names}


def template_interfaces(aws: LabAWS, group: dict[str, Any]) -> list[tuple[int, int, str]]:
    """Returns the interfaces of a group's launch template: network card, device index, type."""
    used = group["launchTemplate"]
    versions = aws.api("ec2").describe_launch_template_versions(
        LaunchTemplateId=used["id"], Versions=[used["version"]]
    )["LaunchTemplateVersions"]
    found = versions[0]["LaunchTemplateData"]["NetworkInterfaces"]
    return [(each["NetworkCardIndex"], each["DeviceIndex"], each["InterfaceType"]) for each in found]


def test_a_cluster_with_gpu_nodes_goes_up_stays_as_it_is_and_moves_to_the_next_reservation(
    aws: LabAWS, project: Project
) -> None:
    preview = project.preview()
    assert preview.status == 0, preview
    assert "aws:eks:NodeGroup" in preview.output
    up = project.up()
    assert up.status == 0, up
    outputs = project.outputs()
    group = groups(aws, outputs["cluster"])[outputs["group"]]
    assert group["status"] == "ACTIVE"
    # docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html: one EFA interface on each of 32 cards.
    assert len(template_interfaces(aws, group)) == 33
    unchanged = project.preview("--expect-no-changes")
    assert unchanged.status == 0, unchanged

    # EKS' own schedule scales the group of a block that ends to 0.
    aws.api("eks").update_nodegroup_config(
        clusterName=outputs["cluster"], nodegroupName=outputs["group"], scalingConfig={"desiredSize": 0}
    )
    refreshed = project.refresh()
    assert refreshed.status == 0, refreshed
    unchanged = project.preview("--expect-no-changes")
    assert unchanged.status == 0, unchanged

    choose(project, NEXT, "capacity-block")
    moved = project.up()
    assert moved.status == 0, moved
    named = [name for name in groups(aws, outputs["cluster"]) if name.startswith("nodes-")]
    assert len(named) == 1
    assert NEXT in named[0]


def test_a_reservation_that_is_too_small_ends_up_with_ec2s_reason(aws: LabAWS, project: Project) -> None:
    choose(project, SHORT, "reservation")
    up = project.up()
    assert up.status != 0
    assert "does not have sufficient compatible and available capacity" in up.output
    assert "Traceback" not in up.output


def test_destroy_leaves_the_bucket_and_a_key_that_waits_to_be_deleted(aws: LabAWS, project: Project) -> None:
    destroyed = project.destroy()
    assert destroyed.status == 0, destroyed
    assert len(aws.api("s3").list_buckets()["Buckets"]) == 1
    keys = [aws.api("kms").describe_key(KeyId=each["KeyId"]) for each in aws.api("kms").list_keys()["Keys"]]
    assert [key["KeyMetadata"]["KeyState"] for key in keys] == ["PendingDeletion"]
    ec2 = aws.api("ec2")
    assert [vpc for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc["IsDefault"]] == []
    assert ec2.describe_addresses()["Addresses"] == []
    assert ec2.describe_launch_templates()["LaunchTemplates"] == []
    assert aws.api("eks").list_clusters()["clusters"] == []
    assert aws.api("iam").list_roles()["Roles"] == []
