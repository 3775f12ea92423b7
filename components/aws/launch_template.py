"""The text of a GPU node's launch template: user data for nodeadm, and the parts that follow from the instance type."""

import base64

import pulumi
import pulumi_aws as aws

from config.catalogue import CapacityKind, Instance
from config.stack.sections import Capacity

ROOT_GIB = 100
"""Root disk: the operating system only, since nodeadm moves images, logs and the kubelet's files to the NVMe array."""

_NODE_CONFIG = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
  containerd:
    baseRuntimeSpec:
      process:
        rlimits:
          - {type: RLIMIT_NOFILE, soft: 65536, hard: 1048576}
          - {type: RLIMIT_MEMLOCK, soft: 4398046511104, hard: 4398046511104}
"""
# The list replaces nodeadm's own, so RLIMIT_NOFILE is repeated. nodeadm reads numbers as floats and writes the largest
# one so that containerd cannot parse it (awslabs/amazon-eks-ami, nodeadm/internal/util/merge.go): 4 TiB stands for it.


def user_data() -> str:
    """NodeConfig as MIME multi-part in base64; EKS adds its own part.

    It makes one array of all NVMe disks, and lets processes lock memory, as RDMA needs.
    """
    lines = [
        "MIME-Version: 1.0",
        'Content-Type: multipart/mixed; boundary="//"',
        "",
        "--//",
        "Content-Type: application/node.eks.aws",
        "",
        _NODE_CONFIG,
        "--//--",
    ]
    return base64.b64encode("\n".join(lines).encode()).decode()


def network_interfaces(
    instance: Instance, security_group: pulumi.Input[str], fabric_group: pulumi.Input[str] | None
) -> list[aws.ec2.LaunchTemplateNetworkInterfaceArgsDict]:
    """The network interfaces. `fabric_group`: security group of the EFA interfaces; None: none of these.

    With interfaces in the template, EKS does not add its own security group, so the primary one names it.
    """
    return [
        {
            "network_card_index": interface.card,
            "device_index": interface.device,
            "interface_type": str(interface.type),
            "delete_on_termination": "true",
            "security_groups": [fabric_group if interface.type == "efa-only" and fabric_group else security_group],
        }
        for interface in instance.network_interfaces(efa=fabric_group is not None)
    ]


def reservation(capacity: Capacity) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgsDict | None:
    """The reservation that instances come from, and nothing else: they never fall back to paid on-demand instances."""
    if capacity.id is None:
        return None
    return {
        "capacity_reservation_preference": "capacity-reservations-only",
        "capacity_reservation_target": {"capacity_reservation_id": capacity.id},
    }


def market(capacity: Capacity) -> aws.ec2.LaunchTemplateInstanceMarketOptionsArgsDict | None:
    """The market of a Capacity Block, which EKS requires in the template."""
    return {"market_type": "capacity-block"} if capacity.kind is CapacityKind.CAPACITY_BLOCK else None
