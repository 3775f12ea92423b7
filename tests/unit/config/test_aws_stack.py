"""What a stack on AWS may say, what follows from its instance type, and what it is told when it contradicts that."""

from copy import deepcopy
from typing import Any

import pytest

from config.catalogue import CapacityKind, control_plane_zones, regions
from config.errors import StackError
from config.stack.overrides import overridden
from config.stack.sections import FabricKind, StackConfig, TaintEffect
from planner.stack_request import request_of_stack
from tests import recorded_ec2

BLOCK = {"kind": "capacity-block", "id": "cr-0123456789abcdef0"}
GOOD: dict[str, Any] = {
    "aws": {"region": "us-east-2", "cluster": {"create": {}}, "public_access_cidrs": ["198.18.7.0/24"]},
    "nodes": {"kind": "eks", "instance_type": "p5.48xlarge", "count": 2, "zone": "use2-az1", "capacity": BLOCK},
    "model": {"repository": "moonshotai/Kimi-K2.5", "revision": "4d01dfe0332d63057c186e0b262165819efb6611"},
    "weights": {"kind": "host-path"},
    "stage": {"image": "python:3.12-slim"},
    "engine": {"name": "vllm", "version": "0.33.0", "image": "vllm/vllm-openai:v0.33.0", "tensor_parallel": 8},
}


def changed(*changes: tuple[str, Any]) -> dict[str, Any]:
    """The good stack with some values changed; a path is section.key, and None removes the key."""
    sections = deepcopy(GOOD)
    for path, value in changes:
        section, _, key = path.partition(".")
        target, last = (sections.setdefault(section, {}), key) if key else (sections, section)
        if value is None:
            del target[last]
        else:
            target[last] = value
    return sections


def faults(*changes: tuple[str, Any]) -> list[str]:
    with pytest.raises(StackError) as caught:
        StackConfig.parse(changed(*changes))
    return list(caught.value.faults)


def test_hardware_follows_from_the_instance_type() -> None:
    stack = StackConfig.parse(GOOD)
    nodes = stack.nodes
    assert (nodes.gpu, nodes.gpus_per_node, nodes.total, nodes.driver) == ("h100", 8, 2, "580")
    assert stack.weights_path == "/mnt/k8s-disks/0/heavylift"
    assert [(taint.key, taint.effect) for taint in nodes.taints] == [("nvidia.com/gpu", TaintEffect.NO_SCHEDULE)]
    assert nodes.fabric is not None
    assert (nodes.fabric.kind, nodes.fabric.resource, nodes.fabric.count) == (
        FabricKind.EFA,
        "vpc.amazonaws.com/efa",
        32,
    )
    assert not stack.fan_out


def test_one_node_has_no_fabric() -> None:
    assert StackConfig.parse(changed(("nodes.count", 1))).nodes.fabric is None


