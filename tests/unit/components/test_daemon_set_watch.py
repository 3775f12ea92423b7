"""The wait for the DaemonSet that stages a group of nodes, against answers of an API server over real HTTP."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pytest

from components.cluster.api import ClusterApi
from components.rollout import daemon_set_watch
from components.rollout.obstacles import GiveUpAfter
from components.rollout.stage_progress import Staging
from tests.unit.components.api_server import Answer, api_server
from tests.unit.components.recorded_pods import recorded_event, recorded_pod

WAIT_UNTIL_STAGED, WARN_IF_GONE = daemon_set_watch.wait_until_staged, daemon_set_watch.warn_if_gone
"""As they are before the fixture of this directory takes their place."""

PATIENT = GiveUpAfter(poll_seconds=0.01, report_seconds=0)
HURRIED = replace(PATIENT, obstacle=0.3, slow_start=0.6, new_volume=0.9, missing_node=0.6, unreachable=0.3)
NAMESPACE = "/api/v1/namespaces/serving"
DAEMON_SET = "/apis/apps/v1/namespaces/serving/daemonsets/stage-0"
Objects = Sequence[dict[str, Any]]
LATER = "2999-01-01T00:00:00Z"
BEFORE = "2026-11-30T22:00:09Z"


def daemon_set(
    desired: int = 2, *, updated: int | None = None, current: int | None = None, observed: int = 3
) -> dict[str, Any]:
    """The DaemonSet of a group with the label `pool=gpu`, after its third change."""
    return {
        "metadata": {"name": "stage-0", "generation": 3, "creationTimestamp": "2026-11-30T22:00:00Z"},
        "spec": {"template": {"spec": {"nodeSelector": {"pool": "gpu"}}}},
        "status": {
            "observedGeneration": observed,
            "desiredNumberScheduled": desired,
            "currentNumberScheduled": desired if current is None else current,
            "updatedNumberScheduled": desired if updated is None else updated,
        },
    }


def pod(node: str, stager: dict[str, Any] | None, *, uid: str = "", restarts: int = 0) -> dict[str, Any]:
    """The pod on a node, with its stager in this state. None: the stager has succeeded, and the pod waits."""
    made = recorded_pod("serves", name=f"stage-{node}")
    made["metadata"] |= {"uid": uid or f"uid-of-{node}", "labels": {}}
    made["spec"] |= {"nodeName": node, "volumes": []}
    ready = stager is None
    states = [{"terminated": {"exitCode": 0}}, stager or {"terminated": {"exitCode": 0}}]
    made["status"] = {
        "phase": "Running" if ready else "Pending",
        "conditions": [{"type": "Ready", "status": str(ready)}],
        "initContainerStatuses": [
            {"name": name, "state": state, "lastState": {}, "restartCount": restarts}
            for name, state in zip(("requirements", "stage"), states, strict=True)
        ],
        "containerStatuses": [
            {"name": "wait", "state": {"running": {}} if ready else {"waiting": {"reason": "PodInitializing"}}}
        ],
    }
    return made


def ended(status: int, message: str = "", *, at: str = LATER) -> dict[str, Any]:
    times = {"startedAt": at, "finishedAt": at}
    return {"terminated": {"exitCode": status, "reason": "Error", "message": message, **times}}


RUNS = {"running": {"startedAt": BEFORE}}
BOTH_STAGED = [pod("a", None), pod("b", None)]


@dataclass
class Cluster:
    """What the API server answers: the pods of each look, the last of them for ever, and deletions of pods."""

    looks: Sequence[Objects]
    daemon_set: dict[str, Any] | None = field(default_factory=daemon_set)
    warnings: Objects = ()
    may_delete: bool = True
    asked: int = 0
    deleted: list[str] = field(default_factory=list)
    selectors: set[str] = field(default_factory=set)

    def __call__(self, path: str, query: Mapping[str, str]) -> Answer:
        if path == DAEMON_SET:
            return self.daemon_set
        if path.endswith("/log"):
            return 200, "22:00:09Z 12.3 of 595.2 GB (2.1%)\n"
        if path == f"{NAMESPACE}/events":
            return {"items": list(self.warnings)}
        if path.startswith("/api/v1/nodes/"):
            conditions = [{"type": "Ready", "status": "True"}]
            return {"metadata": {"name": "a"}, "spec": {}, "status": {"conditions": conditions}}
        if path.startswith(f"{NAMESPACE}/pods/"):
            self.deleted.append(path.rpartition("/")[2])
            return {} if self.may_delete else (403, "pods is forbidden")
        assert path == f"{NAMESPACE}/pods"
        self.selectors.add(query["labelSelector"])
        self.asked += 1
        return {"items": list(self.looks[min(self.asked, len(self.looks)) - 1])}


def waited(cluster: Cluster, *, seconds: int = 60, give_up_after: GiveUpAfter = PATIENT) -> list[str]:
    """What was said until two nodes had staged."""
    said: list[str] = []
    with api_server(cluster) as api:
        staging = Staging(api, "serving", {"stage.heavylift/weights": "0123"}, seconds)
        asyncio.run(WAIT_UNTIL_STAGED(staging, "stage-0", 2, lambda words, _: said.append(words), give_up_after))
    return said


def given_up(cluster: Cluster, *, seconds: int = 60) -> str:
    with pytest.raises(pulumi.RunError) as caught:
        waited(cluster, seconds=seconds, give_up_after=HURRIED)
    return str(caught.value)


def test_a_group_that_is_staged_is_looked_at_once_and_nothing_is_said() -> None:
    cluster = Cluster([BOTH_STAGED])
    assert waited(cluster) == []
    assert (cluster.asked, cluster.selectors) == (1, {"stage.heavylift/weights=0123"})


def test_it_is_said_how_many_nodes_are_staged_and_how_far_the_others_are() -> None:
    said = waited(Cluster([[pod("a", RUNS), pod("b", None)]] * 3 + [BOTH_STAGED]))
    assert said[0] == "1 of 2 nodes staged; a (pod stage-a): staging, 12.3 of 595.2 GB (2.1%)"
    assert said[-1] == "2 of 2 nodes staged"


def test_a_daemon_set_without_nodes_is_not_ready_and_ends_the_wait_with_the_labels_of_its_nodes() -> None:
    """Pulumi's own await takes it for ready."""
    reason = given_up(Cluster([[]], daemon_set(desired=0)))
    assert "the cluster has 0 of 2 nodes with the labels of the group (pool=gpu)" in reason


