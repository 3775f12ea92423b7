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
                "heavylift:aws.public_access_cidrs: ['0.0.0.0/0'] opens the API server to everyone: expected the "
                "ranges "
                "that you reach it from"
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
                "heavylift:weights.kind: 'local' with 0 nodes: expected one name in nodes.names, since its claim ties "
                "every pod to one node; use host-path for several"
            ],
        ),
    ],
)
def test_a_contradiction_is_named(changes: list[tuple[str, Any]], expected: list[str]) -> None:
    assert faults(*changes) == expected


def test_an_unknown_type_is_told_which_are_close() -> None:
    (fault,) = faults(("nodes.instance_type", "p5en.48"))
    assert "p5en.48xlarge" in fault


def test_bare_metal_says_nothing_of_aws() -> None:
    found = faults(("nodes", {"gpu": "h100", "gpus_per_node": 8, "count": 2, "nvme_path": "/mnt/nvme"}))
    assert found == [
        "heavylift:nodes.count: has no meaning for kind bare-metal: expected it with kind eks only",
        "heavylift:aws: has no meaning for nodes of kind bare-metal: expected nodes of kind eks",
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
