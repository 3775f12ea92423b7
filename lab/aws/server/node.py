"""The Kubernetes node that an instance of a node group becomes, as the kubelet on the EKS AMI registers it."""

from dataclasses import dataclass

from lab.aws.server.ec2.hardware import EFA_TYPES, Hardware
from lab.aws.server.ec2.reservations import zone_id
from lab.aws.server.store import NodeGroup, Record
from lab.cluster.simulated import KWOK

EFA = "vpc.amazonaws.com/efa"
GPU = "nvidia.com/gpu"
PROMISED = "heavylift.lab/devices-of-"
"""Prefix of annotations: how many devices the instance has. They become resources of the node when the pod of a device
plugin runs on it. `_` stands for `/`, which such a name cannot have."""
EFFECTS = {"NO_SCHEDULE": "NoSchedule", "NO_EXECUTE": "NoExecute", "PREFER_NO_SCHEDULE": "PreferNoSchedule"}
HUGE_PAGES_PER_CPU = 110
"""2 MiB pages that the EFA installer reserves for each vCPU, and one more: 42,242 MiB on a p5.48xlarge and 21,122 MiB
on a p4de.24xlarge (READMEs of github.com/awslabs/awsome-distributed-ai)."""
EVICTION_SHARE = 0.1
"""Share of the file system at which the kubelet evicts pods: 8 x 3800 GB give 27.36 TB (the same READMEs)."""
ROOT_GIB = 20
"""Size of the root volume if the template says nothing (github.com/awsdocs/amazon-eks-user-guide, launch-templates)."""


@dataclass(frozen=True)
class Instance:
    """A running instance."""

    identity: str
    address: str
    zone: str

    def name(self, region: str) -> str:
        """Its private DNS name, which is the name of its node."""
        domain = "ec2.internal" if region == "us-east-1" else f"{region}.compute.internal"
        return f"ip-{self.address.replace('.', '-')}.{domain}"


def node_manifest(group: NodeGroup, instance: Instance, region: str) -> Record:
    """Returns the Node object. Its GPUs and EFA interfaces are promised in annotations."""
    name = instance.name(region)
    capacity = resources(group)
    allocatable = {**capacity, "ephemeral-storage": str(int(int(capacity["ephemeral-storage"]) * (1 - EVICTION_SHARE)))}
    promised = {PROMISED + resource.replace("/", "_"): str(count) for resource, count in devices(group).items()}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": labels(group, instance, region),
            "annotations": {KWOK: "fake", **promised},
        },
        "spec": {"providerID": f"aws:///{instance.zone}/{instance.identity}", "taints": taints(group)},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }


def labels(group: NodeGroup, instance: Instance, region: str) -> dict[str, str]:
    """Returns the labels of the kubelet, the cloud provider, EKS and the group."""
    found = {
        "kubernetes.io/hostname": instance.name(region),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": group.instance_type,
        "topology.kubernetes.io/region": region,
        "topology.kubernetes.io/zone": instance.zone,
        "topology.k8s.aws/zone-id": zone_id(instance.zone),
        "eks.amazonaws.com/nodegroup": group.record["nodegroupName"],
        "eks.amazonaws.com/capacityType": group.record["capacityType"],
        "type": "kwok",
    }
    if template := group.record.get("launchTemplate"):
        found |= {
            "eks.amazonaws.com/sourceLaunchTemplateId": template["id"],
            "eks.amazonaws.com/sourceLaunchTemplateVersion": template["version"],
        }
    return {**found, **group.record["labels"]}


def taints(group: NodeGroup) -> list[Record]:
    """Returns the group's taints with the effects' names in Kubernetes."""
    return [{**taint, "effect": EFFECTS[taint["effect"]]} for taint in group.record["taints"]]


def devices(group: NodeGroup) -> dict[str, int]:
    """Returns the devices that plugins find: GPUs, and the EFA interfaces of the template."""
    interfaces = group.template.get("NetworkInterfaces", ())
    efa = sum(interface.get("InterfaceType") in EFA_TYPES for interface in interfaces)
    found = {GPU: Hardware.of(group.instance_type).gpus, EFA: efa}
    return {resource: count for resource, count in found.items() if count}


def resources(group: NodeGroup) -> dict[str, str]:
    """Returns the capacity that the kubelet finds by itself."""
    hardware = Hardware.of(group.instance_type)
    huge_mib = 2 * (HUGE_PAGES_PER_CPU * hardware.cpus + 1) if EFA in devices(group) else 0
    return {
        "cpu": str(hardware.cpus),
        "memory": f"{hardware.memory_mib}Mi",
        "pods": str(hardware.pods),
        "hugepages-2Mi": f"{huge_mib}Mi",
        "ephemeral-storage": str(file_system_bytes(group, hardware)),
    }


def file_system_bytes(group: NodeGroup, hardware: Hardware) -> int:
    """Returns the size of the kubelet's file system: the array of instance store volumes, or the root volume."""
    # moto keeps it as an object that decodes itself.
    encoded = group.template.get("UserData")
    user_data = encoded.decode() if encoded else ""
    if hardware.disk_gb and "strategy: RAID0" in user_data:
        return hardware.disk_gb * 10**9
    volumes = [each.get("Ebs", {}) for each in group.template.get("BlockDeviceMappings", ())]
    sizes = [int(volume["VolumeSize"]) for volume in volumes if "VolumeSize" in volume]
    return (sizes[0] if sizes else int(group.record.get("diskSize", ROOT_GIB))) * 2**30
