"""The actions that `pulumi up` takes in an AWS account, so that the caller's rights can be asked before the first.

Actions have the names of the operations but for two of S3 (docs.aws.amazon.com/service-authorization/latest/reference).
"""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import CapacityKind
from config.stack.sections import Aws, StackConfig

_ROLE = ("iam:AttachRolePolicy", "iam:CreateRole", "iam:PassRole", "iam:TagRole")

_NODES = (
    *_ROLE,
    "ec2:AuthorizeSecurityGroupEgress",
    "ec2:AuthorizeSecurityGroupIngress",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateSecurityGroup",
    "ec2:CreateTags",
    "ec2:RunInstances",
    "eks:CreateNodegroup",
    "eks:TagResource",
)
"""`RunInstances` is asked of whoever gives a launch template
(docs.aws.amazon.com/AWSEC2/latest/UserGuide/permissions-for-launch-templates.html)."""

_NETWORK = (
    "ec2:AllocateAddress",
    "ec2:AssociateRouteTable",
    "ec2:AttachInternetGateway",
    "ec2:CreateInternetGateway",
    "ec2:CreateNatGateway",
    "ec2:CreateRoute",
    "ec2:CreateRouteTable",
    "ec2:CreateSubnet",
    "ec2:CreateVpc",
    "ec2:CreateVpcEndpoint",
    "ec2:ModifySubnetAttribute",
    "ec2:ModifyVpcAttribute",
)

_CLUSTER = (
    "eks:AssociateAccessPolicy",
    "eks:CreateAccessEntry",
    "eks:CreateAddon",
    "eks:CreateCluster",
    "kms:CreateGrant",
    "kms:CreateKey",
    "kms:DescribeKey",
    "kms:EnableKeyRotation",
    "kms:TagResource",
)
"""EKS makes a grant of the key in the caller's name (docs.aws.amazon.com/eks/latest/userguide/enable-kms.html)."""

_MIRROR = ("eks:CreatePodIdentityAssociation", "iam:PutRolePolicy")

_BUCKET = (
    "s3:CreateBucket",
    "s3:PutBucketPublicAccessBlock",
    "s3:PutBucketTagging",
    "s3:PutBucketVersioning",
    "s3:PutEncryptionConfiguration",
)


def needed_actions(stack: StackConfig, place: Aws) -> list[str]:
    """Every action that the first `pulumi up` of a stack takes to make something, sorted."""
    return sorted(set(_needed(stack, place)))


def _needed(stack: StackConfig, place: Aws) -> Iterator[str]:
    nodes = stack.nodes
    yield from _NODES
    on_demand = nodes.capacity is None or nodes.capacity.kind is CapacityKind.ON_DEMAND
    if on_demand and nodes.fabric is not None and nodes.total > 1:
        yield "ec2:CreatePlacementGroup"
    if place.makes_cluster:
        yield from (*_NETWORK, *_CLUSTER)
    if place.mirror is not None:
        yield from _MIRROR
        if place.mirror.bucket is None:
            yield from _BUCKET
