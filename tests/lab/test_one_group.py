"""`pulumi up --stack h100x16`: one group over two simulated nodes, by the real controller and scheduler."""

from collections.abc import Iterator

import pytest

from lab.cluster.simulated import SimulatedNodes
from lab.project import Project
from lab.site import Site
from tests.lab.group import ANOTHER_REVISION, Group, moment, variables
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import committed_stack, on_nodes_of

pytestmark = on_nodes_of("2x8h100")

NAMESPACE = "h100-one-group"
ARGUMENTS = [
    *("--served-model-name", "moonshotai/Kimi-K2.5"),
    *("--host", "0.0.0.0", "--port", "8000"),
    *("--tensor-parallel-size", "8", "--pipeline-parallel-size", "2"),
    *("--max-model-len", "262144", "--gpu-memory-utilization", "0.92"),
    *("--mm-encoder-tp-mode", "data", "--enable-prefix-caching", "--shutdown-timeout", "60"),
    *(
        "--trust-remote-code",
        "--enable-auto-tool-choice",
        "--tool-call-parser",
        "kimi_k2",
        "--reasoning-parser",
        "kimi_k2",
    ),
    *("--nnodes", "2", "--node-rank", "$(LWS_WORKER_INDEX)", "--master-addr", "$(LWS_LEADER_ADDRESS)"),
]


@pytest.fixture(scope="module")
def h100x16(
    site: Site, settings: dict[str, str], kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """The stack `h100x16`, with one `up` for all tests. Each test leaves it serving."""
    directory = tmp_path_factory.mktemp("h100x16")
    with (
        SimulatedNodes(site).added("2x8h100"),
        committed_stack("h100x16", NAMESPACE, directory, settings, kubectl) as project,
    ):
        up = project.up()
        assert up.status == 0, up
        yield project


@pytest.fixture
def group(kubectl: Kubectl) -> Group:
    """The group of the stack."""
    return Group(kubectl, NAMESPACE)


def test_two_nodes_are_staged_and_then_serve_as_one(h100x16: Project, group: Group) -> None:
    preview = h100x16.preview()
    assert preview.status == 0, preview
    # 36.42 and 35.405 GiB: derived from the checkpoint's tensors by stage, with the whole vision encoder on every GPU.
    assert "weights 36.45/35.44" in preview.output
    assert "262,144" in preview.output

    jobs = group.get("jobs")
    assert [job["spec"]["template"]["spec"]["nodeSelector"]["kubernetes.io/hostname"] for job in jobs] == [
        "h100-0",
        "h100-1",
    ]
    [made] = group.get("leaderworkersets")
    for job in jobs:
        assert moment(made["metadata"]["creationTimestamp"]) >= moment(job["status"]["completionTime"])
    assert group.is_ready()
    assert group.hosts() == {"h100-0", "h100-1"}

    leader, worker = group.pods()
    name = made["metadata"]["name"]
    for rank, pod, headless in ((0, leader, []), (1, worker, ["--headless"])):
        assert variables(pod)["LWS_WORKER_INDEX"] == str(rank)
        assert variables(pod)["LWS_LEADER_ADDRESS"] == f"{name}-0.{name}.{NAMESPACE}"
        [engine] = pod["spec"]["containers"]
        assert engine["command"][-3:] == ["vllm", "serve", "/weights/669cddc777e743fa"]
        assert engine["args"] == [*ARGUMENTS, *headless]
        assert engine["resources"]["limits"]["nvidia.com/gpu"] == "8"
        assert engine["resources"]["limits"]["rdma/ib"] == "8"
        # $(LWS_WORKER_INDEX) is only replaced if it is defined before its use. The API server keeps this order.
        assert [each["name"] for each in engine["env"][:3]] == [
            "LWS_LEADER_ADDRESS",
            "LWS_GROUP_SIZE",
            "LWS_WORKER_INDEX",
        ]
    [endpoints] = [each for each in group.get("endpointslices") if each["metadata"]["name"].startswith("h100x16-")]
    assert [each["targetRef"]["name"] for each in endpoints["endpoints"]] == [leader["metadata"]["name"]]

    def disruptions() -> tuple[int, int]:
        """Returns how many pods the budget expects, and how many of them may go."""
        [budget] = group.get("poddisruptionbudgets")
        return budget["status"].get("expectedPods", 0), budget["status"].get("disruptionsAllowed", 0)

    # Its controller hears of a ready pod later than `pulumi up`.
    group.wait_until(lambda: disruptions() == (2, 1), "the budget counts both pods")

    again = h100x16.up("--expect-no-changes")
    assert again.status == 0, again


@pytest.mark.parametrize("which", ["leader", "worker"])
def test_when_one_pod_is_deleted_the_whole_group_is_made_anew(
    h100x16: Project, group: Group, kubectl: Kubectl, which: str
) -> None:
    before = group.uids()
    pod = group.pods()[0 if which == "leader" else 1]
    kubectl("delete", "pod", "-n", NAMESPACE, pod["metadata"]["name"], "--wait=false")
    # The controller's own status is of before the deletion for a moment.
    group.wait_until(
        lambda: len(group.ready_groups()) == 1 and not group.uids() & before and group.hosts() == {"h100-0", "h100-1"},
        "both pods are new and ready, on both nodes",
    )


def test_another_revision_is_staged_first_and_takes_the_place_of_the_old_group(h100x16: Project, group: Group) -> None:
    [old] = group.get("leaderworkersets")
    h100x16.configure(model={"revision": ANOTHER_REVISION})
    second = h100x16.up()
    assert second.status == 0, second
    [new] = group.get("leaderworkersets")
    assert new["metadata"]["uid"] == old["metadata"]["uid"], "it was changed in place"
    assert group.is_ready(), "two groups at once would not have found GPUs on two nodes"
    for pod in group.pods():
        for job in group.get("jobs"):
            assert moment(job["status"]["completionTime"]) <= moment(pod["metadata"]["creationTimestamp"])
        [engine] = pod["spec"]["containers"]
        assert engine["command"][-1] != "/weights/669cddc777e743fa"

    h100x16.configure(model={"revision": "4d01dfe0332d63057c186e0b262165819efb6611"})
    back = h100x16.up()
    assert back.status == 0, back
    assert group.is_ready()
    for pod in group.pods():
        [engine] = pod["spec"]["containers"]
        assert engine["command"][-1] == "/weights/669cddc777e743fa"
