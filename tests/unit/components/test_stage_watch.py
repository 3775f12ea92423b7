"""The wait for the Jobs that stage weights, against answers of an API server over real HTTP."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi
import pytest

from components.cluster.api import ClusterApi
from components.rollout import stage_watch
from components.rollout.obstacles import GiveUpAfter
from components.rollout.stage_progress import Staging
from tests.unit.components.api_server import Answer, api_server
from tests.unit.components.recorded_pods import recorded_event, recorded_pod

WAIT_UNTIL_STAGED, WARN_IF_GONE = stage_watch.wait_until_staged, stage_watch.warn_if_gone
"""As they are before the fixture of this directory takes their place."""

PATIENT = GiveUpAfter(poll_seconds=0.01, report_seconds=0)
HURRIED = replace(PATIENT, obstacle=0.3, slow_start=0.6, new_volume=0.9, unreachable=0.3)
NAMESPACE = "/api/v1/namespaces/serving"
JOBS = "/apis/batch/v1/namespaces/serving/jobs"
Objects = Sequence[dict[str, Any]]


def job(name: str = "stage-0", condition: str | None = None, reason: str = "", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": condition, "status": "True", "reason": reason, "message": f"said of {reason}"}]
    return {
        "metadata": {"name": name, "creationTimestamp": "2026-11-30T22:00:00Z", "labels": {}},
        "spec": spec,
        "status": {"conditions": conditions if condition else []},
    }


def pod(state: dict[str, Any], *others: dict[str, Any], of: str = "stage-0") -> dict[str, Any]:
    """The recorded pod of a server as that of a Job, with its one container in this state, and others beside it."""
    made = recorded_pod("serves", name=f"{of}-x7")
    made["metadata"]["labels"] |= {"batch.kubernetes.io/job-name": of}
    made["spec"]["volumes"] = [{"name": "weights", "persistentVolumeClaim": {"claimName": "h200-weights"}}]
    phase = "Failed" if state.get("terminated", {}).get("exitCode") else "Running"
    containers = [{"name": "stage", "state": state, "lastState": {}}, *others]
    made["status"] = {"phase": phase, "conditions": [], "containerStatuses": containers}
    return made


def ended(status: int, message: str = "") -> dict[str, Any]:
    times = {"startedAt": "2026-11-30T22:00:01Z", "finishedAt": "2026-11-30T22:00:09Z"}
    return {"terminated": {"exitCode": status, "reason": "Error", "message": message, **times}}


RUNS = {"running": {"startedAt": "2026-11-30T22:00:01Z"}}
REFUSED = pod(ended(1, "stager: acme/model: no revision main"))


@dataclass
class Cluster:
    """What the API server answers: the Jobs of each look, the last of them for ever, and the pods."""

    looks: Sequence[Objects]
    pods: Objects = ()
    warnings: Objects = ()
    log: Answer = (200, "22:00:09Z 12.3 of 595.2 GB (2.1%), 1,102 MB/s, 8 min 49 s left\n")
    ready: bool = True
    asked: list[Mapping[str, str]] = field(default_factory=list)

    def __call__(self, path: str, query: Mapping[str, str]) -> Answer:
        if path == JOBS:
            self.asked.append(query)
            return {"items": list(self.looks[min(len(self.asked), len(self.looks)) - 1])}
        if path == f"{NAMESPACE}/events":
            return {"items": list(self.warnings)}
        if path.endswith("/log"):
            return self.log
        if path.startswith("/api/v1/nodes/"):
            conditions = [{"type": "Ready", "status": str(self.ready), "message": "container runtime is down"}]
            return {"metadata": {"name": "real-0"}, "spec": {}, "status": {"conditions": conditions}}
        assert path == f"{NAMESPACE}/pods"
        return {"items": list(self.pods)}


def stage(api: ClusterApi, seconds: int = 60) -> Staging:
    return Staging(api, "serving", {"app.kubernetes.io/component": "stage"}, seconds)


def waited(
    cluster: Cluster, *names: str, seconds: int = 60, give_up_after: GiveUpAfter = PATIENT
) -> tuple[list[str], list[str]]:
    """What was said until all was staged: for good, and of the progress."""
    said: tuple[list[str], list[str]] = ([], [])
    with api_server(cluster) as api:
        waiting = WAIT_UNTIL_STAGED(
            stage(api, seconds),
            names or ["stage-0"],
            lambda words, fleeting: said[fleeting].append(words),
            give_up_after,
        )
        asyncio.run(waiting)
    return said


def given_up(cluster: Cluster, *names: str, seconds: int = 60) -> str:
    with pytest.raises(pulumi.RunError) as caught:
        waited(cluster, *names, seconds=seconds, give_up_after=HURRIED)
    return str(caught.value)


@pytest.fixture
def warnings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    said: list[str] = []
    monkeypatch.setattr(pulumi, "warn", lambda words, *_: said.append(words))
    return said


DONE = job(condition="Complete")


def test_weights_that_are_staged_are_looked_at_once_and_nothing_is_said() -> None:
    cluster = Cluster([[DONE]])
    assert waited(cluster) == ([], [])
    assert [query["labelSelector"] for query in cluster.asked] == ["app.kubernetes.io/component=stage"]


def test_it_is_said_what_the_pod_does_and_how_far_the_stager_is() -> None:
    told, progress = waited(Cluster([[job()], [job()], [job()], [DONE]], [pod(RUNS)]))
    assert told[0] == "0 of 1 volumes staged; real-0 (pod stage-0-x7): staging, " + (
        "12.3 of 595.2 GB (2.1%), 1,102 MB/s, 8 min 49 s left"
    )
    assert told[-1] == "1 of 1 volumes staged"
    assert progress == []


def test_every_job_is_waited_for() -> None:
    jobs = [job(f"stage-{number}") for number in range(2)]
    one = [job("stage-0", "Complete"), job("stage-1")]
    both = [job("stage-0", "Complete"), job("stage-1", "Complete")]
    told, _ = waited(Cluster([jobs, one, both]), "stage-0", "stage-1")
    assert told == [f"{done} of 2 volumes staged" for done in range(3)]


def test_a_job_that_failed_ends_the_wait_with_the_stagers_words() -> None:
    reason = given_up(Cluster([[job()], [job(condition="Failed", reason="PodFailurePolicy")]], [REFUSED]))
    assert reason.splitlines()[:3] == [
        "the weights cannot be staged:",
        "  the stager failed on real-0 (pod stage-0-x7): exit status 1",
        "    stager: acme/model: no revision main",
    ]
    assert "said of PodFailurePolicy" not in reason, "the pod's own words say more"
    assert "`pulumi up` again; it goes on where it stopped" in reason


def test_a_failure_that_is_tried_again_is_borne() -> None:
    assert waited(Cluster([[job()], [job()], [DONE]], [pod(ended(75, "stager: no source answers"))]))[0]


def test_a_deadline_is_told_with_how_far_it_was_and_the_key_that_sets_it() -> None:
    reason = given_up(Cluster([[job()], [job()], [job(condition="Failed", reason="DeadlineExceeded")]], [pod(RUNS)]))
    assert "Job stage-0: DeadlineExceeded: said of DeadlineExceeded (at 12.3 of 595.2 GB" in reason
    assert "heavylift:stage.bandwidth" in reason


def test_an_image_that_cannot_be_pulled_ends_the_wait_with_the_nodes_words() -> None:
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "images.example/none:1: not found"}}
    assert waited(Cluster([[job()], [job()], [DONE]], [pod(waiting)]))[0][-1] == "1 of 1 volumes staged"
    reason = given_up(Cluster([[job()]], [pod(waiting)]))
    assert "real-0 (pod stage-0-x7): stage: ImagePullBackOff: images.example/none:1: not found" in reason


def test_a_secret_that_is_missing_ends_the_wait() -> None:
    waiting = {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "mirror" not found'}}
    assert 'stage: CreateContainerConfigError: secret "mirror" not found' in given_up(
        Cluster([[job()]], [pod(waiting)])
    )


def test_a_pod_that_the_cluster_does_not_admit_ends_the_wait_with_its_words() -> None:
    event = recorded_event("a pod is refused", name="stage-0") | {"lastTimestamp": "2026-11-30T22:00:01Z"}
    reason = given_up(Cluster([[job()]], warnings=[event]))
    assert "the pod of Job stage-0 cannot be made: FailedCreate: " in reason
    assert 'violates PodSecurity "baseline:latest": hostPath volumes' in reason


def test_a_job_that_a_queue_suspended_ends_the_wait() -> None:
    suspended = job(condition="Suspended", reason="JobSuspended", suspend=True)
    suspended["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "gpus"}
    reason = given_up(Cluster([[suspended]]))
    assert "Job stage-0 is suspended, in the queue gpus: said of JobSuspended" in reason


def test_a_container_that_the_cluster_added_and_that_does_not_end_ends_the_wait() -> None:
    proxy = {"name": "istio-proxy", "state": RUNS, "lastState": {}}
    reason = given_up(Cluster([[job()]], [pod(ended(0), proxy)]))
    assert "its work has ended, and the pod goes on because of what the cluster added to it (istio-proxy)" in reason


def test_a_node_that_falls_silent_ends_the_wait() -> None:
    reason = given_up(Cluster([[job()]], [pod(RUNS)], ready=False))
    assert "real-0 (pod stage-0-x7): its node is not Ready (container runtime is down)" in reason


def test_a_claim_that_gets_no_volume_ends_the_wait_with_the_words_about_the_claim() -> None:
    made = pod(RUNS)
    del made["spec"]["nodeName"]
    made["status"] = {"phase": "Pending"}
    about = {"kind": "PersistentVolumeClaim", "name": "h200-weights"}
    event = recorded_event("a pod is refused", **about) | {"reason": "ProvisioningFailed", "message": "quota exceeded"}
    began = time.monotonic()
    assert "pod stage-0-x7: ProvisioningFailed: quota exceeded" in given_up(Cluster([[job()]], [made], [event]))
    assert time.monotonic() - began >= HURRIED.slow_start


def test_a_job_that_is_gone_is_told_and_not_waited_for(warnings: list[str]) -> None:
    waited(Cluster([[]]))
    assert len(warnings) == 1
    assert warnings[0].startswith("stage-0: the Job is gone from the cluster")
    assert "`pulumi up --refresh`" in warnings[0]


def test_a_preview_tells_of_a_job_that_is_gone_and_of_no_other(warnings: list[str]) -> None:
    with api_server(Cluster([[job()]])) as api:
        asyncio.run(WARN_IF_GONE(stage(api), ["stage-0"]))
        assert warnings == []
        asyncio.run(WARN_IF_GONE(stage(api), ["stage-0", "stage-1"]))
        assert warnings[0].startswith("stage-1: the Job is gone")


def test_all_is_given_up_after_the_time_that_there_was() -> None:
    reason = given_up(Cluster([[job()]], [pod(RUNS)]), seconds=1)
    assert "not done in 1 s" in reason
    assert "12.3 of 595.2 GB" in reason


def test_a_cluster_that_is_gone_for_long_ends_the_wait() -> None:
    with pytest.raises(pulumi.RunError) as caught:
        asyncio.run(WAIT_UNTIL_STAGED(stage(ClusterApi({})), ["stage-0"], lambda *_: None, HURRIED))
    assert "the cluster has not answered for" in str(caught.value)


def test_a_job_that_an_interrupted_update_left_is_named_with_what_removes_it(warnings: list[str]) -> None:
    ending = job("stage-ending")
    ending["metadata"]["deletionTimestamp"] = "2026-11-30T22:00:09Z"
    waited(Cluster([[DONE, job("stage-old", "Complete"), job("stage-failed", "Failed"), ending]]))
    assert warnings == []

    waited(Cluster([[DONE, job("stage-left")]]))
    [words] = warnings
    assert words.startswith("stage-left: a Job of this stack that ran beside the others")
    assert words.endswith("`kubectl delete job -n serving stage-left`")


def without_credentials(attempt: int) -> dict[str, Any]:
    """The pod of one attempt, which the cloud gave no credentials."""
    made = pod(ended(77, "stager: S3: no AWS credentials in this pod"))
    made["metadata"] |= {"uid": f"uid-{attempt}", "name": f"stage-0-{attempt}"}
    return made


def test_new_pods_that_get_no_credentials_either_end_the_wait_with_what_to_look_at() -> None:
    """The Job itself would go on until its deadline, because such a pod is no attempt."""

    class Attempts(Cluster):
        def __call__(self, path: str, query: Mapping[str, str]) -> Answer:
            self.pods = [without_credentials(len(self.asked))]
            return super().__call__(path, query)

    assert waited(Cluster([[job()], [job()], [DONE]], [without_credentials(0)]))[0][-1] == "1 of 1 volumes staged"
    reason = given_up(Attempts([[job()]]))
    assert "stager: S3: no AWS credentials in this pod" in reason
    assert "associate a role with the stager's service account" in reason
