"""What AWS refuses: each row of `refusals.toml` has a request here that gets this refusal, with AWS' code."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from lab.aws.credentials import ACCESS_KEY, SECRET_KEY
from lab.aws.server.cluster import CLUSTER, NoNodes
from lab.aws.server.refusal import refusals
from lab.aws.server.store import Record
from tests.unit.lab.aws.account import POLICY, TYPE, Account

KEYS = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
Request = Callable[[Account], Any]
REQUESTS: dict[str, Request] = {}
"""A request that is refused, by the refusal's name."""


def refused(name: str) -> Callable[[Request], Request]:
    """Keeps a request under the name of its refusal."""

    def keep(request: Request) -> Request:
        REQUESTS[name] = request
        return request

    return keep


def interfaces(*of: tuple[int, int, str], kind: str = TYPE) -> Request:
    """Returns a request for a launch template with interfaces: network card, device index, type."""
    data = [{"NetworkCardIndex": card, "DeviceIndex": device, "InterfaceType": way} for card, device, way in of]
    return lambda account: account.template(InstanceType=kind, NetworkInterfaces=data)


# The layouts follow DescribeInstanceTypes: p5en has cards 0 to 15 of 4 interfaces, p6-b300 has no EFA on card 0.
REQUESTS |= {
    "card-unknown": interfaces((0, 0, "interface"), (16, 0, "efa-only")),
    "card-refuses-type": interfaces((0, 0, "interface"), (0, 1, "efa-only"), kind="p6-b300.48xlarge"),
    "primary-efa-only": interfaces((0, 0, "efa-only")),
    "device-index-used": interfaces((0, 0, "interface"), (0, 1, "efa-only"), (0, 1, "efa-only")),
    "device-index-too-high": interfaces((0, 0, "interface"), (1, 4, "efa-only")),
    "too-many-efa": interfaces(
        (0, 0, "interface"), *((card, at, "efa-only") for card in range(1, 16) for at in (0, 1))
    ),
    "public-address-with-several-interfaces": lambda account: account.template(
        NetworkInterfaces=[{"DeviceIndex": 0, "AssociatePublicIpAddress": True}, {"DeviceIndex": 1}]
    ),
    "market-type-unknown": lambda account: account.template(InstanceMarketOptions={"MarketType": "block"}),
    "block-without-reservation": lambda account: account.template(
        InstanceType=TYPE, InstanceMarketOptions={"MarketType": "capacity-block"}
    ),
    "type-unknown": lambda account: account.template(InstanceType="p9.48xlarge"),
    "reservation-unknown": lambda account: account(
        "ec2", "describe_capacity_reservations", CapacityReservationIds=["cr-0"]
    ),
    "block-not-offered": lambda account: account(
        "ec2", "describe_capacity_block_offerings", InstanceType="g6e.48xlarge", CapacityDurationHours=24
    ),
    "offering-unknown": lambda account: account(
        "ec2", "purchase_capacity_block", CapacityBlockOfferingId="cb-0", InstancePlatform="Linux/UNIX"
    ),
    "placement-group-unknown": lambda account: account("ec2", "describe_placement_groups", GroupNames=["no"]),
    "cluster-unknown": lambda account: account("eks", "describe_cluster", name="no"),
    "cluster-version": lambda account: account.create_cluster(version="1.19"),
    "cluster-zones": lambda account: account.create_cluster(resourcesVpcConfig={"subnetIds": account.subnets[:1]}),
    "cluster-endpoints": lambda account: account.create_cluster(
        resourcesVpcConfig={"subnetIds": account.subnets, "endpointPublicAccess": False}
    ),
    "cluster-role": lambda account: account.create_cluster(roleArn=account.node_role),
    "cluster-role-policy": lambda account: account.create_cluster(roleArn=account.role("bare", "eks.amazonaws.com")),
    "subnet-unknown": lambda account: account.create_group(instanceTypes=[TYPE], subnets=["subnet-0"]),
    "group-unknown": lambda account: account.group("no"),
    "group-role": lambda account: account.create_group(instanceTypes=[TYPE], nodeRole=account.cluster_role),
    "group-template-unknown": lambda account: account.create_group(launchTemplate={"id": "lt-0"}),
    "group-types-twice": lambda account: account.create_group(
        instanceTypes=[TYPE], launchTemplate={"id": account.template(InstanceType=TYPE)}
    ),
    "group-disk-twice": lambda account: account.create_group(
        diskSize=50, launchTemplate={"id": account.template(InstanceType=TYPE)}
    ),
    "group-template-forbids": lambda account: account.create_group(
        launchTemplate={"id": account.template(InstanceType=TYPE, NetworkInterfaces=[{"SubnetId": account.subnets[0]}])}
    ),
    "group-block-template": lambda account: account.create_group(
        capacityType="CAPACITY_BLOCK", launchTemplate={"id": account.template(InstanceType=TYPE)}
    ),
    "group-block-subnets": lambda account: account.create_group(
        capacityType="CAPACITY_BLOCK", launchTemplate={"id": account.block_template("cr-1")}, subnets=account.subnets
    ),
    "group-sizes": lambda account: account.create_group(scalingConfig={"minSize": 2, "maxSize": 2, "desiredSize": 1}),
    "group-size-limit": lambda account: account.create_group(
        scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 2}
    ),
    "group-ami": lambda account: account.create_group(amiType="AL2023_ARM_NVIDIA_2"),
    "group-release": lambda account: account.create_group(releaseVersion="1.19.8-20210414"),
    "addon-unknown": lambda account: account("eks", "describe_addon", clusterName=account.cluster, addonName="vpc-cni"),
    "addon-not-supported": lambda account: account(
        "eks", "create_addon", clusterName=account.cluster, addonName="kube_proxy"
    ),
    "addon-version-not-supported": lambda account: account(
        "eks", "create_addon", clusterName=account.cluster, addonName="vpc-cni", addonVersion="v0.1.0-eksbuild.1"
    ),
    "entry-unknown": lambda account: account(
        "eks", "describe_access_entry", clusterName=account.cluster, principalArn=account.node_role
    ),
    "entry-principal": lambda account: account(
        "eks", "create_access_entry", clusterName=account.cluster, principalArn="arn:aws:iam::123456789012:role/no"
    ),
    "association-unknown": lambda account: account(
        "eks", "describe_pod_identity_association", clusterName=account.cluster, associationId="a-0"
    ),
    "association-role": lambda account: associate(account, "arn:aws:iam::123456789012:role/no"),
    "association-trust": lambda account: associate(account, account.role("pods", "pods.eks.amazonaws.com")),
    "parameter-unknown": lambda account: account(
        "ssm", "get_parameter", Name="/aws/service/eks/optimized-ami/1.19/amazon-linux-2/recommended/image_id"
    ),
    "quota-unknown": lambda account: account(
        "service-quotas", "get_service_quota", ServiceCode="ec2", QuotaCode="L-00000000"
    ),
    "simulation-of-no-principal": lambda account: account(
        "iam",
        "simulate_principal_policy",
        PolicySourceArn="arn:aws:sts::123456789012:federated-user/someone",
        ActionNames=["eks:CreateCluster"],
    ),
}


