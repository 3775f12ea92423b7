"""The table of kinds, and the functions that only read."""

from collections.abc import Callable

from lab.aws.double import eks, eks_access, identity, instances, network, routes, storage
from lab.aws.double.kind import Api, Kind
from lab.aws.double.wire import Properties

KINDS: dict[str, Kind] = {
    "aws:ec2/vpc:Vpc": network.Vpc(),
    "aws:ec2/subnet:Subnet": network.Subnet(),
    "aws:ec2/internetGateway:InternetGateway": network.InternetGateway(),
    "aws:ec2/eip:Eip": network.Eip(),
    "aws:ec2/natGateway:NatGateway": network.NatGateway(),
    "aws:ec2/routeTable:RouteTable": routes.RouteTable(),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": routes.RouteTableAssociation(),
    "aws:ec2/vpcEndpoint:VpcEndpoint": network.VpcEndpoint(),
    "aws:ec2/securityGroup:SecurityGroup": instances.SecurityGroup(),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": instances.SecurityGroupRule("ingress"),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": instances.SecurityGroupRule("egress"),
    "aws:ec2/placementGroup:PlacementGroup": instances.PlacementGroup(),
    "aws:ec2/launchTemplate:LaunchTemplate": instances.LaunchTemplate(),
    "aws:iam/role:Role": identity.Role(),
    "aws:iam/rolePolicy:RolePolicy": identity.RolePolicy(),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": identity.RolePolicyAttachment(),
    "aws:kms/key:Key": storage.Key(),
    "aws:s3/bucket:Bucket": storage.Bucket(),
    "aws:s3/bucketVersioning:BucketVersioning": storage.BucketSetting(
        "versioningConfiguration", "VersioningConfiguration", "put_bucket_versioning", "get_bucket_versioning", None
    ),
    "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock": storage.BucketSetting(
        None,
        "PublicAccessBlockConfiguration",
        "put_public_access_block",
        "get_public_access_block",
        "delete_public_access_block",
    ),
    "aws:s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration": storage.BucketSetting(
        "rules",
        "ServerSideEncryptionConfiguration",
        "put_bucket_encryption",
        "get_bucket_encryption",
        "delete_bucket_encryption",
    ),
    "aws:eks/cluster:Cluster": eks.Cluster(),
    "aws:eks/nodeGroup:NodeGroup": eks.NodeGroup(),
    "aws:eks/addon:Addon": eks.Addon(),
    "aws:eks/accessEntry:AccessEntry": eks_access.AccessEntry(),
    "aws:eks/accessPolicyAssociation:AccessPolicyAssociation": eks_access.AccessPolicyAssociation(),
    "aws:eks/podIdentityAssociation:PodIdentityAssociation": eks_access.PodIdentityAssociation(),
}


def get_cluster(api: Api, given: Properties) -> Properties:
    """Looks up a cluster."""
    cluster = api("eks").describe_cluster(name=given["name"])["cluster"]
    network_names = ("subnetIds", "securityGroupIds", "clusterSecurityGroupId", "vpcId", "publicAccessCidrs")
    return {
        **{name: cluster[name] for name in ("name", "arn", "endpoint", "roleArn", "version", "status", "tags")},
        "id": cluster["name"],
        "certificateAuthorities": [cluster["certificateAuthority"]],
        "vpcConfig": {name: cluster["resourcesVpcConfig"][name] for name in network_names},
    }


def get_subnets(api: Api, given: Properties) -> Properties:
    """Looks up subnets by filters."""
    filters = [{"Name": each["name"], "Values": each["values"]} for each in given.get("filters", ())]
    found = api("ec2").describe_subnets(Filters=filters)["Subnets"]
    return {"id": "subnets", "ids": sorted(each["SubnetId"] for each in found)}


FUNCTIONS: dict[str, Callable[[Api, Properties], Properties]] = {
    "aws:eks/getCluster:getCluster": get_cluster,
    "aws:ec2/getSubnets:getSubnets": get_subnets,
}