def test_a_plan_is_for_the_instances_as_they_are_bought() -> None:
    request = request_of_stack(StackConfig.parse(GOOD), None)
    assert (request.instance_type, request.capacity, request.nodes) == ("p5.48xlarge", CapacityKind.CAPACITY_BLOCK, 2)
    assert request.deployment is not None
    assert request.deployment.makes_cluster
    existing = StackConfig.parse({**GOOD, "aws": {"region": "us-east-2", "cluster": {"name": "theirs"}}})
    of_existing = request_of_stack(existing, None).deployment
    assert of_existing is not None
    assert not of_existing.makes_cluster


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            [("nodes.gpu", "h100"), ("nodes.taints", [])],
            [
                "heavylift:nodes.gpu: follows from instance_type p5.48xlarge: expected it to be left out",
                "heavylift:nodes.taints: follows from instance_type p5.48xlarge: expected it to be left out",
            ],
        ),
        (
            [("nodes.names", ["gpu-0"])],
            ["heavylift:nodes.names: has no meaning for kind eks: expected `count`, since AWS names the nodes"],
        ),
        (
            [("nodes.count", None), ("nodes.zone", None)],
            [
                "heavylift:nodes.count: is missing: kind eks expects it",
                "heavylift:nodes.zone: is missing: kind eks expects it",
            ],
        ),
        (
            [("nodes.zone", "usw2-az1")],
            [
                "heavylift:nodes.zone: 'usw2-az1' is not in region us-east-2: expected one of use2-az1, use2-az2, "
                "use2-az3"
            ],
        ),
        (
            [("nodes.capacity", {"kind": "capacity-block"})],
            ["heavylift:nodes.capacity.id: is missing: kind capacity-block expects the ID of yours, such as cr-…"],
        ),
        (
            [("nodes.capacity", {"kind": "on-demand", "id": "cr-0123456789abcdef0"})],
            [
                "heavylift:nodes.capacity.id: 'cr-0123456789abcdef0' has no meaning for kind on-demand: leave it out, "
                "or "
                "state the kind of this reservation"
            ],
        ),
        (
            [("nodes.instance_type", "g6e.48xlarge")],
            ["heavylift:nodes.capacity.kind: g6e.48xlarge has no Capacity Blocks: expected on-demand or reservation"],
        ),
        (
            [("aws", None)],
            ["heavylift:aws: is missing: nodes of kind eks expect the region, such as `region: us-east-2`"],
        ),
        (
            [("cluster.context", "theirs")],
            ["heavylift:cluster.context: has no meaning with heavylift:aws, which names the cluster: leave it out"],
        ),
        (
            [("aws.cluster", {"create": {}, "name": "theirs"})],
            [
                "heavylift:aws.cluster: {'create': {}, 'name': 'theirs'} is not one cluster: expected either "
                "`create: {}` or the `name` of one that exists"
            ],
        ),
        (
            [("aws.cluster", {"name": "theirs"})],
            [
                "heavylift:aws.public_access_cidrs: has no meaning for a cluster that exists: expected it with "
                "`create` "
                "only"
            ],
        ),
        (
            [("aws.public_access_cidrs", ["0.0.0.0/0"])],
            [
                "heavylift:aws.public_access_cidrs: ['0.0.0.0/0'] opens the API server to everyone, or nearly: "
                "expected the ranges that you reach it from, none larger than a /8"
            ],
        ),
        (
            [("aws.cidr", "10.0.0.0/20"), ("nodes.count", 2)],
            [
                "heavylift:aws.cidr: '10.0.0.0/20' is too small: its subnets have 191 addresses left, and 2 x "
                "p5.48xlarge "
                "take 200: expected a larger range, such as 10.0.0.0/16"
            ],
        ),
        (
            [("aws.mirror", {"bucket": "weights"})],
            [
                "heavylift:aws.mirror.bucket: 'weights' is no source of the stage: expected s3://weights/prefix in "
                "heavylift:stage.sources"
            ],
        ),
        (
            [("weights.kind", "local")],
            [
                "heavylift:weights.kind: 'local' has no meaning for nodes of kind eks, which have no names of their "
                "own, and each volume is tied to its node by name: expected host-path"
            ],
        ),
        (
            [("weights.kind", "claim")],
            [
                "heavylift:weights.kind: 'claim' has no meaning in a cluster that the stack makes, which has no "
                "storage driver: expected host-path, on the nodes' NVMe disks"
            ],
        ),
        (
            [("weights.path", "/data")],
            [
                "heavylift:weights.path: '/data' is not on the nodes' NVMe disks: expected a directory below "
                "/mnt/k8s-disks/0, or leave it out"
            ],
        ),
        (
            [("engine.pipeline_parallel", 2)],
            [
                "heavylift:nodes.install: is without leaderworkerset: a server with 16 GPUs runs on several nodes of "
                "8, and a new cluster lacks the controller for it: expected [leaderworkerset]"
            ],
        ),
        (
            [("nodes.install", ["leaderworkerset", "leaderworkerset"])],
            [
                "heavylift:nodes.install: ['leaderworkerset', 'leaderworkerset'] has leaderworkerset more than once: "
                "expected each once"
            ],
        ),
        (
            [("stage.fan_out", True), ("stage.lock", "locks/kimi.json")],
            [
                "heavylift:stage.fan_out: is true, and nodes of kind eks cannot share a download: expected it to be "
                "left out; use aws.mirror"
            ],
        ),
        (
            [
                ("nodes.instance_type", "g6.xlarge"),
                ("nodes.capacity", None),
                ("nodes.count", 500),
                ("engine.tensor_parallel", 1),
            ],
            [
                "heavylift:nodes.count: 500 x g6.xlarge take 30000 addresses, and a subnet of the largest network, a "
                "/16, has 4031: expected at most 67 nodes"
            ],
        ),
    ],
)
def test_a_contradiction_is_named(changes: list[tuple[str, Any]], expected: list[str]) -> None:
    assert faults(*changes) == expected


@pytest.mark.parametrize(("instance_type", "count"), [("p5.48xlarge", 1), ("p5.48xlarge", 2), ("g6.xlarge", 2)])
def test_a_fabric_is_never_stated(instance_type: str, count: int) -> None:
    fabric = {"kind": "efa", "resource": "vpc.amazonaws.com/efa", "count": 1}
    nodes = {"kind": "eks", "instance_type": instance_type, "count": count, "zone": "use2-az1", "fabric": fabric}
    assert faults(("nodes", nodes)) == [
        f"heavylift:nodes.fabric: follows from instance_type {instance_type}: expected it to be left out"
    ]


