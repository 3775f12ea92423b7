"""GPU nodes of an EKS cluster: one managed node group for each reservation, or one on demand.

Yields the same `Placement` as nodes on bare metal, by count and label: AWS names the nodes, and replaces them.
"""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import boto3
import pulumi
import pulumi_aws as aws

from components.arguments import Placement, read_section, whole_numbers
from components.aws import launch_template
from components.aws.roles import NODE_POLICIES, role
from components.aws.stack_tag import STACK_TAG
from components.pods.names import object_name, stack_name
from components.rollout import launch_watch
from components.rollout.launch_watch import LaunchedGroup
from config.catalogue import CapacityKind, described_gpu, find_instance
from config.stack import arguments
from config.stack.sections import Capacity, FabricKind, TaintEffect
from config.stack.sections.eks_nodes import EFA_RESOURCE, NVME_PATH, TAINT_VALUE

GROUP_LABEL = "nodes.heavylift/group"
"""Label of the nodes of one group."""


class EksGpuNodesArgs(TypedDict):
    """The arguments of `EksGpuNodes`."""

    cluster_name: pulumi.Input[str]
    """Name of the EKS cluster."""
    vpc_id: pulumi.Input[str]
    """ID of the VPC."""
    subnet_id: pulumi.Input[str]
    """ID of a private subnet, in the zone of the reservation. EFA does not reach beyond one subnet."""
    security_group_id: pulumi.Input[str]
    """ID of the cluster's own security group."""
    instance_type: str
    """EC2 instance type, such as `p5en.48xlarge`."""
    count: int
    """Number of nodes."""
    capacity: NotRequired[arguments.Capacity]
    """How the instances are bought. Unset: on demand."""
    efa: NotRequired[bool]
    """Give each node its EFA interfaces. Unset: false; a server on one node needs none."""
    placement_group: NotRequired[str | None]
    """Name of the placement group of the reservation. Unset: none; instances on demand with EFA get one."""
    region: NotRequired[str]
    """Region, such as `us-east-2`. With it, `launched` waits for the instances, and fails with EC2's reason if they do
    not launch. Unset: it does not wait, and a Capacity Block's group is ready without instances."""


def group_name(name: str, capacity: Capacity | None) -> str:
    """Returns the resource name of a node group: another for each reservation, so that groups stand beside each "
    "other."""
    return f"{name}-{(capacity and capacity.id) or 'on-demand'}"


