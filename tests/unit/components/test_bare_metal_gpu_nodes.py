"""Nodes that are already there, turned into a placement."""

import pytest

from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.pods.placement import Placement
from config.stack.sections import Fabric, FabricKind, Nodes, Taint, TaintEffect
from tests.recording_engine import Recording, record


def named(nodes: Nodes) -> tuple[Recording, Placement]:
    made: list[BareMetalGpuNodes] = []
    recording = record(lambda: made.append(BareMetalGpuNodes("nodes", {"nodes": nodes})))
    return recording, made[0].placement


H200S = Nodes(
    names=["h200-1", "h200-0"],
    gpu="h200",
    gpus_per_node=8,
    nvme_path="/mnt/nvme",
    fabric=Fabric(kind=FabricKind.INFINIBAND, resource="rdma/ib", count=8),
    taints=[Taint(key="nvidia.com/gpu")],
)


def test_nothing_of_a_node_is_touched_so_that_the_end_of_a_stack_makes_no_node_anew() -> None:
    recording, _ = named(H200S)
    assert [registration.type for registration in recording.registrations] == ["heavylift:index:BareMetalGpuNodes"]


def test_the_placement_leads_pods_to_the_named_nodes_with_all_that_is_known_of_them() -> None:
    _, placement = named(H200S)
    assert placement == Placement(
        hostnames=("h200-1", "h200-0"),
        taints=(Taint(key="nvidia.com/gpu"),),
        gpu_resource="nvidia.com/gpu",
        fabric=H200S.fabric,
        nvme_path="/mnt/nvme",
    )
    required = placement.scheduling()["affinity"]["node_affinity"][
        "required_during_scheduling_ignored_during_execution"
    ]
    among = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["h200-0", "h200-1"]}
    assert required == {"node_selector_terms": [{"match_expressions": [among]}]}


def test_without_names_pods_may_go_anywhere() -> None:
    _, placement = named(Nodes())
    assert placement == Placement()
    assert placement.scheduling() == {}


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
    assert Placement(taints=[taint]).scheduling() == {"tolerations": [toleration]}
