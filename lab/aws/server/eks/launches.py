"""Launches of a node group's instances: what EC2 refuses, which instances join, and what the group's health says."""

from collections.abc import Iterator
from typing import Any

from lab.aws.server.cluster import CLUSTER
from lab.aws.server.ec2.hardware import Hardware
from lab.aws.server.ec2.reservations import find_reservation
from lab.aws.server.eks.base import now
from lab.aws.server.faults import FAULTS
from lab.aws.server.node import Instance, node_manifest
from lab.aws.server.refusal import reason, refusals
from lab.aws.server.services.quotas import vcpu_quota
from lab.aws.server.store import NodeGroup, Record, Region, identifier

SCALE_DOWN_MINUTES = 40
"""Time before a Capacity Block's end at which EKS scales the group to 0 (awsdocs/amazon-eks-user-guide,
latest/ug/ml/capacity-blocks-mng.adoc)."""


def said(name: str, /, **values: object) -> str:
    """Returns a launch failure as EKS quotes it in a group's health."""
    return f"{refusals()[name]['code']} - {reason(name, **values)} Launching EC2 instance failed."


def launch_failure(region: Region, group: NodeGroup, zone: str) -> str | None:
    """Returns why EC2 launches no instance of a group in a zone now. None: it launches one."""
    return next(_failures(region, group, zone), None)


def _failures(region: Region, group: NodeGroup, zone: str) -> Iterator[str]:
    hardware = Hardware.of(group.instance_type)
    zones = hardware.zones(region.region_name)
    if zone not in zones:
        yield said("launch-not-offered", type=hardware.name, zone=zone, zones=", ".join(zones))
    if group.reservation:
        yield from _reservation_failures(region, group, zone)
        return
    if hardware.name in FAULTS.insufficient_capacity:
        yield said("launch-insufficient-capacity", type=hardware.name, zone=zone)
    limit = vcpu_quota(region, hardware.name)
    running = [each for each in region.groups.values() if not each.reservation]
    used = sum(len(each.instances) * Hardware.of(each.instance_type).cpus for each in running)
    if limit is not None and used + hardware.cpus > limit:
        yield said("launch-vcpu-limit", limit=int(limit))


def _reservation_failures(region: Region, group: NodeGroup, zone: str) -> Iterator[str]:
    identity = group.reservation or ""
    if identity not in region.reservations:
        yield said("reservation-unknown", id=identity)
        return
    found = find_reservation(region, identity)
    reserved = found["InstanceType"], found["AvailabilityZone"], found["ReservationType"] == "capacity-block"
    asked = group.instance_type, zone, group.of_capacity_block
    if reserved != asked:
        yield said("launch-reservation-mismatch", id=identity, reserved=_described(*reserved), asked=_described(*asked))
    if found["State"] == "scheduled":
        yield said("launch-block-not-active", id=identity)
    elif found["State"] != "active":
        yield said("launch-reservation-ended", id=identity, state=found["State"])
    placement = group.template.get("Placement", {}).get("GroupName")
    if placement and not str(found.get("PlacementGroupArn", "")).endswith(f"/{placement}"):
        yield said("launch-placement-group-with-reservation", type=group.instance_type, group=placement, id=identity)
    if found["AvailableInstanceCount"] < 1 or identity in FAULTS.failing_reservations:
        yield said("launch-reservation-full")


def _described(kind: str, zone: str, block: bool) -> str:
    return f"{kind} in {zone}, {'a Capacity Block' if block else 'on demand'}"


def catch_up(region: Region, group: NodeGroup, subnets: list[Any]) -> None:
    """Does what the Auto Scaling group would have done since: scales down before a block's end, ends instances that are
    too many, and launches those that are missing."""
    _scale_down_before_the_end(region, group)
    while len(group.instances) > group.desired:
        end_instance(region, group, next(reversed(group.instances)))
    while len(group.instances) < group.desired:
        subnet = subnets[len(group.instances) % len(subnets)]
        failure = launch_failure(region, group, subnet.availability_zone)
        if failure:
            _record(group, "Failed", failure)
            break
        _launch(region, group, subnet)


def _scale_down_before_the_end(region: Region, group: NodeGroup) -> None:
    if group.of_capacity_block and group.reservation in region.reservations:
        end = region.reservations[group.reservation].get("EndDate")
        if end and (end - now()).total_seconds() < SCALE_DOWN_MINUTES * 60:
            group.record["scalingConfig"] |= {"minSize": 0, "desiredSize": 0}


def _launch(region: Region, group: NodeGroup, subnet: Any) -> None:
    instance = Instance(identifier("i"), subnet.get_available_subnet_ip(None), subnet.availability_zone)
    joined = sum(name is not None for name in group.instances.values())
    name = None
    if FAULTS.joining is None or joined < FAULTS.joining:
        manifest = node_manifest(group, instance, region.region_name)
        name = str(manifest["metadata"]["name"])
        CLUSTER.nodes.add(manifest)
    if group.reservation:
        region.reservations[group.reservation]["AvailableInstanceCount"] -= 1
    group.instances[instance.identity] = name
    _record(group, "Successful", f"Launching a new EC2 instance: {instance.identity}")


def end_instance(region: Region, group: NodeGroup, identity: str) -> None:
    """Ends an instance: its node leaves the cluster, and its place in the reservation is free again."""
    name = group.instances.pop(identity)
    if name is not None:
        CLUSTER.nodes.remove(name)
    if group.reservation in region.reservations:
        region.reservations[group.reservation]["AvailableInstanceCount"] += 1
    _record(group, "Successful", f"Terminating EC2 instance: {identity}")


def _record(group: NodeGroup, status: str, text: str) -> None:
    """Adds an activity. It takes the place of the last one if that failed for the same reason."""
    if group.activities and group.activities[0]["StatusMessage"] == text:
        del group.activities[0]
    made = {
        "ActivityId": identifier("activity"),
        "AutoScalingGroupName": group.scaling_group,
        "Description": text if status == "Successful" else "Launching a new EC2 instance.  Status Reason: " + text,
        "Cause": "An instance was started in response to a difference between desired and actual capacity.",
        "StartTime": now(),
        "EndTime": now(),
        "StatusCode": status,
        "StatusMessage": text,
        "Progress": 100,
    }
    group.activities.insert(0, made)


def health(group: NodeGroup) -> list[Record]:
    """Returns the issues of a group's health. EKS does not check that the nodes of a Capacity Block launch and join
    (awsdocs/amazon-eks-user-guide, latest/ug/ml/capacity-blocks-mng.adoc), so such a group never has any."""
    if group.of_capacity_block:
        return []
    if len(group.instances) < group.desired:
        failure = next(each["StatusMessage"] for each in group.activities if each["StatusCode"] == "Failed")
        message = f"Could not launch On-Demand Instances. {failure}"
        return [{"code": "AsgInstanceLaunchFailures", "message": message, "resourceIds": [group.scaling_group]}]
    missing = [identity for identity, name in group.instances.items() if name is None]
    if missing:
        return [{"code": "NodeCreationFailure", "message": reason("nodes-did-not-join"), "resourceIds": missing}]
    return []
