"""The wait for a server, against recorded answers of an API server over real HTTP."""

import asyncio
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
import pytest

from components.cluster.api import ClusterApi
from components.rollout import server_watch
from components.rollout.first_answer import ProbeRequest
from components.rollout.obstacles import GiveUpAfter
from components.rollout.server_watch import Server
from tests.unit.components.api_server import Answer, api_server, kubeconfig
from tests.unit.components.recorded_pods import VERSION, ended_again, loading, recorded_event, recorded_pod

WAIT_UNTIL_READY = server_watch.wait_until_ready
"""As it is before the fixture of this directory takes its place."""

PATIENT = GiveUpAfter(poll_seconds=0.01, report_seconds=0)
HURRIED = replace(PATIENT, obstacle=0.3, slow_start=0.6, unreachable=0.3)
PODS = "/api/v1/namespaces/serving/pods"
EVENTS = "/api/v1/namespaces/serving/events"
WORKLOADS = (
    "/apis/apps/v1/namespaces/serving/deployments/server-1a2b",
    "/apis/leaderworkerset.x-k8s.io/v1/namespaces/serving/leaderworkersets/server-1a2b",
)
READY = {"conditions": [{"type": "Ready", "status": "True"}]}
Pods = Sequence[dict[str, Any]]


@dataclass
class Cluster:
    """What the API server answers: the pods of each look, the last of them for ever, and warnings."""

    looks: Sequence[Pods]
    warnings: Pods = ()
    workload: Answer = field(default_factory=lambda: {"spec": {"replicas": 9}})
    """The object that makes the pods."""
    node: Answer = field(default_factory=lambda: {"metadata": {"name": "real-0"}, "spec": {}, "status": READY})
    answer: Answer = field(default_factory=lambda: {"choices": [{"text": " 2"}]})
    """To what the server itself is asked."""
    asked: list[Mapping[str, str]] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    def __call__(self, path: str, query: Mapping[str, str]) -> Answer:
        if path in WORKLOADS:
            return self.workload
        if path == EVENTS:
            return {"items": list(self.warnings)}
        if "/proxy/" in path:
            self.questions.append(path)
            return self.answer
        if path == "/api/v1/nodes/real-0":
            return self.node
        assert path == PODS
        self.asked.append(query)
        return {"items": list(self.looks[min(len(self.asked), len(self.looks)) - 1])}


def server(api: ClusterApi, pods: int = 1, seconds: int = 60) -> Server:
    labels = {"app.kubernetes.io/instance": "h200", "app.kubernetes.io/component": "server"}
    return Server(api, "serving", "h200", labels, VERSION, ProbeRequest(8000, "acme/model"), pods, seconds)


def answered(cluster: Cluster) -> str:
    """Whether the server answers, as far as the wait found out."""
    with api_server(cluster) as api:
        return asyncio.run(WAIT_UNTIL_READY(server(api), "server-1a2b", lambda _: None, PATIENT))


def waited(cluster: Cluster, pods: int = 1, seconds: int = 60, give_up_after: GiveUpAfter = PATIENT) -> list[str]:
    """What was said until the server served, without durations."""
    said: list[str] = []
    with api_server(cluster) as api:
        asyncio.run(WAIT_UNTIL_READY(server(api, pods, seconds), "server-1a2b", said.append, give_up_after))
    timed = r"(; nobody was answered for \d+ s)?; first answer after \d\.\d\d s$"
    return [re.sub(timed, "", words) for words in said]


def given_up(cluster: Cluster, pods: int = 1, seconds: int = 60) -> str:
    """The reason why it was not."""
    with pytest.raises(pulumi.RunError) as caught:
        waited(cluster, pods, seconds, HURRIED)
    return str(caught.value)


SERVES = recorded_pod("serves")


def test_a_server_that_serves_is_looked_at_once_and_nothing_is_said() -> None:
    cluster = Cluster([[SERVES]])
    assert waited(cluster) == []
    [query] = cluster.asked
    assert query["labelSelector"] == "app.kubernetes.io/instance=h200,app.kubernetes.io/component=server"


def test_what_the_pods_go_through_is_said_once_each() -> None:
    checking, loads = recorded_pod("checks its weights"), loading(recorded_pod("serves"))
    assert waited(Cluster([[], [checking], [checking], [loads], [loads], [SERVES]])) == [
        "0 of 1 pods ready",
        "0 of 1 pods ready; real-0 (pod server-0): checking the weights",
        "0 of 1 pods ready; real-0 (pod server-0): loading",
        "1 of 1 pods ready",
    ]