def test_fewer_nodes_than_the_stack_counts_are_waited_for_and_end_the_wait_at_the_limit_of_the_plan() -> None:
    reason = given_up(Cluster([[pod("a", None)]], daemon_set(desired=1)), seconds=0)
    assert reason.splitlines()[1] == "  not done in 0 s"
    assert "1 of 2 nodes staged; the cluster has 1 of 2 nodes with the labels of the group (pool=gpu)" in reason


def test_one_node_more_than_the_stack_counts_does_not_keep_the_server_waiting() -> None:
    assert waited(Cluster([[*BOTH_STAGED, pod("c", RUNS)]], daemon_set(desired=3))) == []


@pytest.mark.parametrize("behind", [daemon_set(updated=1), daemon_set(observed=2)])
def test_pods_of_an_earlier_template_do_not_count(behind: dict[str, Any]) -> None:
    reason = given_up(Cluster([BOTH_STAGED], behind), seconds=0)
    assert "not done in 0 s" in reason


@pytest.mark.parametrize("status", [1, 2])
def test_a_refusal_of_the_stager_is_the_last_attempt(status: int) -> None:
    refused = pod("a", ended(status, "stager: acme/model has no revision '9'"))
    cluster = Cluster([[pod("a", RUNS)], [refused, pod("b", RUNS)]])
    assert given_up(cluster).splitlines()[:3] == [
        "the weights cannot be staged:",
        f"  the stager failed on a (pod stage-a): exit status {status}",
        "    stager: acme/model has no revision '9'",
    ]
    assert cluster.deleted == []


