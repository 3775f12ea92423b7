"""What is said of a cluster before anything is made: all of its faults at once, or what is there already."""

from dataclasses import replace
from typing import Any

import pytest

from components.cluster.facts import ClusterFacts, NodeFacts, VolumeFacts
from components.cluster.nodes_fit import node_faults, stage_candidates, stray_server
from components.cluster.preflight import unmounted_disks, volume_faults
from config.stack.sections import StackConfig

GIB = 2**30
SECTIONS: dict[str, Any] = {
    "nodes": {
        "names": ["h200-0"],
        "gpu": "h200",
        "gpus_per_node": 8,
        "driver": "580.95",
        "nvme_path": "/mnt/nvme",
        "fabric": {"kind": "infiniband", "resource": "rdma/ib", "count": 8},
        "taints": [{"key": "nvidia.com/gpu"}],
    },
    "model": {"repository": "moonshotai/Kimi-K2.5", "revision": "4d01dfe0332d63057c186e0b262165819efb6611"},
    "weights": {"kind": "local"},
    "stage": {"image": "python:3.12-slim"},
    "engine": {"name": "vllm", "version": "0.33.0", "image": "vllm/vllm-openai:v0.33.0"},
}
STACK = StackConfig.parse(SECTIONS)
NODE = NodeFacts(
    name="h200-0",
    labels={
        "kubernetes.io/hostname": "h200-0",
        "nvidia.com/cuda.driver-version.full": "580.95.05",
        "nvidia.com/gpu.product": "NVIDIA-H200",
    },
    taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}, {"key": "soft", "effect": "PreferNoSchedule"}],
    allocatable={"nvidia.com/gpu": "8", "rdma/ib": "8"},
)
ANYWHERE = StackConfig.parse(
    SECTIONS
    | {
        "nodes": {},
        "weights": {"kind": "host-path", "path": "/var/lib/weights"},
        "engine": {"name": "llama.cpp", "version": "b1", "image": "server"},
    }
)


def test_devices_by_the_thousand_are_counted_as_kubernetes_writes_them() -> None:
    shared = replace(NODE, allocatable={"nvidia.com/gpu": "8", "rdma/ib": "1k"})
    assert node_faults(STACK, [shared]) == []


def with_labels(**labels: str) -> NodeFacts:
    return replace(NODE, labels={**NODE.labels, **{key.replace("__", "/"): value for key, value in labels.items()}})


def test_a_node_that_has_all_of_it_has_no_fault() -> None:
    assert node_faults(STACK, [NODE]) == []


@pytest.mark.parametrize("product", ["NVIDIA-H200", "NVIDIA-H200-NVL", "NVIDIA-H200-SXM-141GB"])
def test_a_form_of_the_gpu_is_that_gpu(product: str) -> None:
    whole = {"nvidia.com__gpu.product": product, "nvidia.com__gpu.sharing-strategy": "none"}
    assert node_faults(STACK, [with_labels(**whole, **{"nvidia.com__gpu.replicas": "1"})]) == []


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-H200-MIG-1g.18gb"),
        ("nvidia.com/gpu.product", "NVIDIA-H200-SHARED"),
        ("nvidia.com/gpu.sharing-strategy", "time-slicing"),
        ("nvidia.com/gpu.sharing-strategy", "mps"),
        ("nvidia.com/gpu.replicas", "4"),
        ("nvidia.com/vgpu.present", "true"),
    ],
)
def test_a_gpu_that_is_not_whole_is_a_fault_with_the_label_that_says_so(label: str, value: str) -> None:
    [fault] = node_faults(STACK, [replace(NODE, labels={**NODE.labels, label: value})])
    assert f"has GPUs that are shared or not whole ({label}={value})" in fault


def test_a_gpu_whose_name_only_begins_alike_is_another() -> None:
    sections = SECTIONS | {"nodes": SECTIONS["nodes"] | {"gpu": "l4"}}
    [fault] = node_faults(StackConfig.parse(sections), [with_labels(**{"nvidia.com__gpu.product": "NVIDIA-L40S"})])
    assert "has GPUs of the kind NVIDIA-L40S: expected l4" in fault


@pytest.mark.parametrize(
    ("taint", "words"),
    [
        ("node.kubernetes.io/disk-pressure", "is short of disk"),
        ("node.kubernetes.io/memory-pressure", "is short of memory"),
        ("node.kubernetes.io/network-unavailable", "has no network for pods yet"),
    ],
)
def test_a_taint_of_the_nodes_state_is_told_as_that_state(taint: str, words: str) -> None:
    [fault] = node_faults(STACK, [replace(NODE, taints=[*NODE.taints, {"key": taint, "effect": "NoSchedule"}])])
    assert words in fault
    assert "heavylift:nodes.taints" not in fault