def associate(account: Account, role: str) -> Any:
    """Gives a role to the pods of a service account."""
    given = {"clusterName": account.cluster, "namespace": account.name, "serviceAccount": "s", "roleArn": role}
    return account("eks", "create_pod_identity_association", **given)


def twice(action: Request) -> Request:
    """Returns a request that is made twice."""

    def both(account: Account) -> Any:
        action(account)
        return action(account)

    return both


def pods_role(account: Account) -> str:
    """Returns a role that Pod Identity may use."""
    return account.role("pods", "pods.eks.amazonaws.com", "sts:AssumeRole", "sts:TagSession")


@refused("association-exists")
def _(account: Account) -> Any:
    role = pods_role(account)
    associate(account, role)
    return associate(account, role)


REQUESTS |= {
    "cluster-exists": twice(Account.create_cluster),
    "group-exists": twice(lambda account: account.create_group(instanceTypes=["m7i.large"])),
    "placement-group-exists": twice(
        lambda account: account("ec2", "create_placement_group", GroupName=account.name, Strategy="cluster")
    ),
    "addon-exists": twice(
        lambda account: account("eks", "create_addon", clusterName=account.cluster, addonName="vpc-cni")
    ),
    "entry-exists": twice(
        lambda account: account(
            "eks", "create_access_entry", clusterName=account.cluster, principalArn=account.node_role
        )
    ),
}