@pytest.mark.parametrize("path", ["/mnt/k8s-disks/0", "/mnt/k8s-disks/01/weights", "/mnt/k8s-disks/1/weights"])
def test_weights_are_below_the_disks_of_the_instance(path: str) -> None:
    (fault,) = faults(("weights.path", path))
    assert "expected a directory below /mnt/k8s-disks/0" in fault
    assert StackConfig.parse(changed(("weights.path", "/mnt/k8s-disks/0/mine"))).weights_path == "/mnt/k8s-disks/0/mine"


def test_a_cluster_that_exists_may_have_storage_and_the_controller() -> None:
    theirs = ("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}})
    assert StackConfig.parse(changed(theirs, ("weights.kind", "claim"), ("engine.pipeline_parallel", 2)))


@pytest.mark.parametrize(
    "ranges",
    [
        ["0.0.0.0/1", "128.0.0.0/1"],
        ["8.0.0.0/8", "9.0.0.0/8"],
        ["198.18.7.0/24", "10.0.0.0/8"],
        ["172.20.0.0/16"],
        ["192.168.7.1/32"],
        ["100.64.0.0/10"],
        ["127.0.0.0/8"],
        ["169.254.169.254/32"],
        ["224.0.0.0/8"],
    ],
)
def test_the_api_server_is_opened_to_public_ranges_of_some(ranges: list[str]) -> None:
    (fault,) = faults(("aws.public_access_cidrs", ranges))
    assert "opens the API server to everyone" in fault or "from which nothing comes over the internet" in fault


@pytest.mark.parametrize(
    "cidr", ["127.0.0.0/16", "169.254.0.0/16", "0.0.0.0/16", "240.0.0.0/16", "240.0.0.0/4", "8.8.0.0/16", "10.0.0.0/8"]
)
def test_the_network_has_a_range_that_a_vpc_can_have(cidr: str) -> None:
    (fault,) = faults(("aws.cidr", cidr))
    assert fault.startswith(f"heavylift:aws.cidr: '{cidr}' is not a range for the network")


@pytest.mark.parametrize("source", ["s3://weights/../kimi", "s3://weights/./kimi", "s3://weights/..", "/mirror/../x"])
def test_a_source_has_no_relative_parts(source: str) -> None:
    (fault,) = faults(("stage.sources", [source]))
    assert fault.startswith(f"heavylift:stage.sources[0]: '{source}' is not valid: expected hub, s3://bucket/prefix")


def test_an_unknown_type_is_told_which_are_close() -> None:
    (fault,) = faults(("nodes.instance_type", "p5en.48"))
    assert "p5en.48xlarge" in fault


def test_bare_metal_says_nothing_of_aws() -> None:
    found = faults(("nodes", {"gpu": "h100", "gpus_per_node": 8, "count": 2, "nvme_path": "/mnt/nvme"}))
    assert found == [
        "heavylift:nodes.count: has no meaning for kind bare-metal: expected it with kind eks only",
        "heavylift:aws: has no meaning for nodes of kind bare-metal: expected nodes of kind eks",
    ]


def test_bare_metal_of_one_node_needs_no_controller_and_replaces_no_nodes() -> None:
    nodes = {"gpu": "h100", "gpus_per_node": 8, "nvme_path": "/mnt/nvme"}
    found = faults(("aws", None), ("nodes", nodes | {"allow_replacement": True, "install": ["leaderworkerset"]}))
    assert found == [
        "heavylift:nodes.allow_replacement: has no meaning for kind bare-metal: expected it with kind eks only",
        "heavylift:nodes.install: leaderworkerset has no meaning with one node: expected it for a server over several "
        "nodes",
    ]


def test_a_kubeconfig_of_this_machine_does_not_reach_a_stack_on_aws() -> None:
    sections, notes = overridden(GOOD, {"HEAVYLIFT_KUBECONFIG": "/tmp/k", "HEAVYLIFT_KUBE_CONTEXT": "lab"})
    assert sections == GOOD
    assert notes == []


def test_zones_are_what_ec2_answered() -> None:
    assert {name: list(zones) for name, zones in regions().items()} == recorded_ec2.regions()


def test_the_control_plane_is_in_two_zones_and_avoids_those_that_eks_does_not_take() -> None:
    assert control_plane_zones("us-east-2", "use2-az2") == ("use2-az2", "use2-az1")
    assert control_plane_zones("us-east-1", "use1-az3") == ("use1-az1", "use1-az2")
