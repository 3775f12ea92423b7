"""EC2: the calls that moto lacks, and what AWS refuses to delete while it is in use."""

from collections.abc import Mapping

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.responses import EC2Response

from lab.aws.server.ec2 import reservations
from lab.aws.server.ec2.instances import instances
from lab.aws.server.ec2.launch_template import check_launch_template
from lab.aws.server.refusal import refuse
from lab.aws.server.store import REGIONS, Record, Region, identifier

RESERVATION_FILTERS = {
    "instance-type": "InstanceType",
    "availability-zone": "AvailabilityZone",
    "state": "State",
    "reservation-type": "ReservationType",
}


class LabEC2(EC2Response):
    """moto's EC2 with placement groups, capacity reservations, Capacity Blocks, and refusals."""

    @property
    def kept(self) -> Region:
        """What the lab keeps of this account and region."""
        return REGIONS[self.current_account][self.region]

    def describe_instances(self) -> ActionResult:
        """DescribeInstances of node groups, by filters."""
        filters = {each["Name"]: each["Values"] for each in self._get_param("Filters", [])}
        found = instances(self.kept.groups.values(), filters)
        reservation = {"ReservationId": "r-00000000000000001", "OwnerId": self.current_account, "Instances": found}
        return ActionResult({"Reservations": [reservation] if found else []})

    def create_launch_template(self) -> ActionResult:
        """CreateLaunchTemplate, with refusals."""
        check_launch_template(self._get_param("LaunchTemplateData", {}))
        return super().create_launch_template()

    def create_launch_template_version(self) -> ActionResult:
        """CreateLaunchTemplateVersion, with refusals."""
        check_launch_template(self._get_param("LaunchTemplateData", {}))
        return super().create_launch_template_version()

    # Placement groups

    def create_placement_group(self) -> ActionResult:
        """CreatePlacementGroup."""
        name = self._get_param("GroupName")
        if name in self.kept.placement_groups:
            refuse("placement-group-exists", name=name)
        arn = f"arn:{self.partition}:ec2:{self.region}:{self.current_account}:placement-group/{name}"
        made = {
            "GroupName": name,
            "GroupId": identifier("pg"),
            "GroupArn": arn,
            "Strategy": self._get_param("Strategy", "cluster"),
            "State": "available",
            "Tags": self._tags(),
        }
        self.kept.placement_groups[name] = made
        return ActionResult({"PlacementGroup": made})

    def describe_placement_groups(self) -> ActionResult:
        """DescribePlacementGroups."""
        names = self._get_param("GroupNames") or list(self.kept.placement_groups)
        return ActionResult({"PlacementGroups": [self._placement_group(name) for name in names]})

    def delete_placement_group(self) -> ActionResult:
        """DeletePlacementGroup."""
        name = self._get_param("GroupName")
        self._placement_group(name)
        groups = self.kept.groups.values()
        if any(group.template.get("Placement", {}).get("GroupName") == name for group in groups):
            refuse("placement-group-in-use", name=name)
        del self.kept.placement_groups[name]
        return EmptyResult()

    def _placement_group(self, name: str) -> Record:
        if name not in self.kept.placement_groups:
            refuse("placement-group-unknown", name=name)
        return self.kept.placement_groups[name]

    def _tags(self) -> list[Record]:
        return [tag for each in self._get_param("TagSpecifications", []) for tag in each.get("Tags", ())]

    # Capacity

    def create_capacity_reservation(self) -> ActionResult:
        """CreateCapacityReservation."""
        return ActionResult({"CapacityReservation": reservations.make_reservation(self.kept, self._given())})

    def describe_capacity_reservations(self) -> ActionResult:
        """DescribeCapacityReservations, by ids and filters."""
        ids = self._get_param("CapacityReservationIds") or list(self.kept.reservations)
        found = [reservations.find_reservation(self.kept, each) for each in ids]
        filters = {each["Name"]: each["Values"] for each in self._get_param("Filters", [])}
        matching = [each for each in found if self._matches(each, filters)]
        return ActionResult({"CapacityReservations": matching})

    @staticmethod
    def _matches(reservation: Record, filters: Mapping[str, list[str]]) -> bool:
        return all(reservation[RESERVATION_FILTERS[name]] in values for name, values in filters.items())

    def cancel_capacity_reservation(self) -> ActionResult:
        """CancelCapacityReservation."""
        identity = self._get_param("CapacityReservationId")
        reservations.find_reservation(self.kept, identity)
        self.kept.reservations[identity] |= {"State": "cancelled", "AvailableInstanceCount": 0}
        return ActionResult({"Return": True})

    def describe_capacity_block_offerings(self) -> ActionResult:
        """DescribeCapacityBlockOfferings: always one offering."""
        given = self._given()
        made = reservations.offer_block(
            self.kept, given["InstanceType"], int(given.get("InstanceCount", 1)), int(given["CapacityDurationHours"])
        )
        return ActionResult({"CapacityBlockOfferings": [made]})

    def purchase_capacity_block(self) -> ActionResult:
        """PurchaseCapacityBlock."""
        given = self._given()
        bought = reservations.buy_block(self.kept, given["CapacityBlockOfferingId"], given["InstancePlatform"])
        return ActionResult({"CapacityReservation": bought})

    def _given(self) -> Record:
        return {key: value for key, value in self.params.items() if key not in ("DryRun", "TagSpecifications")}

    # What is in use

    def delete_subnet(self) -> ActionResult:
        """DeleteSubnet, which AWS refuses while network interfaces are in the subnet."""
        identity = self._get_param("SubnetId")
        gateways = [each for each in self.ec2_backend.nat_gateways.values() if each.state == "available"]
        if identity in self.kept.subnets_in_use() | {each.subnet_id for each in gateways}:
            refuse("subnet-in-use", id=identity)
        return super().delete_subnet()

    def delete_security_group(self) -> ActionResult:
        """DeleteSecurityGroup, which AWS refuses while an interface has the group or a rule names it."""
        identity = self._get_param("GroupId")
        if identity in self.kept.security_groups_in_use() | self._named_in_rules(identity):
            refuse("security-group-in-use", id=identity)
        return super().delete_security_group()

    def _named_in_rules(self, identity: str) -> set[str]:
        """Returns the group itself if a rule of another group names it."""
        for groups in self.ec2_backend.groups.values():
            for group in groups.values():
                rules = [*group.ingress_rules, *group.egress_rules] if group.id != identity else []
                if any((rule.source_group or {}).get("GroupId") == identity for rule in rules):
                    return {identity}
        return set()

    def delete_vpc(self) -> ActionResult:
        """DeleteVpc, which AWS refuses while something of the user is in the VPC."""
        identity = self._get_param("VpcId")
        backend = self.ec2_backend
        subnets = [subnet for zone in backend.subnets.values() for subnet in zone.values()]
        gateways = backend.internet_gateways.values()
        used = any(subnet.vpc_id == identity for subnet in subnets)
        used |= any(gateway.vpc and gateway.vpc.id == identity for gateway in gateways)
        used |= any(group.name != "default" for group in backend.groups.get(identity, {}).values())
        if used:
            refuse("vpc-in-use", id=identity)
        return super().delete_vpc()

    def detach_internet_gateway(self) -> ActionResult:
        """DetachInternetGateway, which AWS refuses while a NAT gateway has a public address."""
        vpc = self._get_param("VpcId")
        gateways = self.ec2_backend.nat_gateways.values()
        if any(each.vpc_id == vpc and each.state == "available" for each in gateways):
            refuse("gateway-in-use", vpc=vpc)
        return super().detach_internet_gateway()

    def release_address(self) -> ActionResult:
        """ReleaseAddress, which AWS refuses while a NAT gateway has the address."""
        identity = self._get_param("AllocationId")
        used = {
            address.get("allocationId") or address.get("AllocationId")
            for each in self.ec2_backend.nat_gateways.values()
            if each.state == "available"
            for address in each.address_set
        }
        if identity and identity in used:
            refuse("address-in-use", id=identity)
        return super().release_address()