@refused("placement-group-in-use")
def _(account: Account) -> Any:
    account("ec2", "create_placement_group", GroupName=account.name, Strategy="cluster")
    template = account.template(InstanceType=TYPE, Placement={"GroupName": account.name})
    account.create_group(launchTemplate={"id": template})
    return account("ec2", "delete_placement_group", GroupName=account.name)


@refused("subnet-in-use")
def _(account: Account) -> Any:
    account.create_cluster()
    return account("ec2", "delete_subnet", SubnetId=account.subnets[0])


@refused("security-group-in-use")
def _(account: Account) -> Any:
    network = account.create_cluster()["cluster"]["resourcesVpcConfig"]
    return account("ec2", "delete_security_group", GroupId=network["clusterSecurityGroupId"])


def attached_gateway(account: Account) -> str:
    """Makes an internet gateway of the account's VPC."""
    made = account("ec2", "create_internet_gateway")["InternetGateway"]["InternetGatewayId"]
    account("ec2", "attach_internet_gateway", InternetGatewayId=made, VpcId=account.vpc)
    return str(made)


@refused("vpc-in-use")
def _(account: Account) -> Any:
    attached_gateway(account)
    return account("ec2", "delete_vpc", VpcId=account.vpc)


def nat_gateway(account: Account) -> str:
    """Makes a NAT gateway and returns the id of its address."""
    address = account("ec2", "allocate_address", Domain="vpc")["AllocationId"]
    account("ec2", "create_nat_gateway", SubnetId=account.subnets[0], AllocationId=address)
    return str(address)


@refused("gateway-in-use")
def _(account: Account) -> Any:
    gateway = attached_gateway(account)
    nat_gateway(account)
    return account("ec2", "detach_internet_gateway", InternetGatewayId=gateway, VpcId=account.vpc)


@refused("address-in-use")
def _(account: Account) -> Any:
    return account("ec2", "release_address", AllocationId=nat_gateway(account))


@refused("cluster-has-groups")
def _(account: Account) -> Any:
    account.create_group(instanceTypes=["m7i.large"])
    return account("eks", "delete_cluster", name=account.cluster)


@refused("cluster-protected")
def _(account: Account) -> Any:
    account.create_cluster(deletionProtection=True)
    return account("eks", "delete_cluster", name=account.name)


@refused("cluster-one-update")
def _(account: Account) -> Any:
    both = {"upgradePolicy": {"supportType": "STANDARD"}, "deletionProtection": True}
    return account("eks", "update_cluster_config", name=account.cluster, **both)


@refused("entry-mode")
def _(account: Account) -> Any:
    account.create_cluster(accessConfig={"authenticationMode": "CONFIG_MAP"})
    return account("eks", "list_access_entries", clusterName=account.name)


@refused("policy-unknown")
def _(account: Account) -> Any:
    caller = account("sts", "get_caller_identity")["Arn"]
    given = {"clusterName": account.cluster, "principalArn": caller, "policyArn": POLICY}
    return account("eks", "associate_access_policy", **given, accessScope={"type": "cluster"})


@refused("group-block-version")
def _(account: Account) -> Any:
    account.aws.add_reservation("cr-7", TYPE, 1, "us-east-1a", ReservationType="capacity-block")
    account.create_group(capacityType="CAPACITY_BLOCK", launchTemplate={"id": account.block_template("cr-7")})
    return account("eks", "update_nodegroup_version", clusterName=account.cluster, nodegroupName="gpu")


