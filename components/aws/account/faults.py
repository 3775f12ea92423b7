"""What is wrong with an AWS account for a stack: every reason why it could not be made, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from ipaddress import IPv4Network

from components.aws.account.facts import AccountFacts, Reservation
from config.catalogue import CapacityKind, find_instance
from config.stack.sections import Aws, Nodes, StackConfig
from config.stack.sections.eks_nodes import PLACEHOLDER_RESERVATION
from config.units import duration

_DOCUMENTATION_RANGES = ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
"""For examples only (RFC 5737): the ranges in the shipped stack files."""

BLOCK_ENDS_EARLY = timedelta(minutes=40)
"""EKS scales a node group to 0 so long before the end of its Capacity Block (awsdocs/amazon-eks-user-guide,
latest/ug/ml/capacity-blocks-mng.adoc); EC2 terminates instances 10 minutes later."""

_OLDEST_IMAGE = "20260709"
"""The first release whose disk array comes back after a reboot (github.com/awslabs/amazon-eks-ami/pull/2755)."""


NEW_CLUSTER = timedelta(minutes=25)
"""From an empty account to a cluster with nodes: our own choice. A control plane takes about 10 minutes, add-ons and
each of the two node groups some more (docs.aws.amazon.com/eks, "several minutes" each)."""

_EXTENDED_SUPPORT = "EKS charges 0.60 instead of 0.10 $ an hour for a version in extended support"
"""vantage.sh/blog/amazon-eks-extended-support-cost-kubernetes."""


def placeholder_faults(stack: StackConfig, place: Aws) -> Iterator[str]:
    """Values of the shipped stack files that everybody has to replace."""
    capacity = stack.nodes.capacity
    if capacity is not None and capacity.id == PLACEHOLDER_RESERVATION:
        yield (
            f"heavylift:nodes.capacity.id: '{capacity.id}' is a placeholder: set yours with `pulumi config set --path "
            "heavylift:nodes.capacity.id cr-…`"
        )
    for text in place.public_access_cidrs:
        if any(IPv4Network(text).overlaps(IPv4Network(example)) for example in _DOCUMENTATION_RANGES):
            yield (
                f"heavylift:aws.public_access_cidrs: '{text}' is a placeholder: set the range that you reach the API "
                "server from with `pulumi config set --path 'heavylift:aws.public_access_cidrs[0]' …`"
            )


def account_faults(stack: StackConfig, place: Aws, facts: AccountFacts, seconds: float, now: datetime) -> Iterator[str]:
    """Every fault. `seconds`: from the start of the nodes to the first answer, as planned."""
    nodes = stack.nodes
    yield from _type_faults(nodes, place, facts)
    if facts.reservation_read and nodes.capacity is not None:
        yield from _reservation_faults(nodes, facts.reservation, seconds, now)
    yield from _quota_faults(nodes, facts)
    yield from _version_faults(place, facts)
    yield from _image_faults(facts)
    yield from _cluster_faults(nodes, place, facts)
    if facts.bucket_region is not None and place.mirror is not None and facts.bucket_region != place.region:
        where = f"is in {facts.bucket_region}" if facts.bucket_region else "does not exist"
        yield (
            f"heavylift:aws.mirror.bucket: '{place.mirror.bucket}' {where}: expected a bucket in {place.region}, where "
            "the nodes are"
        )


def seconds_to_serve(place: Aws, facts: AccountFacts, seconds: float) -> float:
    """Seconds to the first answer, of which the plan knows `seconds`: a cluster that is not there yet comes first."""
    is_new = place.makes_cluster and not facts.network_exists
    return seconds + (NEW_CLUSTER.total_seconds() if is_new else 0)


def account_warnings(place: Aws, facts: AccountFacts) -> Iterator[str]:
    """What is no fault, and costs or can fail later."""
    if facts.cluster is not None and facts.support == "EXTENDED_SUPPORT":
        yield f"the cluster '{place.cluster.name}' has Kubernetes {facts.cluster.version}: {_EXTENDED_SUPPORT}"
    if facts.refused_actions and len(facts.refused_actions) == facts.actions:
        yield f"{facts.identity} may make nothing of this stack: run `pulumi up` as another user or role"
    elif facts.refused_actions:
        yield (
            f"`pulumi up` can fail halfway: the policies of {facts.identity} do not allow "
            f"{', '.join(facts.refused_actions)} on every resource, as iam:SimulatePrincipalPolicy answers; whether "
            "they allow it for what this stack makes is not known"
        )


def time_to_serve(facts: AccountFacts, seconds: float, now: datetime) -> str | None:
    """What is left of a Capacity Block for serving, in words. None: no block."""
    found = facts.reservation
    if found is None or found.end is None:
        return None
    left = found.end - BLOCK_ENDS_EARLY - max(now, found.start or now)
    return (
        f"{duration(left.total_seconds() - seconds)} of serving before the block ends ({found.end:%Y-%m-%d %H:%M} UTC; "
        "EKS ends its nodes 40 min earlier)"
    )


def _type_faults(nodes: Nodes, place: Aws, facts: AccountFacts) -> Iterator[str]:
    if facts.zones is not None and nodes.zone not in facts.zones:
        offered = ", ".join(facts.zones) or f"none of {place.region}"
        yield (f"heavylift:nodes.zone: '{nodes.zone}' does not offer {nodes.instance_type}: expected one of {offered}")
    known = find_instance(nodes.instance_type or "").efa_interfaces
    if facts.efa_interfaces is not None and facts.efa_interfaces != known:
        yield (
            f"heavylift:nodes.instance_type: EC2 says that {nodes.instance_type} has {facts.efa_interfaces} EFA "
            f"interfaces, and the catalogue {known}: correct config/data/aws_instances.json"
        )


def _reservation_faults(nodes: Nodes, found: Reservation | None, seconds: float, now: datetime) -> Iterator[str]:
    key = "heavylift:nodes.capacity.id"
    if nodes.capacity is None:
        return
    if found is None:
        yield f"{key}: '{nodes.capacity.id}' does not exist in this account and region: expected the ID of yours"
        return
    wants_block = nodes.capacity.kind is CapacityKind.CAPACITY_BLOCK
    if found.is_block is not wants_block:
        kind = "capacity-block" if found.is_block else "reservation"
        yield f"heavylift:nodes.capacity.kind: '{nodes.capacity.kind}' is not the reservation's: expected {kind}"
    for what, is_, expected in (
        ("instance type", found.instance_type, nodes.instance_type),
        ("zone", found.zone, nodes.zone),
        ("platform", found.platform, "Linux/UNIX"),
    ):
        if is_ != expected:
            yield f"{key}: its {what} is {is_}: expected {expected}, as the stack has it"
    yield from _state_faults(key, nodes, found, seconds, now)


def _state_faults(key: str, nodes: Nodes, found: Reservation, seconds: float, now: datetime) -> Iterator[str]:
    if found.state == "scheduled":
        when = f"{found.start:%Y-%m-%d %H:%M} UTC" if found.start else "later"
        yield f"{key}: it starts at {when}: run `pulumi up` then"
    elif found.state != "active":
        yield f"{key}: it is {found.state}: expected an active one"
    elif found.available < nodes.total:
        yield (
            f"{key}: {found.available} of its instances are free, and the stack has {nodes.total} nodes: end what uses "
            "them, or lower nodes.count"
        )
    if found.end is not None and found.state == "active":
        left = (found.end - BLOCK_ENDS_EARLY - now).total_seconds()
        if left < seconds:
            yield (
                f"{key}: its nodes are ended in {duration(max(0, left))}, and the first answer takes "
                f"{duration(seconds)}: expected a block that ends later"
            )


def _quota_faults(nodes: Nodes, facts: AccountFacts) -> Iterator[str]:
    needed = find_instance(nodes.instance_type or "").vcpus * nodes.total
    if facts.vcpus is not None and facts.vcpus.limit < needed:
        yield (
            f"the quota of on-demand vCPUs for {nodes.instance_type} is {facts.vcpus.limit:.0f}, and the nodes take "
            f"{needed}: request an increase in Service Quotas"
        )
    for what, quota in (("VPCs", facts.vpcs), ("Elastic IP addresses", facts.addresses)):
        if quota is not None and quota.used >= quota.limit:
            yield (
                f"the quota of {what} is {quota.limit:.0f}, and all are used: request an increase in Service Quotas, "
                f"or "
                "delete one"
            )


def _version_faults(place: Aws, facts: AccountFacts) -> Iterator[str]:
    """A new cluster of a version after its standard support: its policy is to be upgraded then, which EKS would do at
    once (docs.aws.amazon.com/eks/latest/userguide/extended-support-control.html)."""
    if place.cluster.create is None or facts.support in (None, "STANDARD_SUPPORT"):
        return
    found = "no longer supports it" if facts.support == "UNSUPPORTED" else "has it in extended support only"
    yield (
        f"heavylift:aws.cluster.create.version: '{place.cluster.create.version}': EKS {found}: expected a version in "
        "standard support, such as '1.35'"
    )


def _image_faults(facts: AccountFacts) -> Iterator[str]:
    if facts.image_release == "":
        yield (
            "heavylift:aws.cluster: EKS has no image with NVIDIA's driver for this version of Kubernetes: expected a "
            "version that has one, such as '1.35'"
        )
    elif facts.image_release is not None and facts.image_release.rsplit("-", 1)[-1] < _OLDEST_IMAGE:
        yield (
            f"heavylift:aws.cluster: the newest image for this version of Kubernetes is {facts.image_release}: "
            f"expected "
            f"one of {_OLDEST_IMAGE} or later, as the disk array of older ones is lost in a reboot"
        )


def _cluster_faults(nodes: Nodes, place: Aws, facts: AccountFacts) -> Iterator[str]:
    if place.makes_cluster or not facts.cluster_read:
        return
    if facts.cluster is None:
        yield f"heavylift:aws.cluster.name: '{place.cluster.name}' does not exist in {place.region}"
        return
    free = facts.cluster.free_addresses.get(nodes.zone or "")
    needed = find_instance(nodes.instance_type or "").addresses * nodes.total
    if free is None:
        zones = ", ".join(sorted(facts.cluster.free_addresses))
        yield f"heavylift:nodes.zone: the cluster has no subnet in '{nodes.zone}': expected one of {zones}"
    elif free < needed:
        yield f"the cluster's subnet in {nodes.zone} has {free} free addresses, and the nodes take {needed}"
