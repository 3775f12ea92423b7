"""Contradictions of a stack on AWS: between its nodes, its part of AWS, and what follows from the instance type."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network
from math import prod
from typing import Any

from config.catalogue import SYSTEM_NODES, CapacityKind, Instance, find_instance, regions
from config.stack.sections.aws import Aws
from config.stack.sections.eks_nodes import NVME_MOUNT, derived
from config.stack.sections.engine import Engine
from config.stack.sections.nodes import Installation, Nodes
from config.stack.sections.stage import Stage
from config.stack.sections.weights import Weights, WeightsKind

_OF_EKS = ("instance_type", "count", "zone", "capacity", "allow_replacement")
_REQUIRED = ("instance_type", "count", "zone")

_RESERVED_ADDRESSES = 5
"""Of every subnet, by AWS."""

_SYSTEM_ADDRESSES = SYSTEM_NODES * 30
"""Of the system nodes: an m5.large has 3 interfaces with 10 addresses each."""

SUBNET_BITS = 4
"""The network has 2^4 subnets."""

_LARGEST_NETWORK = 16
"""Prefix of the largest network that AWS makes."""


def eks_contradictions(given: Mapping[str, Any], nodes: Nodes, aws: Aws | None) -> Iterator[str]:
    """Faults of an EKS node group. `given`: what the stack file says, without what follows from it."""
    missing = [key for key in _REQUIRED if getattr(nodes, key) is None]
    yield from (f"heavylift:nodes.{key}: is missing: kind eks expects it" for key in missing)
    if nodes.names:
        yield "heavylift:nodes.names: has no meaning for kind eks: expected `count`, since AWS names the nodes"
    for key in sorted(set(derived(given)) & set(given)):
        yield (f"heavylift:nodes.{key}: follows from instance_type {nodes.instance_type}: expected it to be left out")
    if aws is None:
        yield "heavylift:aws: is missing: nodes of kind eks expect the region, such as `region: us-east-2`"
    elif nodes.zone is not None and nodes.zone not in regions()[aws.region]:
        yield (
            f"heavylift:nodes.zone: '{nodes.zone}' is not in region {aws.region}: expected one of "
            f"{', '.join(regions()[aws.region])}"
        )
    if nodes.instance_type is not None:
        yield from _capacity(nodes, find_instance(nodes.instance_type))
        if aws is not None and nodes.count is not None:
            yield from _addresses(aws, nodes.count, find_instance(nodes.instance_type))


def bare_metal_contradictions(nodes: Nodes, aws: Aws | None) -> Iterator[str]:
    """Faults of nodes on bare metal that say something of AWS."""
    for key in _OF_EKS:
        if getattr(nodes, key):
            yield f"heavylift:nodes.{key}: has no meaning for kind bare-metal: expected it with kind eks only"
    if Installation.LEADER_WORKER_SET in nodes.install and nodes.total == 1:
        yield (
            f"heavylift:nodes.install: {Installation.LEADER_WORKER_SET} has no meaning with one node: expected it for "
            "a server over several nodes"
        )
    if aws is not None:
        yield "heavylift:aws: has no meaning for nodes of kind bare-metal: expected nodes of kind eks"


def cluster_contradictions(aws: Aws, cluster: Mapping[str, Any]) -> Iterator[str]:
    """Faults of the cluster: one in AWS needs no kubeconfig, and one that exists has a network."""
    for key in ("kubeconfig", "context"):
        if cluster.get(key) is not None:
            yield f"heavylift:cluster.{key}: has no meaning with heavylift:aws, which names the cluster: leave it out"
    if not aws.makes_cluster:
        for key in sorted({"cidr", "public_access_cidrs"} & aws.model_fields_set):
            yield f"heavylift:aws.{key}: has no meaning for a cluster that exists: expected it with `create` only"


def eks_weights_contradictions(weights: Weights, aws: Aws | None) -> Iterator[str]:
    """Faults of the weights' volume on an EKS node group."""
    if weights.kind is WeightsKind.LOCAL:
        yield (
            "heavylift:weights.kind: 'local' has no meaning for nodes of kind eks, which have no names of their own, "
            "and each volume is tied to its node by name: expected host-path"
        )
    if weights.kind is WeightsKind.CLAIM and aws is not None and aws.makes_cluster:
        yield (
            "heavylift:weights.kind: 'claim' has no meaning in a cluster that the stack makes, which has no storage "
            "driver: expected host-path, on the nodes' NVMe disks"
        )
    if weights.kind is not WeightsKind.CLAIM and weights.path and not weights.path.startswith(f"{NVME_MOUNT}/"):
        yield (
            f"heavylift:weights.path: '{weights.path}' is not on the nodes' NVMe disks: expected a directory below "
            f"{NVME_MOUNT}, or leave it out"
        )


