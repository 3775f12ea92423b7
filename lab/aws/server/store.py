"""What the lab's servers keep beside moto's own state: for each account and region, in the API's own shape."""

import itertools
from dataclasses import dataclass, field
from typing import Any

from moto.core.base_backend import BackendDict, BaseBackend

Record = dict[str, Any]
"""One object as the API answers with it."""

_NUMBERS = itertools.count(1)


def identifier(prefix: str) -> str:
    """Returns a new id, such as `cr-00000000000000001`."""
    return f"{prefix}-{next(_NUMBERS):017x}"


@dataclass
class NodeGroup:
    """A managed node group, with the nodes that its launches made."""

    record: Record
    template: Record
    """Data of the launch template. Empty: the group has none."""
    instances: dict[str, str | None] = field(default_factory=dict)
    """The name of each instance's node, by the instance's id. None: the instance did not join the cluster."""
    activities: list[Record] = field(default_factory=list)
    """Scaling activities of the Auto Scaling group, newest first."""

    @property
    def scaling_group(self) -> str:
        """The name of the Auto Scaling group."""
        return str(self.record["resources"]["autoScalingGroups"][0]["name"])

    @property
    def instance_type(self) -> str:
        """The instance type, of the template or of the request."""
        return str(self.template.get("InstanceType") or self.record["instanceTypes"][0])

    @property
    def desired(self) -> int:
        """The number of instances that the Auto Scaling group keeps."""
        return int(self.record["scalingConfig"]["desiredSize"])

    @property
    def of_capacity_block(self) -> bool:
        """Whether the group launches into a Capacity Block."""
        return bool(self.record["capacityType"] == "CAPACITY_BLOCK")

    @property
    def reservation(self) -> str | None:
        """The id of the targeted capacity reservation. None: no target."""
        specification = self.template.get("CapacityReservationSpecification", {})
        found: str | None = specification.get("CapacityReservationTarget", {}).get("CapacityReservationId")
        return found


@dataclass
class Association:
    """A Pod Identity association."""

    record: Record
    arrived: bool = True
    """Whether the agent on the nodes knows it already."""


class Region(BaseBackend):
    """The state of one region of one account."""

    def __init__(self, region_name: str, account_id: str) -> None:
        super().__init__(region_name, account_id)
        self.placement_groups: dict[str, Record] = {}
        self.reservations: dict[str, Record] = {}
        self.offerings: dict[str, Record] = {}
        self.clusters: dict[str, Record] = {}
        self.groups: dict[tuple[str, str], NodeGroup] = {}
        self.addons: dict[tuple[str, str], Record] = {}
        self.entries: dict[tuple[str, str], Record] = {}
        self.policies: dict[tuple[str, str], dict[str, Record]] = {}
        self.associations: dict[str, Association] = {}
        self.quotas: dict[str, float] = {}

    def groups_of(self, cluster: str) -> list[NodeGroup]:
        """Returns the node groups of a cluster."""
        return [group for (owner, _), group in self.groups.items() if owner == cluster]

    def forget_cluster(self, name: str) -> None:
        """Removes what EKS keeps of a cluster that is deleted."""
        self.addons = {key: each for key, each in self.addons.items() if key[0] != name}
        self.entries = {key: each for key, each in self.entries.items() if key[0] != name}
        self.policies = {key: each for key, each in self.policies.items() if key[0] != name}
        self.associations = {key: each for key, each in self.associations.items() if each.record["clusterName"] != name}

    def subnets_in_use(self) -> set[str]:
        """Returns the subnets of clusters and node groups, which have network interfaces in them."""
        of_clusters = {each for record in self.clusters.values() for each in record["resourcesVpcConfig"]["subnetIds"]}
        return of_clusters | {each for group in self.groups.values() for each in group.record["subnets"]}

    def security_groups_in_use(self) -> set[str]:
        """Returns the security groups of clusters and of the instances of node groups."""
        used = set()
        for record in self.clusters.values():
            used |= {record["resourcesVpcConfig"]["clusterSecurityGroupId"]}
            used |= set(record["resourcesVpcConfig"].get("securityGroupIds", ()))
        for group in self.groups.values():
            for interface in group.template.get("NetworkInterfaces", ()):
                used |= set(interface.get("Groups", ()))
        return used


REGIONS: BackendDict[Region] = BackendDict(Region, "ec2")