def test_a_source_that_did_not_answer_is_asked_again_and_three_times_are_enough() -> None:
    looks = [[pod("a", RUNS)], *([pod("a", ended(75, "no source answers"), restarts=times)] for times in range(3))]
    assert waited(Cluster([*looks[:3], BOTH_STAGED]))[-1] == "2 of 2 nodes staged"
    assert "no source answers" in given_up(Cluster(looks))


def test_a_pod_that_failed_before_the_wait_is_tried_again_at_once_and_its_failure_does_not_count() -> None:
    """The kubelet would wait up to five minutes, and the cause may be corrected."""
    cluster = Cluster([[pod("a", ended(1, "gated", at=BEFORE)), pod("b", None)], [pod("b", None)], BOTH_STAGED])
    assert waited(cluster)[-1] == "2 of 2 nodes staged"
    assert cluster.deleted == ["stage-a"]


def test_a_pod_that_cannot_be_deleted_is_waited_for_with_the_reason() -> None:
    failed = [pod("a", ended(1, "gated", at=BEFORE)), pod("b", None)]
    cluster = Cluster([failed, failed, BOTH_STAGED], may_delete=False)
    assert any("could not be deleted to try again at once (status 403" in words for words in waited(cluster))
    assert cluster.deleted == ["stage-a"]


def test_a_pod_without_credentials_is_replaced_until_one_has_them() -> None:
    without = [[pod("a", ended(77, "no AWS credentials"), uid=f"uid-{number}")] for number in range(3)]
    cluster = Cluster([*without, [pod("a", RUNS)], BOTH_STAGED])
    assert waited(cluster)[-1] == "2 of 2 nodes staged"
    assert cluster.deleted == ["stage-a"] * 3


def test_credentials_that_never_come_end_the_wait_with_what_to_look_at() -> None:
    without = [[pod("a", ended(77, "no AWS credentials"), uid=f"uid-{number}")] for number in range(500)]
    reason = given_up(Cluster(without))
    assert "service_account" in reason


def test_a_pod_that_the_cluster_does_not_admit_ends_the_wait_with_its_words() -> None:
    event = recorded_event("a pod is refused", name="stage-0") | {"lastTimestamp": "2026-11-30T22:00:01Z"}
    reason = given_up(Cluster([[]], daemon_set(current=0), warnings=[event]))
    assert "2 pods of DaemonSet stage-0 cannot be made: FailedCreate: " in reason


def test_an_image_that_cannot_be_pulled_ends_the_wait_with_the_nodes_words() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "images.example/none:1: not found"}}
    assert "a (pod stage-a): stage: ImagePullBackOff: images.example/none:1" in given_up(Cluster([[pod("a", waiting)]]))


def test_a_daemon_set_that_was_deleted_behind_pulumis_back_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "DaemonSet stage-0 is no longer in namespace serving" in given_up(Cluster([[]], None))
    said: list[str] = []
    monkeypatch.setattr(pulumi, "warn", said.append)
    with api_server(Cluster([[]], None)) as api:
        asyncio.run(WARN_IF_GONE(Staging(api, "serving", {}, 60), "stage-0"))
    assert "`pulumi up --refresh`" in said[0]


def test_a_cluster_that_does_not_answer_ends_the_wait() -> None:
    async def waiting(api: ClusterApi) -> None:
        await WAIT_UNTIL_STAGED(Staging(api, "serving", {}, 60), "stage-0", 2, lambda *_: None, HURRIED)

    with api_server({}, status=500) as api, pytest.raises(pulumi.RunError, match="has not answered"):
        asyncio.run(waiting(api))