class EksGpuNodes(pulumi.ComponentResource):
    """GPU nodes of an EKS cluster."""

    node_group: pulumi.Output[str]
    """Name of the node group."""
    autoscaling_group: pulumi.Output[str]
    """Name of the Auto Scaling group, whose activities say why an instance was not launched."""

    def __init__(self, name: str, args: EksGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:EksGpuNodes", name, {}, opts)
        self._name, self._args = name, whole_numbers(args)
        self._capacity = read_section(Capacity, "capacity", dict(self._args.get("capacity") or {}))
        self._instance = find_instance(args["instance_type"])
        self._resource = described_gpu(self._instance.gpu).vendor.resource
        self._key = group_name(name, self._capacity)
        self._fabric = self._fabric_group() if args.get("efa") else None
        group = self._group(self._template())
        self.node_group = group.node_group_name
        self.autoscaling_group = group.resources[0].autoscaling_groups[0].name
        self.placement = self._placement()
        self._launched = self._awaited(group)
        self.register_outputs({"node_group": self.node_group, "autoscaling_group": self.autoscaling_group})

    @property
    def labels(self) -> dict[str, str]:
        """The label of this group's nodes. Those of the next reservation have another value."""
        return {GROUP_LABEL: object_name(self._key)}

    @property
    def launched(self) -> pulumi.Output[pulumi.Resource]:
        """This component, once its instances run. Resources that need the nodes depend on it."""
        return self._launched

    def _awaited(self, group: aws.eks.NodeGroup) -> pulumi.Output[pulumi.Resource]:
        async def awaited(names: Sequence[str]) -> pulumi.Resource:
            if "region" in self._args and not pulumi.runtime.is_dry_run():
                cluster, name, scaling_group = names
                launched = LaunchedGroup(cluster, name, scaling_group, self._args["count"])
                session = boto3.session.Session()
                await launch_watch.wait_until_launched(session, self._args["region"], launched, self._say)
            return self

        return pulumi.Output.all(group.cluster_name, self.node_group, self.autoscaling_group).apply(awaited)

    def _say(self, words: str, fleeting: bool) -> None:
        pulumi.info(words, self, ephemeral=fleeting)

    def _placement(self) -> Placement:
        placement: Placement = {
            "nodes": self._args["count"],
            "node_selector": self.labels,
            "taints": [{"key": self._resource, "value": TAINT_VALUE, "effect": TaintEffect.NO_SCHEDULE}],
            "gpu_resource": self._resource,
            "nvme_path": NVME_PATH,
        }
        if self._fabric is not None:
            placement["fabric"] = {
                "kind": FabricKind.EFA,
                "resource": EFA_RESOURCE,
                "count": self._instance.efa_interfaces,
            }
        return placement

    def _fabric_group(self) -> pulumi.Output[str]:
        """Makes the security group of the EFA interfaces: all traffic among them, in and out."""
        name = f"{self._name}-efa"
        own = pulumi.ResourceOptions(parent=self)
        group = aws.ec2.SecurityGroup(
            name, vpc_id=self._args["vpc_id"], description="EFA traffic among GPU nodes", opts=own
        ).id
        for way, rule in (("in", aws.vpc.SecurityGroupIngressRule), ("out", aws.vpc.SecurityGroupEgressRule)):
            rule(
                f"{name}-{way}",
                security_group_id=group,
                referenced_security_group_id=group,
                ip_protocol="-1",
                opts=own,
            )
        return group

    def _placement_group(self) -> pulumi.Input[str] | None:
        """The placement group: the reservation's own, or for EFA on demand a new one. Any other with a reservation
        leaves instances without capacity (github.com/eksctl-io/eksctl/issues/7949)."""
        if self._capacity.kind is not CapacityKind.ON_DEMAND or self._fabric is None:
            return self._args.get("placement_group")
        return aws.ec2.PlacementGroup(self._key, strategy="cluster", opts=pulumi.ResourceOptions(parent=self)).name

    def _template(self) -> aws.ec2.LaunchTemplate:
        together = self._placement_group()
        return aws.ec2.LaunchTemplate(
            self._key,
            instance_type=self._instance.type,
            network_interfaces=launch_template.network_interfaces(
                self._instance, self._args["security_group_id"], self._fabric
            ),
            placement=None if together is None else {"group_name": together},
            capacity_reservation_specification=launch_template.reservation(self._capacity),
            instance_market_options=launch_template.market(self._capacity),
            user_data=launch_template.user_data(),
            metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
            block_device_mappings=[
                {
                    "device_name": "/dev/xvda",
                    "ebs": {"volume_size": launch_template.ROOT_GIB, "volume_type": "gp3", "encrypted": "true"},
                }
            ],
            tag_specifications=[
                {"resource_type": "instance", "tags": {"Name": object_name(self._name), STACK_TAG: stack_name()}}
            ],
            update_default_version=True,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _group(self, template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroup:
        """Makes the node group. EKS scales that of a Capacity Block to 0 before the block ends, so the desired size is
        not the program's; the version of the template is a number, as an alias would differ in every preview."""
        made, attached = role(self._key, "ec2.amazonaws.com", NODE_POLICIES, self)
        is_block = self._capacity.kind is CapacityKind.CAPACITY_BLOCK
        count = self._args["count"]
        return aws.eks.NodeGroup(
            self._key,
            cluster_name=self._args["cluster_name"],
            node_role_arn=made.arn,
            subnet_ids=[self._args["subnet_id"]],
            capacity_type="CAPACITY_BLOCK" if is_block else "ON_DEMAND",
            ami_type="AL2023_x86_64_NVIDIA",
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            scaling_config={"min_size": 0, "max_size": count, "desired_size": count},
            update_config={"max_unavailable": 1, "update_strategy": "MINIMAL"},
            node_repair_config={"enabled": True},
            labels=self.labels,
            taints=[{"key": self._resource, "value": TAINT_VALUE, "effect": "NO_SCHEDULE"}],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=attached,
                ignore_changes=["scalingConfig.desiredSize"],
                custom_timeouts=pulumi.CustomTimeouts(create="60m", update="90m", delete="60m"),
            ),
        )
