"""Whether an update replaces GPU nodes that run, and with them the weights on their disks.

EKS replaces the nodes of a group if its launch template changes, and Pulumi the group if its subnet changes. The next
reservation is no such change: its nodes are another group, beside the old one, to which the server moves.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import pulumi

from components.aws.launch_template import user_data
from components.cluster.recorded_cluster import recorded_resources
from config.catalogue import find_instance
from config.quantity import gigabytes
from config.stack.sections import Nodes
from planner import Plan

_TEMPLATE, _GROUP, _SUBNET = (
    "aws:ec2/launchTemplate:LaunchTemplate",
    "aws:eks/nodeGroup:NodeGroup",
    "aws:ec2/subnet:Subnet",
)


def refuse_replacement(group: str, nodes: Nodes, plan: Plan, *, efa: bool) -> None:
    """Raises pulumi.RunError if the update replaces the nodes of the group of this name, and the stack does not allow
    it; if it does, warns of the same. Warns if the server moves from another group to this one."""
    recorded = recorded_resources()
    weights = gigabytes(plan.weights_bytes) if plan.weights_bytes else "all weights"
    if left := _left(recorded, group):
        pulumi.warn(
            f"the server moves from the nodes of {', '.join(left)} to those of {group}: {weights} are staged on "
            f"{nodes.total} of them while it serves, then it stops and starts there, and the old nodes are deleted"
        )
    changes = list(_changes(recorded, group, nodes, efa=efa))
    if not changes:
        return
    summary = (
        f"this update replaces the nodes of {group} ({'; '.join(changes)}): the server stops, what is on the nodes' "
        f"disks "
        f"is lost, and {weights} are staged again on {nodes.total} of them"
    )
    if not nodes.allow_replacement:
        raise pulumi.RunError(
            f"{summary}; nothing was created. heavylift:nodes.allow_replacement: true lets it through"
        )
    pulumi.warn(summary)


def _left(recorded: Mapping[str, Mapping[str, Any]], group: str) -> list[str]:
    """The recorded groups of GPU nodes, which have a launch template of their name, but for the one that stays."""
    groups = [urn.rpartition("::")[2] for urn, each in recorded.items() if each["type"] == _GROUP]
    return sorted(name for name in groups if name != group and _named(recorded, _TEMPLATE, name) is not None)


def _changes(recorded: Mapping[str, Mapping[str, Any]], group: str, nodes: Nodes, *, efa: bool) -> Iterator[str]:
    template, made = _named(recorded, _TEMPLATE, group), _named(recorded, _GROUP, group)
    if template is None or made is None:
        return
    if template.get("instanceType") != nodes.instance_type:
        yield f"instance type {template.get('instanceType')} becomes {nodes.instance_type}"
    else:
        before = len(template.get("networkInterfaces") or ())
        after = len(find_instance(nodes.instance_type or "").network_interfaces(efa=efa))
        if before != after:
            yield f"{before} network interfaces become {after}"
    if template.get("userData") != user_data():
        yield "the nodes' configuration changes"
    zones = {
        each["outputs"].get("id"): each["outputs"].get("availabilityZoneId")
        for each in recorded.values()
        if each["type"] == _SUBNET
    }
    old = {zones[subnet] for subnet in made.get("subnetIds") or () if zones.get(subnet)} - {nodes.zone}
    yield from (f"zone {zone} becomes {nodes.zone}" for zone in sorted(old))


def _named(recorded: Mapping[str, Mapping[str, Any]], kind: str, name: str) -> Mapping[str, Any] | None:
    found = [each for urn, each in recorded.items() if each["type"] == kind and urn.endswith(f"::{name}")]
    return found[0]["outputs"] if found else None