LAUNCHES = {name for name in refusals() if name.startswith("launch-")} | {"nodes-did-not-join"}
"""Refusals that no request gets: they are in a group's health and activities (below)."""


def test_every_refusal_but_those_of_launches_has_a_request() -> None:
    assert set(refusals()) - LAUNCHES == set(REQUESTS)


@pytest.mark.parametrize("name", sorted(REQUESTS))
def test_a_request_that_aws_refuses_is_refused_with_its_code(account: Account, name: str) -> None:
    with pytest.raises(ClientError) as fault:
        REQUESTS[name](account)
    assert fault.value.response["Error"]["Code"] == refusals()[name]["code"]
    beginning = refusals()[name]["message"].partition("{")[0]
    assert fault.value.response["Error"]["Message"].startswith(beginning)


@pytest.mark.parametrize("name", sorted(refusals()))
def test_every_refusal_has_a_source(name: str) -> None:
    row = refusals()[name]
    assert row.keys() <= {"code", "message", "source", "words"}
    assert len(row["source"]) > 20


def on_demand(account: Account, kind: str = TYPE, **more: Any) -> None:
    """Makes a group on demand."""
    account.create_group(launchTemplate={"id": account.template(InstanceType=kind)}, **more)


def test_without_capacity_a_group_on_demand_fails_with_ec2s_reason_in_its_health(account: Account) -> None:
    account.aws.faults(insufficient_capacity=[TYPE])
    on_demand(account)
    group = account.group()
    assert group["status"] == "CREATE_FAILED"
    [issue] = group["health"]["issues"]
    assert issue["code"] == "AsgInstanceLaunchFailures"
    assert f"We currently do not have sufficient {TYPE} capacity" in issue["message"]
    assert "us-east-1a" in account.activities()[0]


def test_a_type_that_the_zone_does_not_offer_and_a_quota_of_0_fail_likewise(account: Account) -> None:
    on_demand(account, "p6-b200.48xlarge")
    assert "is not supported in your requested Availability Zone (us-east-1a)" in account.activities()[0]
    account.aws.quotas(L_417A185B=191)
    account.create_group("second", launchTemplate={"id": account.template("second", InstanceType=TYPE)})
    assert "current vCPU limit of 191 allows" in account.activities("second")[0]


def test_when_half_of_the_nodes_join_a_group_fails_and_one_of_a_capacity_block_does_not(account: Account) -> None:
    account.aws.faults(joining=1)
    on_demand(account, size=2)
    [issue] = account.group()["health"]["issues"]
    assert issue["code"] == "NodeCreationFailure"
    assert len(issue["resourceIds"]) == 1
    block(account, "cr-8", 2)
    assert account.group("block")["status"] == "ACTIVE"


def block(account: Account, identity: str, size: int = 1, zone: str = "us-east-1a", **fields: Any) -> None:
    """Makes a group for a Capacity Block."""
    values = {"ReservationType": "capacity-block", **fields}
    account.aws.add_reservation(identity, TYPE, int(fields.pop("count", size)), zone, **values)
    template = {"id": account.block_template(identity, "block")}
    account.create_group("block", size, capacityType="CAPACITY_BLOCK", launchTemplate=template)


def moment(hours: float) -> str:
    """Returns a moment some hours from now."""
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=hours)).isoformat()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"StartDate": moment(5)}, "is not active yet"),
        ({"StartDate": moment(-30), "EndDate": moment(-1)}, "is expired"),
        ({"zone": "us-east-1b"}, "is for p5en.48xlarge in us-east-1b"),
        ({"ReservationType": "default"}, "is for p5en.48xlarge in us-east-1a, on demand"),
        ({"AvailableInstanceCount": 0}, "does not have sufficient compatible and available capacity"),
    ],
)
def test_a_capacity_block_that_does_not_fit_leaves_its_group_active_and_tells_its_activities(
    account: Account, fields: dict[str, Any], said: str
) -> None:
    if fields.get("EndDate"):
        # EKS scales the group of a block that ended to 0, so that nothing is launched at all.
        fields = {**fields, "EndDate": None, "State": "expired"}
    block(account, "cr-9", **fields)
    assert account.group("block")["status"] == "ACTIVE"
    assert said in account.activities("block")[0]