def test_every_leader_is_asked_and_no_worker() -> None:
    places = [("a0", "0", "0"), ("a1", "0", "1"), ("b0", "1", "0"), ("b1", "1", "1")]
    cluster = Cluster([[recorded_pod("serves", name=name, group=group, worker=w) for name, group, w in places]])
    waited(cluster, pods=4)
    assert cluster.questions == [f"{PODS}/{name}:8000/proxy/v1/completions" for name in ("a0", "b0")]


def test_a_server_that_is_ready_and_fails_at_its_first_answer_ends_the_wait() -> None:
    reason = given_up(Cluster([[SERVES]], answer=(500, '{"error": "size_k is not divisible"}')))
    assert reason.startswith("the server is ready, and fails at its first answer:\n  real-0 (pod server-0): HTTP 500")
    assert "size_k is not divisible" in reason
    assert "kubectl logs -n serving server-0 -c engine" in reason


def test_a_server_that_cannot_be_asked_is_taken_at_its_word() -> None:
    said = waited(Cluster([[SERVES]], answer=(401, "a key is missing")))
    assert said == ["1 of 1 pods ready; whether it answers is not known: HTTP 401: a key is missing"]


@pytest.mark.parametrize(
    ("answer", "known"),
    [
        ({"choices": [{"text": " 2"}]}, "yes"),
        ((403, '{"kind": "Status", "message": "pods/proxy is forbidden"}'), "unknown: pods/proxy is forbidden"),
        ((401, "a key is missing"), "unknown: HTTP 401: a key is missing"),
        ((404, ""), "unknown: HTTP 404"),
    ],
)
def test_whether_it_answers_is_a_result_of_the_wait(answer: Answer, known: str) -> None:
    assert answered(Cluster([[SERVES]], answer=answer)) == known


@pytest.mark.parametrize(
    ("pods", "workload", "change"),
    [
        (1, {"spec": {"replicas": 0}}, "Deployment server-1a2b is scaled to 0 of 1 replicas"),
        (1, None, "Deployment server-1a2b is no longer in namespace serving"),
        (1, {"spec": {"replicas": 1, "paused": True}}, "Deployment server-1a2b is paused: `kubectl rollout resume"),
        (
            4,
            {"spec": {"replicas": 1, "leaderWorkerTemplate": {"size": 2}}},
            "LeaderWorkerSet server-1a2b is scaled to 1 of 2 replicas",
        ),
        (4, None, "LeaderWorkerSet server-1a2b is no longer in namespace serving"),
    ],
)
def test_a_workload_that_was_changed_behind_pulumis_back_ends_the_wait_at_once(
    pods: int, workload: Answer, change: str
) -> None:
    with pytest.raises(pulumi.RunError) as caught:
        waited(Cluster([[]], workload=workload), pods)
    assert str(caught.value).startswith(f"the server does not run: {change}")
    assert ("`pulumi up --refresh`" in str(caught.value)) is ("paused" not in change)


def test_pods_that_are_only_late_are_waited_for() -> None:
    size = {"leaderWorkerTemplate": {"size": 2}}
    assert waited(Cluster([[], [SERVES]], workload={"spec": {"replicas": 1}})) == [
        "0 of 1 pods ready",
        "1 of 1 pods ready",
    ]
    assert waited(Cluster([[], [SERVES, SERVES]], workload={"spec": {"replicas": 1, **size}}), pods=2)


def test_it_is_not_said_more_often_than_one_can_read() -> None:
    checking, loads = recorded_pod("checks its weights"), loading(recorded_pod("serves"))
    said = waited(Cluster([[], [checking], [loads], [SERVES]]), give_up_after=replace(PATIENT, report_seconds=60))
    assert said == ["0 of 1 pods ready", "1 of 1 pods ready"]


def test_many_pods_are_counted_and_not_named() -> None:
    def many(moment: Callable[[str], dict[str, Any]]) -> Pods:
        return [moment(f"server-{number}") for number in range(64)]

    loads = many(lambda name: loading(recorded_pod("serves", name=name)))
    loads = [recorded_pod("checks its weights", name="server-0"), *loads[1:]]
    said = waited(Cluster([loads, many(lambda name: recorded_pod("serves", name=name))]), pods=64)
    assert said == ["0 of 64 pods ready; 1 checking the weights; 63 loading", "64 of 64 pods ready"]


