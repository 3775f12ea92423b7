"""What a pod goes through, told from what a real API server said of it."""

from components.rollout.pod_report import PodReport, report
from tests.unit.components.recorded_pods import VERSION, loading, recorded_pod


def reported(moment: str) -> PodReport:
    return report(recorded_pod(moment))


def test_a_pod_says_what_it_does() -> None:
    assert reported("checks its weights").doing == "checking the weights"
    assert report(loading(recorded_pod("serves"))).doing == "loading"
    assert reported("serves").doing == "ready"
    assert reported("has altered weights").doing == "waiting to be tried again"
    assert reported("has a wrong flag").doing == "waiting to be tried again"
    assert reported("has no node").doing == "waiting for a node"
    assert reported("has no directory").doing == "starting"


def test_a_pod_is_known_by_its_template_its_node_and_its_place() -> None:
    pod = report(recorded_pod("leads and failed", group="1", worker="0"))
    assert (pod.version, pod.group_index, pod.where) == (VERSION, ("1", "0"), "real-1 (pod server-0)")
    assert report(recorded_pod("has no node")).where == "pod server-0"


def test_a_check_that_failed_is_counted_with_its_words() -> None:
    [failure] = reported("has altered weights").failures
    assert (failure.container, failure.times, failure.stopped, failure.status) == ("verify", 2, True, "1")
    assert "README.md: SHA-256 is" in failure.message


def test_an_engine_that_failed_is_counted_with_the_last_lines_of_its_log() -> None:
    [failure] = reported("has a wrong flag").failures
    assert (failure.container, failure.times, failure.status) == ("engine", 2, "2")
    assert failure.message.endswith("unrecognized arguments: --mlock")


def test_what_ended_because_it_was_told_to_is_no_failure() -> None:
    assert [failure.container for failure in reported("was told to end").failures if failure.container == "pod"] == []
    pod = recorded_pod("serves")
    [engine] = pod["status"]["containerStatuses"]
    engine["state"] = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-30T22:59:12Z"}}
    pod["metadata"] |= {"deletionTimestamp": "2026-11-30T23:00:10Z", "deletionGracePeriodSeconds": 60}
    assert report(pod).failures == ()


def test_what_failed_before_its_group_was_made_anew_is_a_failure() -> None:
    pod = reported("leads, failed and is made anew")
    assert pod.terminating
    [failure] = pod.failures
    assert "rank 0 serves and all other ranks are headless" in failure.message


def test_an_image_that_cannot_be_pulled_and_a_node_that_cannot_be_found_are_obstacles() -> None:
    image = reported("has no image").obstacle
    assert image is not None
    assert image.startswith("engine: ErrImagePull: ")
    assert "heavylift.lab/nowhere:1" in image
    node = reported("has no node").obstacle
    assert node is not None
    assert node.startswith("no node for it: 0/")
    assert "Insufficient cpu" in node
    assert reported("has altered weights").obstacle is None, "a back-off is counted, not timed"


def test_a_pod_that_its_node_refused_has_ended_as_a_whole() -> None:
    pod = recorded_pod("has no node")
    reason = {"reason": "UnexpectedAdmissionError", "message": "Allocate failed due to no devices left"}
    pod["status"] = {"phase": "Failed", "startTime": "2026-11-30T22:59:28Z", **reason}
    [failure] = report(pod).failures
    assert (failure.container, failure.status, failure.message) == ("pod", reason["reason"], reason["message"])
    assert report(pod).finished


def test_a_container_that_its_node_lost_track_of_has_ended_at_no_time() -> None:
    pod = recorded_pod("has a wrong flag")
    [engine] = pod["status"]["containerStatuses"]
    lost = {"exitCode": 137, "reason": "ContainerStatusUnknown", "startedAt": None, "finishedAt": None}
    engine["lastState"]["terminated"] |= lost
    [failure] = report(pod).failures
    assert failure.status == "137 (ContainerStatusUnknown)"
    assert failure.finished == pod["metadata"]["creationTimestamp"]


def test_what_a_cluster_adds_before_the_engine_has_done_its_work_when_it_ended_well() -> None:
    pod = loading(recorded_pod("serves"))
    [verifier] = pod["status"]["initContainerStatuses"]
    pod["status"]["initContainerStatuses"].insert(0, {**verifier, "name": "mesh-init"})
    assert report(pod).doing == "loading"
    assert report(pod).failures == ()


def test_memory_that_ran_out_is_named() -> None:
    pod = recorded_pod("has a wrong flag")
    [engine] = pod["status"]["containerStatuses"]
    engine["lastState"]["terminated"] |= {"exitCode": 137, "reason": "OOMKilled", "message": ""}
    [failure] = report(pod).failures
    assert failure.status == "137 (OOMKilled)"