def test_a_placement_group_beside_a_reservation_leaves_the_group_without_nodes(account: Account) -> None:
    account.aws.add_reservation("cr-10", TYPE, 1, "us-east-1a", ReservationType="capacity-block")
    template = {"id": account.block_template("cr-10", Placement={"GroupName": "together"})}
    account.create_group(capacityType="CAPACITY_BLOCK", launchTemplate=template)
    assert "placement group together" in account.activities()[0]


def test_a_block_that_becomes_active_launches_and_one_that_ends_scales_to_0(account: Account) -> None:
    block(account, "cr-11", StartDate=moment(1), EndDate=moment(25))
    assert "is not active yet" in account.activities("block")[0]
    values = {"ReservationType": "capacity-block", "StartDate": moment(-1)}
    account.aws.add_reservation("cr-11", TYPE, 1, "us-east-1a", EndDate=moment(23), **values)
    assert "Launching a new EC2 instance" in account.activities("block")[0]
    account.aws.add_reservation("cr-11", TYPE, 1, "us-east-1a", EndDate=moment(0.5), **values)
    assert account.group("block")["scalingConfig"]["desiredSize"] == 0
    assert "Terminating EC2 instance" in account.activities("block")[0]


def test_pod_identity_comes_late_if_it_is_switched(account: Account) -> None:
    account.aws.faults(pod_identity_late=True)
    role = pods_role(account)
    associate(account, role)
    assert account.aws.role_of_pods(account.name, "s") is None
    account.aws.faults()
    assert account.aws.role_of_pods(account.name, "s") is not None


def test_a_group_whose_nodes_the_cluster_does_not_take_is_not_left_behind(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of the lab's own."""

    class Full(NoNodes):
        def add(self, manifest: Record) -> None:
            raise RuntimeError("the cluster takes no node")

    monkeypatch.setattr(CLUSTER, "nodes", Full())
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    eks = boto3.session.Session().client("eks", endpoint_url=account.aws.url, region_name="us-east-1", **KEYS)
    account.aws.add_reservation("cr-12", TYPE, 1, "us-east-1a", ReservationType="capacity-block")
    template = {"id": account.block_template("cr-12")}
    given = account.group_given("gpu", 1, capacityType="CAPACITY_BLOCK", launchTemplate=template)
    with pytest.raises(ClientError):
        eks.create_nodegroup(**given)
    assert account("eks", "list_nodegroups", clusterName=account.cluster)["nodegroups"] == []
    [reservation] = account("ec2", "describe_capacity_reservations", CapacityReservationIds=["cr-12"])[
        "CapacityReservations"
    ]
    assert reservation["AvailableInstanceCount"] == 1


def test_the_instances_of_a_group_have_the_tags_of_its_template_and_their_reservation(account: Account) -> None:
    account.aws.add_reservation("cr-13", TYPE, 2, "us-east-1a", ReservationType="capacity-block")
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "heavylift", "Value": account.name}]}]
    template = {"id": account.block_template("cr-13", TagSpecifications=tags)}
    account.create_group(size=2, capacityType="CAPACITY_BLOCK", launchTemplate=template)
    filters = [
        {"Name": "tag:heavylift", "Values": [account.name]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    [found] = account("ec2", "describe_instances", Filters=filters)["Reservations"]
    assert [each["CapacityReservationId"] for each in found["Instances"]] == ["cr-13", "cr-13"]
    filters[0]["Values"] = ["another stack"]
    assert account("ec2", "describe_instances", Filters=filters)["Reservations"] == []
