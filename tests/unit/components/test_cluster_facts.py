"""The reading of a cluster, against an API server that gives real answers over real HTTP."""

import socket
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.facts import ClusterFacts, NodeFacts, PodFacts, VolumeFacts, read_cluster
from config.stack.sections import WeightsKind
from tests.unit.components.api_server import Answer, api_server, kubeconfig

NODE = {
    "metadata": {"name": "h200-0", "labels": {"kubernetes.io/hostname": "h200-0"}},
    "spec": {"unschedulable": True, "taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"nvidia.com/gpu": "8"},
        "conditions": [
            {"type": "MemoryPressure", "status": "False"},
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting"},
        ],
    },
}
WAITING = {
    "metadata": {"name": "dev-weights"},
    "spec": {"resources": {"requests": {"storage": "5Gi"}}, "storageClassName": "gp3"},
    "status": {"phase": "Pending"},
}
BOUND = {**WAITING, "metadata": {"name": "h200-weights"}, "status": {"capacity": {"storage": "8Gi"}}}
DISKS = [
    {"metadata": {"name": "local"}, "spec": {"capacity": {"storage": "1Ti"}, "local": {"path": "/mnt/nvme"}}},
    {
        "metadata": {"name": "bound"},
        "spec": {"capacity": {"storage": "1Ti"}, "csi": {}, "storageClassName": "gone"},
        "status": {"phase": "Bound"},
    },
    {
        "metadata": {"name": "by-hand"},
        "spec": {"capacity": {"storage": "1Ti"}, "nfs": {}, "storageClassName": "shared"},
        "status": {"phase": "Available"},
    },
]
CLASSES = [
    {"metadata": {"name": "gp3", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}},
    {"metadata": {"name": "io2"}},
]
ANSWERS: dict[str, Any] = {
    "/api/v1/namespaces/kube-system": {"metadata": {"uid": "1234"}},
    "/api/v1/namespaces/serving": {"metadata": {"labels": {"team": "a"}}},
    "/api/v1/nodes": {"items": [NODE]},
    "/api/v1/namespaces/serving/persistentvolumeclaims": {"items": [WAITING, BOUND]},
    "/api/v1/persistentvolumes": {"items": DISKS},
    "/apis/storage.k8s.io/v1/storageclasses": {"items": CLASSES},
    "/apis/apps/v1/daemonsets": {"items": [{"metadata": {"name": "cilium"}}]},
}


def test_all_that_matters_of_a_cluster_is_read() -> None:
    with api_server(ANSWERS) as api:
        facts = read_cluster(api, "serving", WeightsKind.CLAIM)
    assert facts == ClusterFacts(
        nodes=[
            NodeFacts(
                name="h200-0",
                not_ready="Kubelet stopped posting",
                cordoned=True,
                labels={"kubernetes.io/hostname": "h200-0"},
                taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}],
                allocatable={"nvidia.com/gpu": "8"},
            )
        ],
        namespace_labels={"team": "a"},
        claims={
            "dev-weights": VolumeFacts(5 * 2**30, storage_class="gp3"),
            "h200-weights": VolumeFacts(8 * 2**30, storage_class="gp3"),
        },
        disks={"local": VolumeFacts(2**40, path="/mnt/nvme")},
        storage_classes={"gp3": True, "io2": False, "shared": False},
    )


@pytest.mark.parametrize(
    ("quantity", "size"),
    [
        ("1e12", 10**12),
        ("5Ei", 5 * 2**60),
        ("1E", 10**18),
        ("100m", 1),
        ("9007199254740993", 2**53 + 1),
        ("1.5Gi", 1_610_612_736),
        ("much", None),
        ("", None),
        (None, None),
    ],
)
def test_the_size_of_anybodys_volume_is_read_as_kubernetes_reads_it(quantity: str | None, size: int | None) -> None:
    strange = {"metadata": {"name": "x"}, "spec": {"capacity": {"storage": quantity}, "local": {"path": "/mnt"}}}
    with api_server(ANSWERS | {"/api/v1/persistentvolumes": {"items": [strange, *DISKS]}}) as api:
        disks = read_cluster(api, "serving", WeightsKind.LOCAL).disks
    assert disks == {"x": VolumeFacts(size, path="/mnt"), "local": VolumeFacts(2**40, path="/mnt/nvme")}