def group_contradictions(aws: Aws, nodes: Nodes, engine: Engine) -> Iterator[str]:
    """A fault if the stated layout takes several nodes of a new cluster that gets no controller for it.

    The planner chooses what the layout leaves out, so this does not find every such server.
    """
    degrees = (engine.tensor_parallel, engine.pipeline_parallel, engine.data_parallel, engine.prefill_context_parallel)
    gpus = prod(degree or 1 for degree in degrees)
    lacks = aws.makes_cluster and Installation.LEADER_WORKER_SET not in nodes.install
    if lacks and nodes.gpus_per_node < gpus <= nodes.gpus_per_node * nodes.total:
        yield (
            f"heavylift:nodes.install: is without {Installation.LEADER_WORKER_SET}: a server with {gpus} GPUs runs on "
            f"several nodes of {nodes.gpus_per_node}, and a new cluster lacks the controller for it: expected "
            f"[{Installation.LEADER_WORKER_SET}]"
        )


def mirror_contradictions(aws: Aws, stage: Stage) -> Iterator[str]:
    """Faults of the mirror: nothing reads it, or the stager has a service account of its own."""
    if aws.mirror is None:
        return
    if aws.mirror.bucket is not None and not mirror_prefixes(aws.mirror.bucket, stage):
        yield (
            f"heavylift:aws.mirror.bucket: '{aws.mirror.bucket}' is no source of the stage: expected "
            f"s3://{aws.mirror.bucket}/prefix in heavylift:stage.sources"
        )
    if stage.service_account is not None:
        yield (
            "heavylift:stage.service_account: is stated, and heavylift:aws.mirror makes one that may read the bucket: "
            "expected one of them"
        )


def mirror_prefixes(bucket: str, stage: Stage) -> tuple[str, ...]:
    """The prefixes of a bucket that the stager reads, without slashes at their ends; the empty one is the whole."""
    start = f"s3://{bucket}"
    of_bucket = [source for source in stage.sources if source == start or source.startswith(f"{start}/")]
    return tuple(source.removeprefix(start).strip("/") for source in of_bucket)


def _capacity(nodes: Nodes, instance: Instance) -> Iterator[str]:
    capacity = nodes.capacity
    if capacity is None or capacity.kind is CapacityKind.ON_DEMAND:
        return
    if capacity.id is None:
        yield f"heavylift:nodes.capacity.id: is missing: kind {capacity.kind} expects the ID of yours, such as cr-…"
    if capacity.kind is CapacityKind.CAPACITY_BLOCK and CapacityKind.CAPACITY_BLOCK not in instance.usage_classes:
        yield (
            f"heavylift:nodes.capacity.kind: {instance.type} has no Capacity Blocks: expected on-demand or reservation"
        )


def _addresses(aws: Aws, count: int, instance: Instance) -> Iterator[str]:
    """A fault if the nodes' subnet has too few addresses: the VPC CNI takes them for the pods of each node."""
    needed, free, most = count * instance.addresses, _free(IPv4Network(aws.cidr).prefixlen), _free(_LARGEST_NETWORK)
    if not aws.makes_cluster or needed <= free:
        return
    if needed > most:
        yield (
            f"heavylift:nodes.count: {count} x {instance.type} take {needed} addresses, and a subnet of the largest "
            f"network, a /{_LARGEST_NETWORK}, has {most}: expected at most {most // instance.addresses} nodes"
        )
    else:
        yield (
            f"heavylift:aws.cidr: '{aws.cidr}' is too small: its subnets have {free} addresses left, and {count} x "
            f"{instance.type} take {needed}: expected a larger range, such as 10.0.0.0/{_LARGEST_NETWORK}"
        )


def _free(prefix: int) -> int:
    """Addresses for GPU nodes in a subnet of a network with this prefix."""
    return (1 << (32 - prefix - SUBNET_BITS)) - _RESERVED_ADDRESSES - _SYSTEM_ADDRESSES
