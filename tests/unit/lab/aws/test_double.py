"""The provider double by kind: create, read, update, replace, delete, against the lab's servers."""

from collections.abc import Callable
from typing import Any

import pytest

from lab.aws.double.kind import fields_of
from lab.aws.double.kinds import KINDS
from lab.aws.double.wire import UNKNOWN, Properties
from tests.unit.lab.aws.account import TYPE, Account, trust
from tests.unit.lab.aws.engine import FakeEngine, RefusedError
from tests.unit.lab.aws.test_refusals import pods_role

Given = Callable[[Account], Properties]


@pytest.fixture
def engine(account: Account, monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    """An engine whose provider has default tags."""
    for name, value in account.aws.settings.items():
        monkeypatch.setenv(name, value)
    return FakeEngine(tags={"stack": "test"})


def route_table(account: Account) -> str:
    """Makes a route table."""
    return str(account("ec2", "create_route_table", VpcId=account.vpc)["RouteTable"]["RouteTableId"])


def security_group(account: Account) -> str:
    """Makes a security group."""
    made = account("ec2", "create_security_group", GroupName=account.name, Description="d", VpcId=account.vpc)
    return str(made["GroupId"])


def rule(account: Account) -> Properties:
    """Returns a rule for all traffic within a security group."""
    group = security_group(account)
    return {"securityGroupId": group, "referencedSecurityGroupId": group, "ipProtocol": "-1"}


def bucket(account: Account) -> str:
    """Makes a bucket."""
    account("s3", "create_bucket", Bucket=account.name)
    return account.name


def gateway_vpc(account: Account) -> Properties:
    """Returns the arguments of an internet gateway."""
    return {"vpcId": account.vpc}


def nat(account: Account) -> Properties:
    """Returns the arguments of a NAT gateway."""
    address = account("ec2", "allocate_address", Domain="vpc")["AllocationId"]
    return {"allocationId": address, "subnetId": account.subnets[0]}


def group(account: Account) -> Properties:
    """Returns the arguments of a node group."""
    return {
        "clusterName": account.cluster,
        "nodeRoleArn": account.node_role,
        "subnetIds": account.subnets[:1],
        "launchTemplate": {"id": account.template(InstanceType=TYPE), "version": "1"},
        "scalingConfig": {"minSize": 0, "maxSize": 1, "desiredSize": 1},
        "labels": {"a": "b"},
        "taints": [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
    }


def cluster(account: Account) -> Properties:
    """Returns the arguments of a cluster."""
    return {
        "roleArn": account.cluster_role,
        "version": "1.34",
        "vpcConfig": {"subnetIds": account.subnets, "endpointPublicAccess": True, "endpointPrivateAccess": True},
        "accessConfig": {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True},
    }


POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"*"}]}'
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
GIVEN: dict[str, tuple[Given, Properties, Properties]] = {
    "aws:ec2/vpc:Vpc": (
        lambda _: {"cidrBlock": "10.1.0.0/16", "enableDnsSupport": True},
        {"enableDnsHostnames": True},
        {"cidrBlock": "10.2.0.0/16"},
    ),
    "aws:ec2/subnet:Subnet": (
        lambda account: {"vpcId": account.vpc, "cidrBlock": "10.0.128.0/20", "availabilityZoneId": "use1-az1"},
        {"tags": {"a": "b"}},
        {"availabilityZoneId": "use1-az2"},
    ),
    "aws:ec2/internetGateway:InternetGateway": (gateway_vpc, {"tags": {"a": "b"}}, {}),
    "aws:ec2/eip:Eip": (lambda _: {"domain": "vpc"}, {"tags": {"a": "b"}}, {"domain": "standard"}),
    "aws:ec2/natGateway:NatGateway": (nat, {"tags": {"a": "b"}}, {"subnetId": "subnet-1"}),
    "aws:ec2/routeTable:RouteTable": (
        lambda account: {"vpcId": account.vpc},
        {"routes": []},
        {"vpcId": "vpc-1"},
    ),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": (
        lambda account: {"routeTableId": route_table(account), "subnetId": account.subnets[0]},
        {},
        {"subnetId": "subnet-1"},
    ),
    "aws:ec2/vpcEndpoint:VpcEndpoint": (
        lambda account: {
            "vpcId": account.vpc,
            "serviceName": "com.amazonaws.us-east-1.s3",
            "vpcEndpointType": "Gateway",
            "routeTableIds": [route_table(account)],
        },
        {"tags": {"a": "b"}},
        {"serviceName": "com.amazonaws.us-east-1.dynamodb"},
    ),
    "aws:ec2/securityGroup:SecurityGroup": (
        lambda account: {"vpcId": account.vpc, "description": "d"},
        {"tags": {"a": "b"}},
        {"description": "other"},
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": (
        rule,
        {"tags": {"a": "b"}},
        {"securityGroupId": "sg"},
    ),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": (rule, {"tags": {"a": "b"}}, {"securityGroupId": "sg"}),
    "aws:ec2/placementGroup:PlacementGroup": (lambda _: {"strategy": "cluster"}, {}, {"strategy": "spread"}),
    "aws:ec2/launchTemplate:LaunchTemplate": (
        lambda _: {"instanceType": TYPE, "metadataOptions": {"httpTokens": "required"}},
        {"instanceType": "p5.48xlarge", "updateDefaultVersion": True},
        {"name": "other"},
    ),
    "aws:iam/role:Role": (
        lambda _: {"assumeRolePolicy": trust("ec2.amazonaws.com")},
        {"assumeRolePolicy": trust("eks.amazonaws.com")},
        {"name": "other"},
    ),
    "aws:iam/rolePolicy:RolePolicy": (
        lambda account: {
            "role": account.node_role.rpartition("/")[2],
            "policy": POLICY,
        },
        {"policy": '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}'},
        {"role": "other"},
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": (
        lambda account: {
            "role": account.node_role.rpartition("/")[2],
            "policyArn": "arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy",
        },
        {},
        {"policyArn": "arn:aws:iam::aws:policy/AmazonEKS_CNI_Policy"},
    ),
    "aws:kms/key:Key": (
        lambda _: {"description": "d", "deletionWindowInDays": 7},
        {"enableKeyRotation": True},
        {"keyUsage": "SIGN_VERIFY"},
    ),
    "aws:s3/bucket:Bucket": (lambda _: {}, {"tags": {"a": "b"}}, {"bucket": "other"}),
    "aws:s3/bucketVersioning:BucketVersioning": (
        lambda account: {"bucket": bucket(account), "versioningConfiguration": {"status": "Enabled"}},
        {"versioningConfiguration": {"status": "Suspended"}},
        {"bucket": "other"},
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": (
        lambda account: {"bucket": bucket(account), "blockPublicAcls": True},
        {"blockPublicPolicy": True},
        {"bucket": "other"},
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": (
        lambda account: {
            "bucket": bucket(account),
            "rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "AES256"}}],
        },
        {"rules": [{"applyServerSideEncryptionByDefault": {"sseAlgorithm": "aws:kms"}}]},
        {"bucket": "other"},
    ),
    "aws:eks/cluster:Cluster": (cluster, {"version": "1.35"}, {"roleArn": "arn:aws:iam::123456789012:role/other"}),
    "aws:eks/nodeGroup:NodeGroup": (
        group,
        {"scalingConfig": {"minSize": 0, "maxSize": 2, "desiredSize": 2}},
        {"subnetIds": ["subnet-1"]},
    ),
    "aws:eks/addon:Addon": (
        lambda account: {"clusterName": account.cluster, "addonName": "vpc-cni"},
        {"configurationValues": '{"enableNetworkPolicy":"true"}'},
        {"addonName": "coredns"},
    ),
    "aws:eks/accessEntry:AccessEntry": (
        lambda account: {"clusterName": account.cluster, "principalArn": account.node_role, "type": "STANDARD"},
        {"kubernetesGroups": ["viewers"]},
        {"principalArn": "arn:aws:iam::123456789012:role/other"},
    ),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": (
        lambda account: {
            "clusterName": account.cluster,
            "principalArn": account("sts", "get_caller_identity")["Arn"],
            "policyArn": ADMIN,
            "accessScope": {"type": "cluster"},
        },
        {},
        {"accessScope": {"type": "namespace", "namespaces": ["n"]}},
    ),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": (
        lambda account: {
            "clusterName": account.cluster,
            "namespace": "n",
            "serviceAccount": "s",
            "roleArn": pods_role(account),
        },
        {"tags": {"a": "b"}},
        {"serviceAccount": "other"},
    ),
}
"""By kind: arguments, a change in place (empty: none is possible or known), and a change that replaces."""