POD = {
    "metadata": {"name": "train-0", "namespace": "team-a", "labels": {"team": "a"}},
    "spec": {
        "nodeName": "h200-0",
        "containers": [{"resources": {"requests": {"nvidia.com/gpu": "4"}}}],
        "initContainers": [{"resources": {"requests": {"nvidia.com/gpu": "2"}}}],
    },
}
PODS = "/api/v1/pods?fieldSelector=spec.nodeName=h200-0,status.phase!=Succeeded,status.phase!=Failed"
LISTS = ANSWERS | {PODS: {"items": [POD]}}


def fields(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The path of every field and element below a value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield (*path, key)
        yield from fields(value[key], *path, key)


def without(value: Any, path: tuple[Any, ...], *, null: bool) -> Any:
    """The value with one of its fields null, or absent."""
    changed = deepcopy(value)
    *parents, last = path
    holder = changed
    for key in parents:
        holder = holder[key]
    if null:
        holder[last] = None
    else:
        del holder[last]
    return changed


class Recorded(ClusterApi):
    """Recorded answers in place of an API server: hundreds of them, which real HTTP would make slow."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__({})
        self._answers = answers

    def find(self, path: str, **query: str) -> dict[str, Any] | None:
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        answer: dict[str, Any] | None = self._answers.get(f"{path}?{asked}" if asked else path)
        return answer


@pytest.mark.parametrize("null", [True, False], ids=["null", "absent"])
@pytest.mark.parametrize("path", [path for path, answer in LISTS.items() if "items" in answer])
def test_an_object_that_lacks_a_field_hides_no_other(path: str, null: bool) -> None:
    objects = LISTS[path]["items"]
    for field in fields(objects):
        if len(field) == 1:
            continue  # a list without the object itself
        strange = [without(objects, field, null=null)[field[0]], *objects]
        api = Recorded(LISTS | {path: {"items": strange}})
        facts = read_cluster(api, "serving", WeightsKind.CLAIM, pods_of=["h200-0"])
        assert facts.pods_hidden is None, field
        assert {node.name for node in facts.nodes} >= {"h200-0"}, field
        assert [pod.name for pod in facts.pods][-1] == "train-0", field
        assert {"dev-weights", "h200-weights"} <= set(facts.claims), field
        assert "local" in facts.disks, field
        assert set(facts.storage_classes) >= {"gp3", "io2", "shared"}, field


def test_a_volume_by_hand_without_a_class_fills_a_claim_that_names_none() -> None:
    disk = {
        "metadata": {"name": "d"},
        "spec": {"capacity": {"storage": "1Ti"}, "nfs": {}},
        "status": {"phase": "Available"},
    }
    answers = ANSWERS | {
        "/api/v1/persistentvolumes": {"items": [disk]},
        "/apis/storage.k8s.io/v1/storageclasses": {"items": []},
    }
    with api_server(answers) as api:
        assert read_cluster(api, "serving", WeightsKind.CLAIM).storage_classes == {"": True}


def test_local_disks_are_read_where_weights_lie_on_them() -> None:
    with api_server(ANSWERS) as api:
        facts = read_cluster(api, "serving", WeightsKind.LOCAL)
    assert facts.disks == {"local": VolumeFacts(2**40, path="/mnt/nvme")}
    assert (facts.claims, facts.storage_classes) == ({}, {})


def test_the_directory_that_servers_of_several_nodes_mount_is_read_too() -> None:
    directory = {"capacity": {"storage": "1Ti"}, "hostPath": {"path": "/mnt/nvme", "type": "Directory"}}
    served = {"metadata": {"name": "weights.served"}, "spec": directory}
    with api_server(ANSWERS | {"/api/v1/persistentvolumes": {"items": [served]}}) as api:
        disks = read_cluster(api, "serving", WeightsKind.LOCAL).disks
    assert disks == {"weights.served": VolumeFacts(2**40, path="/mnt/nvme")}


@pytest.mark.parametrize(
    ("answer", "there"),
    [
        ({"kind": "APIResourceList", "resources": []}, True),
        (None, False),
        ((404, "404 page not found\n"), False),
    ],
    ids=["there", "not there", "not there, in plain text"],
)
def test_whether_there_is_an_api_for_groups_is_asked_where_it_matters(answer: Answer, there: bool) -> None:
    with api_server(ANSWERS | {"/apis/leaderworkerset.x-k8s.io/v1": answer}) as api:
        assert read_cluster(api, "serving", WeightsKind.HOST_PATH, groups=True).leader_worker_sets is there
        assert read_cluster(api, "serving", WeightsKind.HOST_PATH).leader_worker_sets is False


def test_the_pods_of_the_nodes_asked_about_are_read_one_node_at_a_time() -> None:
    gpus, fabric = {"nvidia.com/gpu": "4", "cpu": "8"}, {"rdma/ib": "1k"}
    training = {
        "metadata": {"name": "train-0", "namespace": "team-a", "labels": {"team": "a"}},
        "spec": {
            "nodeName": "h200-0",
            "priority": -5,
            "containers": [{"resources": {"requests": gpus}}, {"resources": {"requests": gpus | fabric}}, {}],
            "initContainers": [{"resources": {"requests": {"nvidia.com/gpu": "2", "example.com/disk": "1"}}}],
        },
    }
    ending = {
        "metadata": {"name": "old", "namespace": "b", "deletionTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"nodeName": "h200-1", "containers": [{}]},
    }
    query = "/api/v1/pods?fieldSelector=spec.nodeName={},status.phase!=Succeeded,status.phase!=Failed"
    pods = {query.format("h200-0"): {"items": [training]}, query.format("h200-1"): {"items": [ending]}}
    with api_server(ANSWERS | pods) as api:
        facts = read_cluster(api, "serving", WeightsKind.HOST_PATH, pods_of=["h200-0", "h200-1"])
    devices = {"nvidia.com/gpu": 8, "rdma/ib": 1000, "example.com/disk": 1, "cpu": 16000}
    assert facts.pods == (
        PodFacts("team-a", "train-0", "h200-0", labels={"team": "a"}, devices=devices, priority=-5),
        PodFacts("b", "old", "h200-1", terminating=True),
    )
    assert facts.pods_hidden is None


def test_who_may_not_look_at_pods_learns_the_rest_all_the_same() -> None:
    with api_server(ANSWERS, status=403) as api:
        facts = read_cluster(api, "serving", WeightsKind.CLAIM, pods_of=["h200-0"])
    assert facts.pods_hidden is not None
    assert facts.pods_hidden.startswith("status 403, /api/v1/pods")
    assert [node.name for node in facts.nodes] == ["h200-0"]


def test_a_namespace_that_is_missing_is_no_fault() -> None:
    answers = {path: answer for path, answer in ANSWERS.items() if path != "/api/v1/namespaces/serving"}
    with api_server(answers) as api:
        assert read_cluster(api, "serving", WeightsKind.HOST_PATH).namespace_labels is None


def test_a_refusal_is_said_with_the_servers_own_words() -> None:
    with api_server({}, status=403) as api, pytest.raises(ClusterUnreachable) as caught:
        read_cluster(api, "serving", WeightsKind.HOST_PATH)
    assert str(caught.value) == "status 403, /api/v1/namespaces/serving is forbidden to nobody"


def test_something_that_is_no_api_server_is_said_to_be_none() -> None:
    with (
        api_server({"/api/v1/namespaces/serving": b"<html>login</html>"}) as api,
        pytest.raises(ClusterUnreachable, match="not that"),
    ):
        read_cluster(api, "serving", WeightsKind.HOST_PATH)


def test_a_cluster_that_does_not_answer_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ClusterUnreachable) as caught:
        read_cluster(ClusterApi(kubeconfig(port)), "serving", WeightsKind.HOST_PATH)
    assert "\n" not in str(caught.value)
    assert "Connection refused" in str(caught.value)
