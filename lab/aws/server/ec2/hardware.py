"""What moto recorded of DescribeInstanceTypes and DescribeInstanceTypeOfferings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

from lab.aws.server.refusal import refuse

EFA_TYPES = ("efa", "efa-only")


@dataclass(frozen=True)
class Hardware:
    """One instance type."""

    name: str
    record: Mapping[str, Any]

    @classmethod
    def of(cls, name: str) -> "Hardware":
        """Returns the type of that name. Refuses as EC2 does if it does not exist."""
        if name not in INSTANCE_TYPES:
            refuse("type-unknown", type=name)
        return cls(name, INSTANCE_TYPES[name])

    @property
    def cpus(self) -> int:
        """Number of vCPUs."""
        return int(self.record["VCpuInfo"]["DefaultVCpus"])

    @property
    def memory_mib(self) -> int:
        """Memory in MiB."""
        return int(self.record["MemoryInfo"]["SizeInMiB"])

    @property
    def gpus(self) -> int:
        """Number of GPUs."""
        return sum(int(gpu["Count"]) for gpu in self.record.get("GpuInfo", {}).get("Gpus", ()))

    @property
    def disk_gb(self) -> int:
        """Size of all instance store volumes in GB. 0: none."""
        return int(self.record.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0))

    @property
    def cards(self) -> dict[int, Mapping[str, Any]]:
        """The network cards by index."""
        return {int(card["NetworkCardIndex"]): card for card in self.record["NetworkInfo"]["NetworkCards"]}

    @property
    def efa_interfaces(self) -> int:
        """The largest number of EFA interfaces."""
        return int(self.record["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0))

    @property
    def usage_classes(self) -> Sequence[str]:
        """How the type can be bought: `on-demand`, `spot`, `capacity-block`."""
        found: Sequence[str] = self.record["SupportedUsageClasses"]
        return found

    @property
    def pods(self) -> int:
        """The most pods of a node: with one network card for pods, each interface gives its addresses but one, and two
        pods use the host's network (github.com/awslabs/amazon-eks-ami, nodeadm/doc/examples.md)."""
        interfaces = int(self.cards[0]["MaximumNetworkInterfaces"])
        return interfaces * (int(self.record["NetworkInfo"]["Ipv4AddressesPerInterface"]) - 1) + 2

    def zones(self, region: str) -> list[str]:
        """Returns the zones of a region that offer the type."""
        offered = INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ())
        return sorted(each["Location"] for each in offered if each["InstanceType"] == self.name)
