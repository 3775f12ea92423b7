"""Nodes that are already there: labelled, and turned into a placement."""

import pytest

from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.pods.placement import Placement
from config.stack.sections import Fabric, FabricKind, Nodes, Taint, TaintEffect
from tests.recording_engine import Recording, record


def labelled(nodes: Nodes) -> tuple[Recording, Placement]:
    made: list[BareMetalGpuNodes] = []
    recording = record(lambda: made.append(BareMetalGpuNodes("nodes", {"instance": "h200", "nodes": nodes})))
    return recording, made[0].placement


H200S = Nodes(
    names=["h200-1", "h200-0"],
    gpu="h200",
    gpus_per_node=8,
    nvme_path="/mnt/nvme",
    fabric=Fabric(kind=FabricKind.INFINIBAND, resource="rdma/ib", count=8),
    taints=[Taint(key="nvidia.com/gpu")],
)


def test_each_named_node_gets_a_label_of_the_stack_and_nothing_else() -> None:
    recording, _ = labelled(H200S)
    assert {patch.name: dict(patch.inputs["metadata"]) for patch in recording.of_type(":NodePatch")} == {
        "nodes-h200-1": {"name": "h200-1", "labels": {"pool.heavylift/h200": "true"}},
        "nodes-h200-0": {"name": "h200-0", "labels": {"pool.heavylift/h200": "true"}},
    }
    assert all("spec" not in patch.inputs for patch in recording.of_type(":NodePatch")), "taints are not ours to set"


def test_the_placement_leads_pods_to_the_labelled_nodes_with_all_that_is_known_of_them() -> None:
    _, placement = labelled(H200S)
    assert placement == Placement(
        node_selector={"pool.heavylift/h200": "true"},
        hostnames=("h200-1", "h200-0"),
        taints=(Taint(key="nvidia.com/gpu"),),
        gpu_resource="nvidia.com/gpu",
        fabric=H200S.fabric,
        nvme_path="/mnt/nvme",
    )


def test_without_names_nothing_is_labelled_and_pods_may_go_anywhere() -> None:
    recording, placement = labelled(Nodes())
    assert [registration.type for registration in recording.registrations] == ["heavylift:index:BareMetalGpuNodes"]
    assert placement == Placement()
    assert placement.scheduling() == {}


def test_a_pod_may_be_tied_to_one_node_of_the_placement() -> None:
    _, placement = labelled(H200S)
    assert placement.scheduling("h200-0")["node_selector"] == {
        "pool.heavylift/h200": "true",
        "kubernetes.io/hostname": "h200-0",
    }


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