def test_pods_of_the_template_before_count_for_nothing() -> None:
    """They serve until their turn comes, or fail as they did before the fault was mended."""
    old = recorded_pod("serves", name="old", version="before")
    failing = ended_again(recorded_pod("has a wrong flag", name="failing", version="before"), "engine", 9)
    assert waited(Cluster([[old, failing], [old, failing], [SERVES, old]]))[-1] == "1 of 1 pods ready"


def test_a_pod_that_is_told_to_end_does_not_serve() -> None:
    leaving = recorded_pod("serves", name="leaving")
    leaving["metadata"] |= {"deletionTimestamp": "2999-01-01T00:00:00Z", "deletionGracePeriodSeconds": 60}
    said = waited(Cluster([[leaving], [SERVES]]))
    assert said[0] == "0 of 1 pods ready"


def test_altered_weights_end_the_wait_with_the_verifiers_words_and_what_to_do() -> None:
    reason = given_up(Cluster([[], [recorded_pod("has altered weights")]]))
    assert reason.splitlines()[0] == "the server cannot start:"
    assert "the check of the weights failed on real-0 (pod server-0): exit status 1" in reason
    assert "README.md: SHA-256 is" in reason
    assert "kubectl delete jobs,pods -n serving -l app.kubernetes.io/instance=h200," in reason


def test_one_failure_of_a_check_is_borne() -> None:
    once = ended_again(recorded_pod("has altered weights"), "verify", -1)
    assert waited(Cluster([[], [once], [SERVES]]))[-1] == "1 of 1 pods ready"


def test_an_engine_is_given_up_when_it_failed_three_times() -> None:
    twice = recorded_pod("has a wrong flag")
    assert waited(Cluster([[], [twice], [twice], [SERVES]]))[-1] == "1 of 1 pods ready"
    reason = given_up(Cluster([[], [twice], [ended_again(recorded_pod("has a wrong flag"), "engine")]]))
    assert "the engine failed on real-0 (pod server-0): exit status 2" in reason
    assert "unrecognized arguments: --mlock" in reason
    assert "kubectl logs -n serving server-0 -c engine --previous" in reason


def test_a_group_that_is_made_anew_each_time_is_counted_by_place() -> None:
    attempts = []
    for attempt in range(3):
        pod = recorded_pod("leads and failed", group="0", worker="0")
        pod["metadata"]["uid"] = f"attempt-{attempt}"
        attempts.append([pod])
    assert waited(Cluster([[], *attempts[:2], [SERVES]]))[-1] == "1 of 1 pods ready"
    assert "rank 0 serves and all other ranks are headless" in given_up(Cluster([[], *attempts]))


def test_the_rank_that_failed_first_is_told_first_and_the_same_words_once() -> None:
    leader, worker = (recorded_pod("has a wrong flag", name=name, group="0", worker=name[-1]) for name in ("a0", "a1"))
    other = recorded_pod("has a wrong flag", name="b0", group="1", worker="0")
    for pod, message, second in ((leader, "peer lost", 9), (worker, "CUDA error 803", 5), (other, "peer lost", 9)):
        [engine] = pod["status"]["containerStatuses"]
        engine["lastState"]["terminated"] |= {"message": message, "finishedAt": f"2026-11-30T23:00:0{second}Z"}
    reason = given_up(Cluster([[], [ended_again(pod, "engine") for pod in (leader, worker, other)]]), pods=4)
    assert reason.index("CUDA error 803") < reason.index("peer lost")
    assert reason.count("peer lost") == 1
    assert "the engine failed on real-0 (pod a0), real-0 (pod b0): exit status 2" in reason
    assert "kubectl logs -n serving a1 " in reason


def test_what_failed_before_the_first_look_may_have_been_mended_and_the_next_attempt_decides() -> None:
    stopped = ended_again(recorded_pod("has altered weights", before=True), "verify", 7)
    told_late = ended_again(recorded_pod("has altered weights", before=True), "verify", 8)
    assert waited(Cluster([[stopped], [stopped], [told_late], [told_late], [SERVES]]))[-1] == "1 of 1 pods ready"
    again = ended_again(recorded_pod("has altered weights"), "verify", 9)
    assert "README.md: SHA-256 is" in given_up(Cluster([[stopped], [told_late], [again]]))


