"""`pulumi up --stack h100x16`: a group over two simulated nodes, by the real controller and scheduler."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.cluster.simulated import SimulatedNodes
from lab.project import Project
from tests.lab.conftest import AddNodes
from tests.lab.group import ANOTHER_REVISION, Group, moment, ready_since, variables
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import committed_stack, on_nodes_of

pytestmark = on_nodes_of("4x8h100")

NAMESPACE, REFUSED = "h100-test", "h100-refused"


@pytest.fixture
def h100x16(settings: dict[str, str], tmp_path: Path, kubectl: Kubectl, nodes: AddNodes) -> Iterator[Project]:
    """The stack `h100x16` as committed, in a namespace of these tests. Its nodes are removed after it."""
    with committed_stack("h100x16", NAMESPACE, tmp_path, settings, kubectl) as project:
        yield project


@pytest.fixture(scope="module")
def refused(settings: dict[str, str], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The stack `h100x16`, for tests in which `up` creates nothing."""
    directory = tmp_path_factory.mktemp("refused")
    with committed_stack("h100x16", REFUSED, directory, settings, kubectl) as project:
        yield project


@pytest.fixture
def group(kubectl: Kubectl) -> Group:
    """The groups of the stack."""
    return Group(kubectl, NAMESPACE)


def no_new_pods(kubectl: Kubectl) -> None:
    """Sets a quota that admits one pod with GPUs. The preflight lets it pass, because other pods can end.

    Running pods and stage Jobs are unaffected.
    """
    quota = {"metadata": {"name": "no-new-pods"}, "spec": {"hard": {"requests.nvidia.com/gpu": "8"}}}
    kubectl.apply({"apiVersion": "v1", "kind": "ResourceQuota", **quota}, namespace=NAMESPACE)


def spoil(simulated: SimulatedNodes, fault: str) -> None:
    """Breaks the second node in one way."""
    match fault:
        case "without GPUs":
            simulated.set_resource("h100-1", "nvidia.com/gpu", None)
        case "with 7 GPUs":
            simulated.set_resource("h100-1", "nvidia.com/gpu", 7)
        case "without RDMA":
            simulated.set_resource("h100-1", "rdma/ib", None)
        case "missing":
            simulated.delete("h100-1")


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("without GPUs", "node h100-1: has 0 of 8 nvidia.com/gpu allocatable"),
        ("with 7 GPUs", "node h100-1: has 7 of 8 nvidia.com/gpu allocatable"),
        ("without RDMA", "node h100-1: has 0 of 8 rdma/ib allocatable"),
        ("missing", "node h100-1: does not exist"),
    ],
)
def test_when_the_second_node_is_not_fit_nothing_is_half_started(
    nodes: AddNodes, refused: Project, kubectl: Kubectl, fault: str, message: str
) -> None:
    spoil(nodes("2x8h100"), fault)
    up = refused.up()
    assert up.status != 0
    assert message in up.output
    assert "nothing was created" in up.output
    assert "Traceback" not in up.output
    found = kubectl("get", "all,configmaps,leaderworkersets", "-n", REFUSED, "-o", "name").split()
    assert [name for name in found if "kube-root-ca" not in name] == []


def test_a_group_moves_from_a_drained_node_to_the_staged_spare_and_to_no_other(
    nodes: AddNodes, h100x16: Project, group: Group
) -> None:
    simulated = nodes("3x8h100")
    nodes("2x8h200", ["other-0", "other-1"])  # the same number of GPUs and the same resource, but another GPU model
    h100x16.configure(nodes={"names": ["h100-0", "h100-1", "h100-2"]})
    up = h100x16.up()
    assert up.status == 0, up
    assert len(group.get("jobs")) == 3
    staged = {"h100-0", "h100-1", "h100-2"}
    [spare] = staged - group.hosts()
    drained = sorted(group.hosts())[0]
    simulated.drain(drained)
    remaining = staged - {drained}
    group.wait_until(lambda: group.hosts() == remaining and group.is_ready(), f"the group is on {remaining}")
    assert spare in group.hosts()
    simulated.drain(spare)
    group.wait_until(lambda: "none" in group.hosts(), "one pod has nowhere to go")
    assert group.hosts() <= staged | {"none"}


def test_two_replicas_are_two_groups_on_nodes_of_their_own_behind_one_service(
    nodes: AddNodes, h100x16: Project, group: Group
) -> None:
    nodes("4x8h100")
    h100x16.configure(
        nodes={"names": ["h100-0", "h100-1", "h100-2", "h100-3"]},
        engine={"replicas": 2},
    )
    up = h100x16.up()
    assert up.status == 0, up
    assert group.is_ready()
    assert len(group.pods()) == len(group.hosts()) == 4
    leaders = [pod["metadata"]["name"] for pod in group.pods() if variables(pod)["LWS_WORKER_INDEX"] == "0"]
    assert len({variables(pod)["LWS_LEADER_ADDRESS"] for pod in group.pods()}) == len(leaders) == 2
    [endpoints] = [each for each in group.get("endpointslices") if each["metadata"]["name"].startswith("h100x16-")]
    assert sorted(each["targetRef"]["name"] for each in endpoints["endpoints"]) == leaders