def test_every_kind_is_in_all_three_tables() -> None:
    assert KINDS.keys() == fields_of().keys() == GIVEN.keys()


@pytest.mark.parametrize("token", sorted(GIVEN))
def test_a_resource_is_made_read_changed_and_deleted(engine: FakeEngine, account: Account, token: str) -> None:
    given, change, replacing = GIVEN[token]
    made = engine.create(token, account.name, given(account))
    assert made.identity
    assert UNKNOWN not in str(made.outputs)
    read = engine.read(made)
    assert read is not None
    assert read.inputs == made.inputs, "nothing drifted"
    assert engine.diff(made, made.inputs) == ([], [])
    if change:
        wanted = engine.check(token, account.name, {**made.inputs, **change}, made.inputs)
        assert engine.diff(made, wanted) == (
            sorted(name for name in change if made.inputs.get(name) != change[name]),
            [],
        )
        made = engine.update(made, wanted)
        again = engine.read(made)
        assert again is not None
        assert again.inputs == wanted
    if replacing:
        assert engine.diff(made, {**made.inputs, **replacing})[1] == sorted(replacing)
    engine.delete(made)
    if token != "aws:s3/bucketVersioning:BucketVersioning":  # S3 has no call that removes it
        assert engine.read(made) is None
    engine.delete(made)


