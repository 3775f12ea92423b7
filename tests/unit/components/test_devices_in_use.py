"""Who holds the devices of the stack's nodes, and whether that keeps the server from starting."""

from dataclasses import replace
from typing import Any

import pytest

from components.cluster.devices_in_use import devices_in_use
from components.cluster.facts import ClusterFacts, NodeFacts, PodFacts
from components.pods.labels import labels
from config.stack.sections import StackConfig
from tests.unit.components.samples import serving
from tests.unit.components.test_preflight import SECTIONS, STACK

GPU, RDMA = "nvidia.com/gpu", "rdma/ib"
FULL = {GPU: "8", RDMA: "1k"}
TRAINING = PodFacts("team-a", "train-0", "h200-0", devices={GPU: 8})
ADVICE = "end them, or name another node in heavylift:nodes.names"


def cluster(*pods: PodFacts, nodes: tuple[str, ...] = ("h200-0", "h200-1"), gpus: int = 8) -> ClusterFacts:
    """Nodes with so many GPUs each, and these pods on them."""
    allocatable = FULL | {GPU: str(gpus)}
    return ClusterFacts(nodes=[NodeFacts(name, allocatable=allocatable) for name in nodes], pods=pods)


def group_of(*names: str) -> StackConfig:
    """A stack over several nodes with a fabric of eight devices each."""
    nodes: dict[str, Any] = SECTIONS["nodes"] | {"names": list(names)}
    return StackConfig.parse(SECTIONS | {"nodes": nodes, "weights": {"kind": "host-path"}})


def test_a_pod_that_holds_all_gpus_is_named_and_prevents_the_server() -> None:
    in_use = devices_in_use("h200", STACK, cluster(TRAINING), serving())
    assert in_use.lines == [
        f"node h200-0: 8 of 8 {GPU} are held by team-a/train-0 (8), and the server needs 8; {ADVICE}"
    ]
    assert in_use.prevents


def test_many_pods_are_named_by_what_they_hold_and_the_rest_counted() -> None:
    pods = [PodFacts("b", f"small-{number}", "h200-0", devices={GPU: 1}) for number in range(4)]
    in_use = devices_in_use("h200", STACK, cluster(*pods, PodFacts("a", "big", "h200-0", devices={GPU: 2})), serving())
    assert in_use.lines == [
        f"node h200-0: 6 of 8 {GPU} are held by a/big (2), b/small-0 (1), b/small-1 (1) and 2 more pods, "
        f"and the server needs 8; {ADVICE}"
    ]


@pytest.mark.parametrize(
    "pod",
    [
        replace(TRAINING, node="h200-1"),
        replace(TRAINING, terminating=True),
        replace(TRAINING, priority=-10),
        replace(TRAINING, devices={}),
        replace(TRAINING, devices={"amd.com/gpu": 8}),
        PodFacts("heavylift", "h200-server-1", "h200-0", labels=labels("h200", "server"), devices={GPU: 8}),
    ],
    ids=["other node", "terminating", "gives way", "no devices", "other devices", "own server of before"],
)
def test_pods_that_do_not_stand_in_the_way_are_not_held_against_it(pod: PodFacts) -> None:
    assert devices_in_use("h200", STACK, cluster(pod), serving()).lines == []


@pytest.mark.parametrize(
    ("namespace", "instance"), [("heavylift", "h200-gguf"), ("staging", "h200")], ids=["other stack", "other namespace"]
)
def test_another_stack_on_the_same_gpus_stands_in_the_way(namespace: str, instance: str) -> None:
    other = PodFacts(namespace, "server-1", "h200-0", labels=labels(instance, "server"), devices={GPU: 4})
    assert devices_in_use("h200", STACK, cluster(other), serving()).prevents
    assert not devices_in_use("h200", STACK, cluster(other), serving(gpus=4)).lines, "half of a node is enough for half"


def test_a_node_that_never_had_enough_is_the_fault_of_another_check() -> None:
    assert devices_in_use("h200", STACK, cluster(TRAINING, gpus=4), serving()).lines == []


def test_a_busy_spare_is_said_and_prevents_nothing() -> None:
    facts = cluster(TRAINING, nodes=("h200-0", "h200-1", "h200-2"))
    with_spare = group_of("h200-0", "h200-1", "h200-2")
    spare_busy = devices_in_use("h200", with_spare, facts, serving(nodes=2))
    assert len(spare_busy.lines) == 1
    assert not spare_busy.prevents
    assert devices_in_use("h200", with_spare, facts, serving(nodes=3)).prevents
    assert devices_in_use("h200", with_spare, facts, serving(replicas=3)).prevents


def test_the_fabric_is_looked_at_where_a_server_uses_it() -> None:
    sharing = PodFacts("team-a", "train-0", "h200-0", devices={RDMA: 995})
    stack = group_of("h200-0", "h200-1")
    in_use = devices_in_use("h200", stack, cluster(sharing), serving(nodes=2))
    assert in_use.lines == [
        f"node h200-0: 995 of 1000 {RDMA} are held by team-a/train-0 (995), and the server needs 8; {ADVICE}"
    ]
    assert devices_in_use("h200", stack, cluster(sharing), serving()).lines == [], "one node talks to nobody"


def test_nothing_is_said_of_nodes_that_the_stack_does_not_name() -> None:
    sections = SECTIONS | {"nodes": SECTIONS["nodes"] | {"names": []}, "weights": {"kind": "host-path"}}
    assert devices_in_use("h200", StackConfig.parse(sections), cluster(TRAINING), serving()).lines == []


def test_memory_and_cpus_that_others_hold_are_counted_in_kubernetes_own_units() -> None:
    facts = cluster(PodFacts("db", "big", "h200-0", devices={"memory": 200 * 2**30, "cpu": 500}))
    room = {"memory": "256Gi", "cpu": "8"}
    roomy = replace(facts, nodes=[replace(node, allocatable={**node.allocatable, **room}) for node in facts.nodes])
    in_use = devices_in_use("h200", STACK, roomy, replace(serving(), memory_request="64Gi", cpus=8))
    assert in_use.lines == [
        "node h200-0: 500m of 8000m cpu are held by db/big (500m), and the server needs 8000m; end them, or name "
        "another node in heavylift:nodes.names",
        "node h200-0: 200.0Gi of 256.0Gi memory are held by db/big (200.0Gi), and the server needs 64.0Gi; end them, "
        "or name another node in heavylift:nodes.names",
    ]