def test_what_failed_long_ago_in_a_container_that_runs_does_not_count() -> None:
    pod = recorded_pod("serves")
    [engine] = pod["status"]["containerStatuses"]
    [failed] = recorded_pod("has a wrong flag", before=True)["status"]["containerStatuses"]
    engine |= {"restartCount": 9, "lastState": failed["lastState"]}
    twice = recorded_pod("has a wrong flag")
    twice["status"]["containerStatuses"][0]["restartCount"] = 11
    assert waited(Cluster([[loading(pod)], [twice], [SERVES]]))[-1] == "1 of 1 pods ready"


def test_an_image_that_cannot_be_pulled_is_borne_for_a_while() -> None:
    pod = recorded_pod("has no image")
    assert waited(Cluster([[], [pod], [pod], [SERVES]]))[-1] == "1 of 1 pods ready"
    reason = given_up(Cluster([[pod]]))
    assert "real-0 (pod server-0): engine: ErrImagePull: " in reason
    assert "heavylift.lab/nowhere:1" in reason


def test_advice_is_of_what_the_server_is_given_up_for_and_not_of_a_failure_that_was_borne() -> None:
    once = ended_again(recorded_pod("has a wrong flag"), "engine", -1)
    reason = given_up(Cluster([[], [once], [recorded_pod("has no node", name="server-1")]]))
    assert "Insufficient cpu" in reason
    assert "heavylift:engine" not in reason


def test_a_pod_without_a_node_is_given_up_after_a_while_with_the_schedulers_words() -> None:
    began = time.monotonic()
    assert "Insufficient cpu" in given_up(Cluster([[recorded_pod("has no node")]]))
    assert time.monotonic() - began >= HURRIED.obstacle


def test_a_server_of_another_kind_that_holds_the_gpus_is_told_with_how_to_end_it() -> None:
    old = recorded_pod("serves", name="old", version="before")
    reason = given_up(Cluster([[recorded_pod("has no node", group="0", worker="0"), old]]), pods=2)
    assert "kubectl delete deployment -n serving -l app.kubernetes.io/instance=h200," in reason
    old_group = recorded_pod("serves", name="old", version="before", group="1", worker="0")
    reason = given_up(Cluster([[recorded_pod("has no node", group="0", worker="0"), old_group]]), pods=2)
    assert "kubectl delete" not in reason, "groups change one after the other"
    reason = given_up(Cluster([[recorded_pod("has no node"), old_group]]), pods=1)
    assert "kubectl delete leaderworkerset -n serving" in reason


def test_a_pod_without_a_node_is_waited_for_as_long_as_pods_before_it_are_leaving() -> None:
    leaving = recorded_pod("serves", name="old", version="before")
    leaving["metadata"] |= {"deletionTimestamp": "2999-01-01T00:00:00Z", "deletionGracePeriodSeconds": 60}
    looks: list[Pods] = [[recorded_pod("has no node"), leaving]] * 60
    assert waited(Cluster([*looks, [SERVES]]), give_up_after=HURRIED)[-1] == "1 of 1 pods ready"


def test_pods_that_are_refused_are_told_with_the_clusters_warning() -> None:
    event = recorded_event("a pod is refused", name="server-1a2b-0") | {"lastTimestamp": stamp()}
    reason = given_up(Cluster([[]], [event]), pods=2)
    assert "2 of its pods cannot be made: FailedCreate: " in reason
    assert 'violates PodSecurity "baseline:latest": hostPath volumes' in reason


def test_warnings_about_others_or_from_before_are_let_be() -> None:
    others = recorded_event("a pod is refused", name="server-1a2b3c") | {"lastTimestamp": stamp()}
    before = recorded_event("a pod is refused", name="server-1a2b")
    assert given_up(Cluster([[]], [others, before]), seconds=1).startswith("the server was given 1 s by the plan")


def test_a_warning_without_words_is_none_the_less_one() -> None:
    event = recorded_event("a pod is refused", name="server-1a2b-0") | {"lastTimestamp": stamp()}
    nameless = event | {"involvedObject": {}}
    del nameless["reason"], event["message"]
    assert "1 of its pods cannot be made: FailedCreate: no reason given" in given_up(Cluster([[]], [nameless, event]))