def test_a_template_of_another_id_replaces_a_node_group_and_another_version_does_not(
    engine: FakeEngine, account: Account
) -> None:
    made = engine.create("aws:eks/nodeGroup:NodeGroup", account.name, group(account))
    template = made.inputs["launchTemplate"]
    other_version = {**made.inputs, "launchTemplate": {**template, "version": "2"}}
    assert engine.diff(made, other_version) == (["launchTemplate"], [])
    other = {**made.inputs, "launchTemplate": {**template, "id": "lt-1"}}
    assert engine.diff(made, other) == (["launchTemplate"], ["launchTemplate.id"])


def test_what_changed_in_aws_shows_in_the_arguments_of_a_refresh(engine: FakeEngine, account: Account) -> None:
    made = engine.create("aws:eks/nodeGroup:NodeGroup", account.name, group(account))
    cluster_name, _, name = made.identity.partition(":")
    account(
        "eks", "update_nodegroup_config", clusterName=cluster_name, nodegroupName=name, scalingConfig={"desiredSize": 0}
    )
    read = engine.read(made)
    assert read is not None
    assert read.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 1, "desiredSize": 0}


def test_a_preview_knows_what_the_program_gives_and_no_more(engine: FakeEngine, account: Account) -> None:
    outputs = engine.preview("aws:eks/cluster:Cluster", {**cluster(account), "name": "c"})
    assert outputs["vpcConfig"]["subnetIds"] == account.subnets
    assert outputs["vpcConfig"]["clusterSecurityGroupId"] == UNKNOWN
    assert outputs["endpoint"] == UNKNOWN


def test_what_the_double_does_not_know_is_refused_by_name(engine: FakeEngine) -> None:
    with pytest.raises(RefusedError, match="has no resource aws:fsx/lustreFileSystem:LustreFileSystem"):
        engine.check("aws:fsx/lustreFileSystem:LustreFileSystem", "x", {})
    with pytest.raises(RefusedError, match="has no argument ipv6CidrBlock of aws:ec2/vpc:Vpc"):
        engine.check("aws:ec2/vpc:Vpc", "x", {"ipv6CidrBlock": "fd00::/56"})
    with pytest.raises(RefusedError, match="has no function aws:ec2/getAmi:getAmi"):
        engine.invoke("aws:ec2/getAmi:getAmi", {})


def test_botocore_checks_every_parameter(engine: FakeEngine) -> None:
    with pytest.raises(RefusedError, match="Invalid type for parameter"):
        engine.create("aws:ec2/vpc:Vpc", "x", {"cidrBlock": {"no": "text"}})


def test_functions_find_a_cluster_and_its_subnets(engine: FakeEngine, account: Account) -> None:
    found = engine.invoke("aws:eks/getCluster:getCluster", {"name": account.cluster})
    assert sorted(found["vpcConfig"]["subnetIds"]) == sorted(account.subnets)
    filters = [
        {"name": "subnet-id", "values": account.subnets},
        {"name": "availability-zone", "values": ["us-east-1b"]},
    ]
    assert engine.invoke("aws:ec2/getSubnets:getSubnets", {"filters": filters})["ids"] == [account.subnets[1]]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (("AWS_REGION",), "region is not set"),
        (("AWS_ENDPOINT_URL",), "AWS_ENDPOINT_URL names no server of a lab"),
        (("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "No valid credential sources found"),
    ],
)
def test_without_region_credentials_or_lab_it_refuses_to_be_configured(
    engine: FakeEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, missing: tuple[str, ...], message: str
) -> None:
    assert engine
    for name in (*missing, "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    with pytest.raises(RefusedError, match=message):
        FakeEngine(region="" if "AWS_REGION" in missing else "us-east-1")


def test_it_never_reaches_aws_itself(engine: FakeEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert engine
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://sts.us-east-1.amazonaws.com")
    with pytest.raises(RefusedError, match="names no server of a lab"):
        FakeEngine()
