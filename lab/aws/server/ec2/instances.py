"""EC2's view of the instances of node groups. The lab launches no others."""

from collections.abc import Iterable, Mapping

from lab.aws.server.store import NodeGroup, Record

RUNNING = {"Code": 16, "Name": "running"}


def instances(groups: Iterable[NodeGroup], filters: Mapping[str, list[str]]) -> list[Record]:
    """Returns the instances of groups that match filters by tag and state, in the API's own shape."""
    found = [_record(group, identity) for group in groups for identity in group.instances]
    return [each for each in found if _matches(each, filters)]


def _record(group: NodeGroup, identity: str) -> Record:
    given = [each.get("Tags", []) for each in group.template.get("TagSpecifications", ())]
    named = {"eks:cluster-name": group.record["clusterName"], "eks:nodegroup-name": group.record["nodegroupName"]}
    tags = [*(tag for each in given for tag in each), *({"Key": key, "Value": value} for key, value in named.items())]
    record = {"InstanceId": identity, "InstanceType": group.instance_type, "State": RUNNING, "Tags": tags}
    return {**record, **({"CapacityReservationId": group.reservation} if group.reservation else {})}


def _matches(instance: Record, filters: Mapping[str, list[str]]) -> bool:
    """Raises KeyError for a filter that the lab does not know."""
    values = {"instance-state-name": instance["State"]["Name"], "instance-type": instance["InstanceType"]}
    tags = {f"tag:{tag['Key']}": tag["Value"] for tag in instance["Tags"]}
    return all(
        (tags.get(name) if name.startswith("tag:") else values[name]) in wanted for name, wanted in filters.items()
    )