def test_a_start_that_the_cluster_warns_of_is_said_and_given_up_later() -> None:
    pod = recorded_pod("has no directory")
    event = recorded_event("a volume is not there", uid=pod["metadata"]["uid"])
    said = waited(Cluster([[pod], [pod], [SERVES]], [event]))
    assert "hostPath type check failed: /not/there is not a directory" in said[0]
    began = time.monotonic()
    assert "hostPath type check failed" in given_up(Cluster([[pod]], [event]))
    assert time.monotonic() - began >= HURRIED.slow_start


def test_when_the_plans_time_is_over_the_last_moments_are_told() -> None:
    once = ended_again(recorded_pod("has a wrong flag"), "engine", -1)
    reason = given_up(Cluster([[], [once]]), seconds=1)
    assert reason.startswith("the server was given 1 s by the plan, and is not ready:")
    assert "0 of 1 pods ready; real-0 (pod server-0): waiting to be tried again" in reason
    assert "unrecognized arguments: --mlock" in reason


def test_the_time_is_that_of_each_group_where_they_change_one_after_the_other() -> None:
    began = time.monotonic()

    def one_after_the_other(path: str, _: Mapping[str, str]) -> Answer:
        if path in WORKLOADS:
            return {"spec": {"replicas": 2}}
        ready = int((time.monotonic() - began) / 1.2)
        return {"items": [recorded_pod("serves", name=f"server-{number}") for number in range(ready)]}

    with api_server(one_after_the_other) as api:
        asyncio.run(WAIT_UNTIL_READY(server(api, pods=2, seconds=2), "server-1a2b", lambda _: None, HURRIED))
    assert time.monotonic() - began > 2, "longer than one of them may take"


def test_a_pod_whose_node_falls_silent_is_given_up_with_the_nodes_words() -> None:
    silent = {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting node status."}
    node = {"metadata": {"name": "real-0"}, "spec": {}, "status": {"conditions": [silent]}}
    reason = given_up(Cluster([[loading(recorded_pod("serves"))]], node=node))
    assert "real-0 (pod server-0): its node is not Ready (Kubelet stopped posting node status.)" in reason
    gone = given_up(Cluster([[loading(recorded_pod("serves"))]], node=(404, "{}")))
    assert "its node is not Ready (it is no longer in the cluster)" in gone


def test_a_pod_that_does_not_end_is_told_with_how_to_end_it_when_another_waits_for_its_place() -> None:
    old = recorded_pod("serves", name="old", version="before")
    old["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 60}
    reason = given_up(Cluster([[old]]))
    assert "real-0 (pod old): was told to end, and has not: " in reason
    assert "`kubectl delete pod -n serving old --force`" in reason


def test_a_volume_that_is_made_for_a_claim_may_take_its_time() -> None:
    pod = recorded_pod("has no node")
    for condition in pod["status"]["conditions"]:
        condition["message"] = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    reason = given_up(Cluster([[pod]]), seconds=1)
    assert reason.startswith("the server was given 1 s by the plan")


def test_a_cluster_that_does_not_answer_for_a_moment_is_borne() -> None:
    refusals = iter([True, False, True, True, False])

    def moody(path: str, query: Mapping[str, str]) -> Answer:
        if "/proxy/" in path:
            return {"data": [{"id": "acme/model"}]}
        if path in WORKLOADS:
            return {"spec": {"replicas": 1}}
        assert path == PODS
        return None if next(refusals) else {"items": [] if next(iter_looks) else [SERVES]}

    iter_looks: Iterator[bool] = iter([True, False])
    with api_server(moody, status=503) as api:
        asyncio.run(WAIT_UNTIL_READY(server(api), "server-1a2b", lambda _: None, PATIENT))


def test_a_cluster_that_is_gone_for_long_ends_the_wait_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(pulumi.RunError) as caught:
        asyncio.run(WAIT_UNTIL_READY(server(ClusterApi(kubeconfig(port))), "server-1a2b", lambda _: None, HURRIED))
    assert "the cluster has not answered for" in str(caught.value)
    assert "Connection refused" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_wait_can_be_broken_off() -> None:
    async def broken_off(api: ClusterApi) -> None:
        waiting = asyncio.create_task(WAIT_UNTIL_READY(server(api), "server-1a2b", lambda _: None, HURRIED))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    began = time.monotonic()
    with api_server(Cluster([[]])) as api:
        asyncio.run(broken_off(api))
    assert time.monotonic() - began < 5


def stamp() -> str:
    """The time of an event that comes after the wait began, however long a busy machine takes to begin it."""
    return (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