@pytest.mark.parametrize(
    ("node", "fault"),
    [
        (replace(NODE, not_ready="kubelet stopped"), "is not Ready (kubelet stopped)"),
        (replace(NODE, cordoned=True), "is cordoned; `kubectl uncordon` it"),
        (
            replace(NODE, cordoned=True, taints=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            "is cordoned; `kubectl uncordon` it",
        ),
        (
            replace(
                NODE,
                not_ready="kubelet stopped",
                taints=[
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoSchedule"},
                    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
                ],
            ),
            "is not Ready (kubelet stopped)",
        ),
        (
            replace(NODE, taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]),
            "has the taint node.kubernetes.io/not-ready=:NoSchedule, which heavylift:nodes.taints does not list",
        ),
        (
            replace(NODE, allocatable={"nvidia.com/gpu": "4", "rdma/ib": "8"}),
            "has 4 of 8 nvidia.com/gpu allocatable; repair the node, or lower heavylift:nodes.gpus_per_node",
        ),
        (
            replace(NODE, allocatable={"nvidia.com/gpu": "8"}),
            "has 0 of 8 rdma/ib allocatable; repair the node, or lower heavylift:nodes.fabric.count",
        ),
        (
            replace(NODE, taints=[{"key": "maintenance", "value": "today", "effect": "NoExecute"}]),
            "has the taint maintenance=today:NoExecute, which heavylift:nodes.taints does not list",
        ),
        (
            with_labels(**{"nvidia.com__cuda.driver-version.full": "570.195.03"}),
            "has driver 570.195.03: expected 580.95 (heavylift:nodes.driver)",
        ),
        (
            with_labels(**{"nvidia.com__cuda.driver-version.full": "580.950.1"}),
            "has driver 580.950.1: expected 580.95 (heavylift:nodes.driver)",
        ),
        (
            with_labels(**{"nvidia.com__gpu.product": "NVIDIA-H100-80GB-HBM3"}),
            "has GPUs of the kind NVIDIA-H100-80GB-HBM3: expected h200 (heavylift:nodes.gpu)",
        ),
        (
            with_labels(**{"kubernetes.io__hostname": "other"}),
            "its label kubernetes.io/hostname is 'other': expected the node's name",
        ),
    ],
)
def test_a_fault_of_a_node_is_said_with_what_to_do(node: NodeFacts, fault: str) -> None:
    assert node_faults(STACK, [node]) == [f"node h200-0: {fault}"]


def test_a_name_that_does_not_exist_is_refused_with_those_that_do() -> None:
    nodes = [replace(NODE, name=name) for name in ("h200-b", "h200-a")]
    assert node_faults(STACK, nodes) == [
        "node h200-0: does not exist; expected one of h200-a, h200-b in heavylift:nodes.names"
    ]


def test_all_faults_of_all_nodes_come_at_once() -> None:
    stack = StackConfig.parse(
        SECTIONS | {"nodes": SECTIONS["nodes"] | {"names": ["h200-0", "h200-1"]}, "weights": {"kind": "host-path"}}
    )
    broken = replace(NODE, cordoned=True, allocatable={})
    assert len(node_faults(stack, [broken])) == 4, "cordoned, no GPU, no fabric; and the second node is missing"


def test_a_driver_or_gpu_that_no_label_tells_is_not_held_against_the_node() -> None:
    assert node_faults(STACK, [replace(NODE, labels={"kubernetes.io/hostname": "h200-0"})]) == []


def test_without_names_the_only_node_is_taken() -> None:
    assert node_faults(ANYWHERE, [NodeFacts("kind-control-plane")]) == []