def test_groups_change_one_after_the_other_and_a_version_that_does_not_start_stops_at_the_first(
    nodes: AddNodes, h100x16: Project, group: Group, kubectl: Kubectl
) -> None:
    nodes("4x8h100")
    h100x16.configure(nodes={"names": ["h100-0", "h100-1", "h100-2", "h100-3"]}, engine={"replicas": 2})
    first = h100x16.up()
    assert first.status == 0, first
    old = group.ready_groups()
    assert set(old) == {"0", "1"}

    h100x16.configure(model={"revision": ANOTHER_REVISION})
    with group.watched() as seen:
        changed = h100x16.up()
    assert changed.status == 0, changed
    new = group.ready_groups()
    assert set(new) == {"0", "1"}
    assert set(new.values()).isdisjoint(old.values())
    assert all(seen), "there was a moment without any server"
    last, first_of_all = (
        [pod for pod in group.pods() if pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"] == number]
        for number in ("0", "1")
    )
    assert max(map(ready_since, first_of_all)) <= min(moment(pod["metadata"]["creationTimestamp"]) for pod in last)

    no_new_pods(kubectl)
    h100x16.configure(engine={"cpus": 40})
    began = time.monotonic()
    with group.watched() as seen:
        broken = h100x16.up()
    assert broken.status != 0
    assert time.monotonic() - began < 150
    assert "the server cannot start" in broken.output
    assert "exceeded quota: no-new-pods" in broken.output
    assert "Traceback" not in broken.output
    assert all(seen)
    assert group.ready_groups() == {"0": new["0"]}, "the other group serves on as it was"

    kubectl("delete", "resourcequota", "-n", NAMESPACE, "no-new-pods")
    h100x16.configure(engine={"cpus": 48})
    with group.watched() as seen:
        mended = h100x16.up()
    assert mended.status == 0, mended
    assert group.ready_groups() == new
    assert all(seen)
    assert group.is_ready()

    again = h100x16.up("--expect-no-changes")
    assert again.status == 0, again


def test_ctrl_c_ends_the_waiting_and_the_next_up_goes_on(
    nodes: AddNodes, h100x16: Project, group: Group, kubectl: Kubectl, tmp_path: Path
) -> None:
    nodes("2x8h100")
    kubectl("create", "namespace", NAMESPACE)
    no_new_pods(kubectl)
    command = ["pulumi", "up", "--stack", h100x16.stack, "--yes", "--skip-preview", "--non-interactive"]
    said = tmp_path / "said"
    with said.open("w") as output:
        up = subprocess.Popen(
            command,
            cwd=h100x16.directory,
            env={**os.environ, **h100x16.environment},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        group.wait_until(
            lambda: "exceeded quota" in said.read_text(), "the output says why there is no pod", seconds=90
        )
        os.killpg(up.pid, signal.SIGINT)
        assert up.wait(timeout=30) != 0
    assert "Traceback" not in said.read_text()

    kubectl("delete", "resourcequota", "-n", NAMESPACE, "no-new-pods")
    again = h100x16.up()
    assert again.status == 0, again
    assert group.is_ready()


def test_each_group_has_one_part_of_the_fabric_to_itself_where_the_stack_names_its_label(
    nodes: AddNodes, h100x16: Project, group: Group, kubectl: Kubectl
) -> None:
    nodes("4x8h100")
    leaves = {"h100-0": "leaf-0", "h100-1": "leaf-1", "h100-2": "leaf-0", "h100-3": "leaf-1"}
    for node, leaf in leaves.items():
        kubectl("label", "node", node, "--overwrite", f"heavylift.lab/leaf={leaf}")
    fabric = {"kind": "infiniband", "resource": "rdma/ib", "count": 8, "topology_label": "heavylift.lab/leaf"}
    h100x16.configure(nodes={"names": sorted(leaves), "fabric": fabric}, engine={"replicas": 2})
    up = h100x16.up()
    assert up.status == 0, up
    by_leader: dict[str, set[str]] = {}
    for pod in group.pods():
        leader = variables(pod)["LWS_LEADER_ADDRESS"]
        by_leader.setdefault(leader, set()).add(pod["spec"]["nodeName"])
    assert sorted(map(sorted, by_leader.values())) == [["h100-0", "h100-2"], ["h100-1", "h100-3"]]
