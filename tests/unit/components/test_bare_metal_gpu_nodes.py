"""Nodes that are already there, turned into a placement."""

from typing import cast

import pulumi
import pytest

from components.bare_metal_gpu_nodes import BareMetalGpuNodes, BareMetalGpuNodesArgs
from components.pods.placement import PodPlacement
from config.stack import arguments
from config.stack.sections import Fabric, FabricKind, Taint, TaintEffect
from tests.recording_engine import Recording, record
from tests.unit.components.samples import UNNAMED


def named(args: BareMetalGpuNodesArgs) -> tuple[Recording, PodPlacement]:
    made: list[BareMetalGpuNodes] = []
    recording = record(lambda: made.append(BareMetalGpuNodes("nodes", args)))
    return recording, PodPlacement.of(made[0].placement)


H200S: BareMetalGpuNodesArgs = {
    "hostnames": ["h200-1", "h200-0"],
    "gpu_resource": "nvidia.com/gpu",
    "nvme_path": "/mnt/nvme",
    "fabric": {"kind": FabricKind.INFINIBAND, "resource": "rdma/ib", "count": 8},
    "taints": [{"key": "nvidia.com/gpu"}],
}


def test_nothing_of_a_node_is_touched_so_that_the_end_of_a_stack_makes_no_node_anew() -> None:
    recording, _ = named(H200S)
    assert [registration.type for registration in recording.registrations] == ["heavylift:index:BareMetalGpuNodes"]
    assert recording.outputs_of("BareMetalGpuNodes") == [{"hostnames": ["h200-1", "h200-0"], "nodes": 2}]


def test_the_placement_leads_pods_to_the_named_nodes_with_all_that_is_known_of_them() -> None:
    _, placement = named(H200S)
    assert placement == PodPlacement(
        nodes=2,
        hostnames=("h200-1", "h200-0"),
        taints=(Taint(key="nvidia.com/gpu"),),
        gpu_resource="nvidia.com/gpu",
        fabric=Fabric(kind=FabricKind.INFINIBAND, resource="rdma/ib", count=8),
        nvme_path="/mnt/nvme",
    )
    required = placement.scheduling()["affinity"]["node_affinity"][
        "required_during_scheduling_ignored_during_execution"
    ]
    among = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["h200-0", "h200-1"]}
    assert required == {"node_selector_terms": [{"match_expressions": [among]}]}


def test_without_names_pods_may_go_anywhere() -> None:
    _, placement = named({})
    assert placement == PodPlacement()
    assert placement.scheduling() == {}


def test_without_names_pods_find_their_nodes_by_label() -> None:
    assert PodPlacement.of(UNNAMED).scheduling() == {"node_selector": {"pool": "gpu"}}


def test_names_and_number_of_nodes_that_disagree_are_refused() -> None:
    with pytest.raises(pulumi.RunError, match=r"placement\.nodes: is 3, and placement\.hostnames has 1 names"):
        PodPlacement.of({"nodes": 3, "hostnames": ["h200-0"]})


def test_a_key_that_no_taint_has_is_refused() -> None:
    taint = cast(arguments.Taint, {"key": "gpu", "operator": "Exists"})
    with pytest.raises(pulumi.RunError, match=r"heavylift:taints\.operator: is not a known key"):
        PodPlacement.of({"nodes": 1, "taints": [taint]})


def test_a_pod_may_be_tied_to_one_node_of_the_placement() -> None:
    _, placement = named(H200S)
    scheduling = placement.scheduling("h200-0")
    assert scheduling["node_selector"] == {"kubernetes.io/hostname": "h200-0"}
    assert "affinity" not in scheduling


@pytest.mark.parametrize(
    ("taint", "toleration"),
    [
        (Taint(key="gpu"), {"key": "gpu", "operator": "Exists"}),
        (Taint(key="gpu", value="yes"), {"key": "gpu", "operator": "Equal", "value": "yes"}),
        (
            Taint(key="gpu", value="", effect=TaintEffect.NO_EXECUTE),
            {"key": "gpu", "operator": "Equal", "value": "", "effect": "NoExecute"},
        ),
    ],
)
def test_a_taint_of_the_nodes_becomes_a_toleration_of_the_pods(taint: Taint, toleration: dict[str, str]) -> None:
    assert PodPlacement(taints=[taint]).scheduling() == {"tolerations": [toleration]}