def test_without_names_a_tainted_control_plane_does_not_count() -> None:
    tainted = NodeFacts("control", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
    assert node_faults(ANYWHERE, [tainted, NodeFacts("worker")]) == []


def test_without_names_weights_on_one_of_several_nodes_are_refused() -> None:
    assert node_faults(ANYWHERE, [NodeFacts("b"), NodeFacts("a")]) == [
        "heavylift:nodes.names: is missing: weights of kind host-path lie on one node, and 2 would do (a, b); name one"
    ]


def test_without_names_a_claim_may_go_to_any_of_several_nodes() -> None:
    stack = ANYWHERE.model_copy(update={"weights": ANYWHERE.weights.model_copy(update={"kind": "claim"})})
    assert node_faults(stack, [NodeFacts("b"), NodeFacts("a")]) == []


def test_without_names_and_without_a_fit_node_the_reason_of_each_is_said() -> None:
    assert node_faults(ANYWHERE, [NodeFacts("a", cordoned=True)]) == ["node a: is cordoned; `kubectl uncordon` it"]
    assert node_faults(ANYWHERE, []) == ["the cluster has no nodes"]


DISK = "heavylift-heavylift-h200-weights-h200-0"


def facts_with_disk(disk: VolumeFacts) -> ClusterFacts:
    return ClusterFacts(disks={DISK: disk, "somebody-elses": VolumeFacts(1)})


def test_a_volume_that_an_earlier_stack_left_is_taken_as_it_is() -> None:
    facts = facts_with_disk(VolumeFacts(1200 * GIB, path="/mnt/nvme"))
    assert volume_faults("h200-weights", STACK, facts, 1165 * GIB) == []


def test_a_volume_too_small_for_other_weights_is_refused_with_three_numbers_and_two_ways_out() -> None:
    facts = facts_with_disk(VolumeFacts(900 * 10**9, path="/mnt/nvme"))
    assert volume_faults("h200-weights", STACK, facts, 1250 * 10**9) == [
        f"volume {DISK}: has 900.0 GB for good, 2 revisions and a margin need 1250.0 GB, 350.0 GB more; prune old "
        "revisions and lower heavylift:weights.keep_revisions, or delete it and let a new one be made"
    ]


def test_a_size_beyond_that_of_the_volume_is_refused_by_its_key() -> None:
    stack = StackConfig.parse(SECTIONS | {"weights": {"kind": "local", "size": "2T"}})
    (fault,) = volume_faults("h200-weights", stack, facts_with_disk(VolumeFacts(10**12, path="/mnt/nvme")), 2 * 10**12)
    assert "has 1000.0 GB for good, heavylift:weights.size asks for 2000.0 GB, 1000.0 GB more" in fault


def test_a_volume_whose_size_cannot_be_read_is_refused_where_it_is_the_stacks_own() -> None:
    facts = facts_with_disk(VolumeFacts(None, path="/mnt/nvme"))
    assert volume_faults("h200-weights", STACK, facts, 1165 * GIB) == [
        f"volume {DISK}: its size cannot be read; delete it and let a new one be made"
    ]


def test_a_volume_in_another_directory_is_refused() -> None:
    facts = facts_with_disk(VolumeFacts(1200 * GIB, path="/mnt/old"))
    assert volume_faults("h200-weights", STACK, facts, 1165 * GIB) == [
        f"volume {DISK}: lies in /mnt/old: expected /mnt/nvme; delete it with its claim, or correct the stack"
    ]


def test_volumes_of_each_node_and_that_of_the_servers_are_held_to_the_stack() -> None:
    stack = StackConfig.parse(SECTIONS | {"nodes": SECTIONS["nodes"] | {"names": ["h200-0", "h200-1"]}})
    names = [f"heavylift-heavylift-h200-weights{suffix}" for suffix in ("-h200-0", "-h200-1", ".served")]
    facts = ClusterFacts(disks={name: VolumeFacts(1200 * GIB, path="/mnt/old") for name in names})
    assert volume_faults("h200-weights", stack, facts, 1165 * GIB) == [
        f"volume {name}: lies in /mnt/old: expected /mnt/nvme; delete it with its claim, or correct the stack"
        for name in names
    ]


def test_a_claim_of_another_storage_class_is_refused() -> None:
    stack = StackConfig.parse(SECTIONS | {"weights": {"kind": "claim", "storage_class": "gp3"}})
    facts = ClusterFacts(claims={"h200-weights": VolumeFacts(1200 * GIB, storage_class="gp2")})
    assert volume_faults("h200-weights", stack, facts, 1165 * GIB) == [
        "claim h200-weights: is of storage class gp2: expected gp3; delete it, or correct the stack"
    ]


@pytest.mark.parametrize(
    ("wanted", "known", "faults"),
    [
        ("gp3", {"gp3": False}, []),
        (None, {"gp3": True}, []),
        ("gp4", {"io2": False, "gp3": True}, ["'gp4' does not exist: expected one of gp3, io2"]),
        (None, {"gp3": False}, ["is missing: the cluster has no default; expected one of gp3"]),
        (None, {}, ["is missing: the cluster has no default; expected one of none"]),
    ],
)
def test_a_claim_that_no_storage_class_would_fill_is_refused(
    wanted: str | None, known: dict[str, bool], faults: list[str]
) -> None:
    stack = StackConfig.parse(SECTIONS | {"weights": {"kind": "claim", "storage_class": wanted}})
    facts = ClusterFacts(storage_classes=known)
    assert volume_faults("h200-weights", stack, facts, 1) == [
        f"heavylift:weights.storage_class: {fault}" for fault in faults
    ]


def test_volumes_of_other_names_do_not_matter() -> None:
    facts = ClusterFacts(disks={"other": VolumeFacts(1)}, claims={"other": VolumeFacts(1)})
    assert volume_faults("h200-weights", STACK, facts, 1165 * GIB) == []


def test_a_node_with_less_memory_or_fewer_cpus_than_the_server_asks_for_is_a_fault() -> None:
    stack = StackConfig.parse(SECTIONS | {"engine": SECTIONS["engine"] | {"memory": "256Gi", "cpus": 48}})
    room = {**NODE.allocatable, "cpu": "47500m", "memory": "224Gi"}
    assert node_faults(stack, [replace(NODE, allocatable=room)]) == [
        "node h200-0: has 47500m of cpu allocatable, and the server asks for 48000m; lower heavylift:engine.cpus, or "
        "name another node",
        "node h200-0: has 224.0Gi of memory allocatable, and the server asks for 256.0Gi; lower "
        "heavylift:engine.memory, or name another node",
    ]
    assert node_faults(stack, [replace(NODE, allocatable={**room, "cpu": "48", "memory": "256Gi"})]) == []


UNNAMED = StackConfig.parse(
    SECTIONS
    | {
        "nodes": {key: value for key, value in SECTIONS["nodes"].items() if key != "names"},
        "weights": {"kind": "claim"},
    }
)
CPU = NodeFacts("cpu-0", labels={"kubernetes.io/hostname": "cpu-0"}, allocatable={"cpu": "8"})


def test_the_jobs_land_only_on_nodes_that_can_serve() -> None:
    """A class of local disks binds a claim to the node of its first pod, and keeps the weights there."""
    other = replace(NODE, name="h200-1", labels={**NODE.labels, "kubernetes.io/hostname": "rack-1"})
    small = replace(NODE, name="h200-2", allocatable={"nvidia.com/gpu": "4", "rdma/ib": "8"})
    assert stage_candidates(UNNAMED, [NODE, other, small, CPU]) == ["h200-0", "rack-1"]
    assert stage_candidates(UNNAMED, [NODE, other]) == (), "any node can serve"
    assert stage_candidates(STACK, [NODE, CPU]) == (), "its nodes are named"


def test_a_node_that_is_closed_to_the_jobs_anyway_binds_them_to_nothing() -> None:
    closed = replace(CPU, taints=[{"key": "control-plane", "effect": "NoSchedule"}])
    assert stage_candidates(UNNAMED, [NODE, closed, replace(CPU, cordoned=True)]) == ()


def test_a_server_that_may_start_on_gpus_of_another_kind_is_a_warning() -> None:
    h100 = replace(NODE, name="h100-0", labels={"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"})
    words = stray_server(UNNAMED, [NODE, h100]) or ""
    assert words.startswith("the server may start on h100-0, whose GPUs are not h200")
    assert stray_server(UNNAMED, [NODE, CPU, replace(h100, allocatable={"nvidia.com/gpu": "4"})]) is None
    assert stray_server(STACK, [NODE, h100]) is None, "its nodes are named"


def test_a_node_without_disk_for_the_stage_pod_is_a_fault() -> None:
    room = {**NODE.allocatable, "ephemeral-storage": "500Mi"}
    [fault] = node_faults(STACK, [replace(NODE, allocatable=room)])
    assert fault.startswith("node h200-0: has 0.5Gi of ephemeral-storage allocatable, and the stage pod asks for 1.0Gi")
    assert node_faults(STACK, [replace(NODE, allocatable={**room, "ephemeral-storage": "940Gi"})]) == []


def test_disk_pressure_is_named_and_not_called_a_taint_that_the_stack_lacks() -> None:
    taints = [*NODE.taints, {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}]
    [fault] = node_faults(STACK, [replace(NODE, taints=taints)])
    assert fault.startswith("node h200-0: is short of disk: make room on its root or image file system")


def test_weights_that_fit_only_on_a_disk_of_their_own_are_a_warning_where_no_mount_point_is_named() -> None:
    weights = {"kind": "local", "path": "/data/weights"}
    elsewhere = StackConfig.parse(SECTIONS | {"weights": weights})
    small = replace(NODE, allocatable={"ephemeral-storage": "500Gi"})
    words = unmounted_disks(elsewhere, [small], 1200 * GIB) or ""
    assert words.startswith("heavylift:weights.path: /data/weights must be the mount point of a disk of its own")
    assert "h200-0 536.9 GB" in words
    assert unmounted_disks(elsewhere, [replace(NODE, allocatable={"ephemeral-storage": "2Ti"})], 1200 * GIB) is None
    assert unmounted_disks(STACK, [small], 1200 * GIB) is None, "the stack names the mount point"
