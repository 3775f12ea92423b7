"""IAM roles that a service of AWS assumes."""

import json
from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

PODS = "pods.eks.amazonaws.com"
"""Pod Identity, which also tags the session with the pod's namespace and service account."""

NODE_POLICIES = ("AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryPullOnly")
"""What a node may do: join, give its pods addresses, pull images (docs.aws.amazon.com/eks, create-node-role)."""


def role(
    name: str, service: str, policies: Sequence[str], parent: pulumi.Resource
) -> tuple[aws.iam.Role, list[pulumi.Resource]]:
    """Makes the role `name` for a service. Returns it, and the attachments of AWS' policies that its user waits for."""
    actions = ["sts:AssumeRole", "sts:TagSession"] if service == PODS else ["sts:AssumeRole"]
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions}
    made = aws.iam.Role(
        name,
        assume_role_policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    attached: list[pulumi.Resource] = [
        aws.iam.RolePolicyAttachment(
            f"{name}-{policy}",
            role=made.name,
            policy_arn=f"arn:aws:iam::aws:policy/{policy}",
            opts=pulumi.ResourceOptions(parent=parent),
        )
        for policy in policies
    ]
    return made, attached
