"""An account in the lab's AWS, with what a node group needs: a network, a cluster and roles."""

import json
from functools import cached_property
from typing import Any

from lab.aws.client import LabAWS

ZONES = ("us-east-1a", "us-east-1b")
TYPE = "p5en.48xlarge"
POLICY = "arn:aws:iam::aws:policy/AmazonEKSClusterPolicy"


def trust(service: str, *actions: str) -> str:
    """Returns a trust policy for a service."""
    statement = {"Effect": "Allow", "Principal": {"Service": service}, "Action": actions or ("sts:AssumeRole",)}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


class Account:
    """Makes things by boto3. `name` keeps two accounts on one server apart."""

    def __init__(self, aws: LabAWS, name: str) -> None:
        self.aws, self.name = aws, name

    def __call__(self, service: str, operation: str, **parameters: Any) -> Any:
        """Calls an operation of a service."""
        return getattr(self.aws.api(service), operation)(**parameters)

    @cached_property
    def vpc(self) -> str:
        """A VPC."""
        return str(self("ec2", "create_vpc", CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"])

    @cached_property
    def subnets(self) -> list[str]:
        """Two subnets in two zones."""
        made = [
            self("ec2", "create_subnet", VpcId=self.vpc, CidrBlock=f"10.0.{16 * n}.0/20", AvailabilityZone=zone)
            for n, zone in enumerate(ZONES)
        ]
        return [str(each["Subnet"]["SubnetId"]) for each in made]

    def role(self, part: str, service: str, *actions: str) -> str:
        """Makes a role for a service and returns its ARN."""
        document = trust(service, *actions)
        made = self("iam", "create_role", RoleName=f"{self.name}-{part}", AssumeRolePolicyDocument=document)
        return str(made["Role"]["Arn"])

    @cached_property
    def cluster_role(self) -> str:
        """The role of a cluster."""
        made = self.role("cluster", "eks.amazonaws.com")
        self("iam", "attach_role_policy", RoleName=f"{self.name}-cluster", PolicyArn=POLICY)
        return made

    @cached_property
    def node_role(self) -> str:
        """The role of nodes."""
        return self.role("node", "ec2.amazonaws.com")

    def create_cluster(self, **more: Any) -> Any:
        """Makes a cluster."""
        given = {
            "name": self.name,
            "roleArn": self.cluster_role,
            "resourcesVpcConfig": {"subnetIds": self.subnets},
            "accessConfig": {"authenticationMode": "API"},
            **more,
        }
        return self("eks", "create_cluster", **given)

    @cached_property
    def cluster(self) -> str:
        """A cluster."""
        self.create_cluster()
        return self.name

    def template(self, part: str = "gpu", **data: Any) -> str:
        """Makes a launch template and returns its id."""
        made = self("ec2", "create_launch_template", LaunchTemplateName=f"{self.name}-{part}", LaunchTemplateData=data)
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def block_template(self, reservation: str, part: str = "gpu", **more: Any) -> str:
        """Makes the template of a Capacity Block."""
        target = {"CapacityReservationTarget": {"CapacityReservationId": reservation}}
        market = {"MarketType": "capacity-block"}
        data = {"InstanceType": TYPE, "CapacityReservationSpecification": target, "InstanceMarketOptions": market}
        return self.template(part, **data, **more)

    def create_group(self, name: str = "gpu", size: int = 1, **more: Any) -> Any:
        """Makes a node group in the first subnet."""
        return self("eks", "create_nodegroup", **self.group_given(name, size, **more))

    def group_given(self, name: str, size: int, **more: Any) -> dict[str, Any]:
        """Returns the parameters of such a group."""
        return {
            "clusterName": self.cluster,
            "nodegroupName": name,
            "subnets": self.subnets[:1],
            "nodeRole": self.node_role,
            "scalingConfig": {"minSize": 0, "maxSize": size, "desiredSize": size},
            **more,
        }

    def group(self, name: str = "gpu") -> Any:
        """Describes a node group."""
        return self("eks", "describe_nodegroup", clusterName=self.cluster, nodegroupName=name)["nodegroup"]

    def activities(self, name: str = "gpu") -> list[str]:
        """Returns the messages of a group's scaling activities, newest first."""
        asked = self.group(name)["resources"]["autoScalingGroups"][0]["name"]
        found = self("autoscaling", "describe_scaling_activities", AutoScalingGroupName=asked)
        return [each["StatusMessage"] for each in found["Activities"]]
