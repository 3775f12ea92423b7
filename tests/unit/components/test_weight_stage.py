"""The pre-stage Job: one for each set of weights and volume, where the server will land, with a token of its own."""

import subprocess
import sys
from typing import Any

import pulumi
import pytest

from components.arguments import Placement, WeightSource
from components.cluster.quantity import amount
from components.in_pod.packaging import stager_archive, stager_texts
from components.pods.jobs.stager_job import NO_CREDENTIALS_STATUS
from components.weight_stage import WeightStage, WeightStageArgs
from config.stack import arguments
from tests.recording_engine import Recording, Registration, record
from tests.unit.components.samples import ANYWHERE, GEMMA, H200, KIMI, ON_H200, TWO_H200S, UNNAMED


def staged(
    model: arguments.Model = KIMI,
    *,
    volume: WeightSource = ON_H200,
    placement: Placement = H200,
    preview: bool = False,
    name: str = "stage",
    watched: bool = True,
    **more: Any,
) -> Recording:
    args: WeightStageArgs = {
        "namespace": "serving",
        "model": model,
        "volume": volume,
        "placement": placement,
        "image": "python:3.12-slim",
        "owner": "h200",
        "deadline_seconds": 1429,
        "await_seconds": 1549,
    }
    given = {"kubeconfig": "{}"} if watched else {}
    made: WeightStageArgs = {**args, **given, **more}  # type: ignore[typeddict-item]
    return record(lambda: WeightStage(name, made), preview=preview, stack="h200")


def pod(recording: Recording) -> dict[str, Any]:
    spec: dict[str, Any] = recording.only(":Job").inputs["spec"]["template"]["spec"]
    return spec


def container(recording: Recording) -> dict[str, Any]:
    (only,) = pod(recording)["containers"]
    return dict(only)


def failure_rules(recording: Recording) -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = recording.only(":Job").inputs["spec"]["podFailurePolicy"]["rules"]
    return rules


def test_the_job_is_named_by_what_it_stages_and_where() -> None:
    assert staged().only(":Job").name == "stage-669cddc777e743fa-h200-0"
    anywhere = staged(GEMMA, volume={"host_path": "/var/lib/weights"}, placement=ANYWHERE)
    assert anywhere.only(":Job").name == "stage-0881a52b5b77b719"


def test_each_volume_gets_a_job_on_its_own_node() -> None:
    jobs = staged(volume={"host_path": "/mnt/nvme"}, placement=TWO_H200S).of_type(":Job")
    selectors = {job.name: job.inputs["spec"]["template"]["spec"]["nodeSelector"] for job in jobs}
    assert selectors == {
        f"stage-669cddc777e743fa-{name}": {"kubernetes.io/hostname": name} for name in ("h200-0", "h200-1")
    }


def test_the_job_lands_where_the_server_will_and_takes_no_gpu() -> None:
    recording = staged()
    assert pod(recording)["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert "nvidia.com/gpu" not in str(container(recording)["resources"])


def test_the_jobs_own_deadline_comes_before_pulumis() -> None:
    job = staged().only(":Job")
    assert job.inputs["spec"]["activeDeadlineSeconds"] == 1429
    assert "customTimeouts" not in job.options, "Pulumi itself only awaits that the Job is there"
    assert job.inputs["metadata"]["annotations"]["pulumi.com/waitFor"] == "jsonpath={.metadata.uid}"


def test_without_a_way_to_the_cluster_pulumi_awaits_the_job_and_every_failure_is_one_that_it_sees() -> None:
    """Provider 4.25 waits for ever on a Job that a FailJob rule ended."""
    job = staged(watched=False).only(":Job")
    assert job.options["customTimeouts"] == {"create": "1549s", "update": "1549s"}
    assert "pulumi.com/waitFor" not in job.inputs["metadata"]["annotations"]
    assert [rule["action"] for rule in job.inputs["spec"]["podFailurePolicy"]["rules"]] == ["Ignore"]


def test_a_job_is_replaced_when_it_failed_and_deleted_before_it_is_replaced() -> None:
    job = staged().only(":Job")
    assert job.inputs["metadata"]["annotations"]["pulumi.com/replaceUnready"] == "true"
    assert job.options["deleteBeforeReplace"] is True


def test_a_job_is_never_collected_by_the_cluster_and_never_has_two_writers() -> None:
    spec = staged().only(":Job").inputs["spec"]
    assert "ttlSecondsAfterFinished" not in spec
    assert spec["podReplacementPolicy"] == "Failed"
    assert "parallelism" not in spec
    assert pod(staged())["restartPolicy"] == "Never"


def test_a_disruption_is_no_attempt_and_a_refusal_of_the_stager_is_the_last() -> None:
    rules = staged().only(":Job").inputs["spec"]["podFailurePolicy"]["rules"]
    assert rules == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"containerName": "stage", "operator": "In", "values": [1, 2]}},
    ]


def test_the_stager_is_told_what_the_stack_says() -> None:
    assert container(staged())["command"] == [
        *("python3", "/heavylift/stager/run_stager.py", "stage"),
        *("--directory", "/weights/669cddc777e743fa"),
        *("--repository", "moonshotai/Kimi-K2.5"),
        *("--revision", "4d01dfe0332d63057c186e0b262165819efb6611"),
        "--user=serving/h200",
        "--source=hub",
    ]


def test_the_stager_is_told_patterns_sources_branch_and_lock() -> None:
    sources = ["s3://mirror/models", "hub"]
    lock = '{"files": []}'
    recording = staged(GEMMA, sources=sources, lock=lock, volume={"host_path": "/w"}, placement=ANYWHERE)
    command = container(recording)["command"]
    assert command[command.index("main") + 1 :] == [
        "--user=serving/h200",
        "--include=gemma-3-270m-q4_k_m.gguf",
        "--source=s3://mirror/models",
        "--source=hub",
        "--allow-unpinned",
        "--lock=/heavylift/stager/weights.lock.json",
    ]
    assert recording.only(":ConfigMap").inputs["data"]["weights.lock.json"] == lock


def test_the_hubs_own_client_is_used_where_the_stack_says_so_and_keeps_no_second_copy() -> None:
    assert "--native-xet" not in container(staged())["command"]
    by_xet = container(staged(native_xet=True))
    assert "--native-xet" in by_xet["command"]
    assert {"name": "HF_XET_CHUNK_CACHE_SIZE_BYTES", "value": "0"} in by_xet["env"]


def test_one_config_map_holds_the_whole_stager() -> None:
    program = staged(watched=False).only(":ConfigMap").inputs
    assert (program["data"], program["binaryData"]) == (stager_texts(), stager_archive())


def test_the_weights_are_writable_and_the_program_is_not() -> None:
    recording = staged()
    mounts = {mount["name"]: mount.get("readOnly", False) for mount in container(recording)["volumeMounts"]}
    assert mounts == {"program": True, "packages": False, "tmp": False, "weights": False}
    assert {"name": "weights", "persistentVolumeClaim": {"claimName": "h200-weights-h200-0"}} in pod(recording)[
        "volumes"
    ]


def test_the_hub_library_keeps_its_files_on_the_volume() -> None:
    environment = {entry["name"]: entry.get("value") for entry in container(staged())["env"]}
    assert environment["HF_HOME"] == "/weights/669cddc777e743fa/.heavylift/hub"


def test_the_stacks_own_environment_reaches_both_containers_and_wins() -> None:
    recording = staged(environment={"PIP_INDEX_URL": "http://wheels", "HF_HOME": "/elsewhere"})
    for each in (*pod(recording)["initContainers"], *pod(recording)["containers"]):
        environment = {entry["name"]: entry.get("value") for entry in each["env"]}
        assert environment["PIP_INDEX_URL"] == "http://wheels"
        assert environment["HF_HOME"] == "/elsewhere"


def test_requirements_are_installed_where_only_the_pod_sees_them() -> None:
    (installer,) = pod(staged())["initContainers"]
    assert installer["command"] == ["python3", "/heavylift/stager/install_requirements.py", "/packages"]
    assert {"name": "packages", "emptyDir": {}} in pod(staged())["volumes"]


@pytest.mark.parametrize("preview", [True, False])
def test_the_token_reaches_the_stager_alone_and_only_as_a_secret(preview: bool) -> None:
    recording = staged(hub_token="hf_token", preview=preview)
    secret = recording.only(":Secret")
    assert secret.secrets == {"hf_token"}
    for registration in recording.registrations:
        if registration is not secret:
            assert "hf_token" not in str(registration.inputs)
    (installer,) = pod(recording)["initContainers"]
    assert "HF_TOKEN" not in [entry["name"] for entry in installer["env"]]
    assert container(recording)["env"][-1] == {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "stage-hub-token-0123abcd", "key": "HF_TOKEN"}},
    }


def test_credentials_of_a_mirror_come_from_a_secret_or_a_service_account_and_reach_the_stager_alone() -> None:
    recording = staged(secret="mirror", service_account="mirror-reader")
    (installer,) = pod(recording)["initContainers"]
    assert container(recording)["envFrom"] == [{"secretRef": {"name": "mirror"}}]
    assert "envFrom" not in installer
    assert pod(recording)["serviceAccountName"] == "mirror-reader"
    assert pod(recording)["automountServiceAccountToken"] is False, "clouds give credentials by other ways"


def test_a_pod_without_the_credentials_of_its_service_account_is_no_attempt() -> None:
    from_mirror = staged(service_account="mirror-reader", sources=["s3://mirror/models", "hub"])
    late = {"containerName": "stage", "operator": "In", "values": [NO_CREDENTIALS_STATUS]}
    assert {"action": "Ignore", "onExitCodes": late} in failure_rules(from_mirror)
    assert "--require-credentials" in container(from_mirror)["command"]
    for other in (staged(sources=["s3://mirror/models"]), staged(service_account="mirror-reader")):
        assert "--require-credentials" not in container(other)["command"]
        assert len(failure_rules(other)) == 2


def test_without_a_token_there_is_no_secret() -> None:
    assert staged().of_type(":Secret") == []


def test_no_pod_of_the_stage_can_talk_to_the_cluster() -> None:
    assert pod(staged())["automountServiceAccountToken"] is False


GROUP: Placement = {**UNNAMED, "taints": [{"key": "nvidia.com/gpu"}], "candidates": ["ip-10-0-1-5"]}
ON_NVME: WeightSource = {"host_path": "/mnt/nvme"}


def daemon_set(**more: Any) -> Registration:
    return staged(volume=ON_NVME, placement=GROUP, **more).only(":DaemonSet")


def test_a_group_of_nodes_is_staged_by_one_daemon_set_of_its_weights() -> None:
    made = daemon_set()
    spec = made.inputs["spec"]
    assert made.name == "stage-669cddc777e743fa"
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    other = daemon_set(model={"repository": "moonshotai/Kimi-K2.5", "revision": "1" * 40})
    assert other.name != made.name
    assert other.inputs["spec"]["selector"] != spec["selector"], "neither takes the other's pods"


def test_a_daemon_set_runs_on_every_node_of_the_group_by_labels_and_never_by_names() -> None:
    template = daemon_set().inputs["spec"]["template"]["spec"]
    assert template["nodeSelector"] == {"pool": "gpu"}
    assert template["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    assert "affinity" not in template, "a node that replaces another has another name"


@pytest.mark.parametrize(
    ("placement", "kind"),
    [
        ({"nodes": 1, "node_selector": {"pool": "gpu"}}, ":DaemonSet"),
        ({"nodes": 2}, ":DaemonSet"),
        ({"nodes": 1}, ":Job"),
        ({"nodes": 1, "hostnames": ["h200-0"], "node_selector": {"pool": "gpu"}}, ":Job"),
    ],
)
def test_what_stages_follows_from_how_the_nodes_are_described(placement: Placement, kind: str) -> None:
    assert staged(volume=ON_NVME, placement=placement).only(kind)


def test_a_claim_that_a_group_shares_is_staged_once_by_a_job() -> None:
    assert staged(volume={"claim": "weights"}, placement=GROUP).only(":Job")


def test_the_pods_of_a_daemon_set_stage_as_those_of_a_job_and_then_stay() -> None:
    named: Placement = {"nodes": 2, "hostnames": ["h200-0", "h200-1"]}
    more: dict[str, Any] = {
        "hub_token": "hf_token",
        "secret": "mirror",
        "service_account": "mirror-reader",
        "sources": ["s3://mirror/models"],
    }
    job = staged(volume=ON_NVME, placement=named, **more).of_type(":Job")[0].inputs["spec"]["template"]["spec"]
    resident = daemon_set(**more).inputs["spec"]["template"]["spec"]
    requirements, stage = resident["initContainers"]
    (wait,) = resident["containers"]
    for ours, theirs in ((requirements, job["initContainers"][0]), (stage, job["containers"][0])):
        assert {**ours, "resources": None} == {**theirs, "resources": None}
    same = ("volumes", "serviceAccountName", "automountServiceAccountToken", "enableServiceLinks")
    assert [resident[key] for key in same] == [job[key] for key in same]
    assert resident["restartPolicy"] == "Always"
    assert "weights" not in [mount["name"] for mount in wait["volumeMounts"]]
    assert "hf_token" not in str(wait)
    assert "envFrom" not in wait


def test_a_pod_that_stays_keeps_little_from_the_server() -> None:
    """The scheduler counts the largest request of any container, as long as the pod exists."""
    template = daemon_set().inputs["spec"]["template"]["spec"]
    requests = [each["resources"]["requests"] for each in (*template["initContainers"], *template["containers"])]
    assert max(amount("cpu", each["cpu"]) or 0 for each in requests) <= (amount("cpu", "100m") or 0)
    assert max(amount("memory", each["memory"]) or 0 for each in requests) <= 2**27


def test_the_container_that_stays_ends_at_once_when_it_is_told_to() -> None:
    (wait,) = daemon_set().inputs["spec"]["template"]["spec"]["containers"]
    assert wait["command"][0] == "python3"
    signalled = "import os, signal, threading; threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"
    ended = subprocess.run([sys.executable, "-c", signalled + wait["command"][2]], timeout=20, check=False)
    assert ended.returncode == 0


def test_all_nodes_stage_at_the_same_time_after_a_change_of_the_stager() -> None:
    assert daemon_set().inputs["spec"]["updateStrategy"]["rollingUpdate"]["maxUnavailable"] == "100%"


def test_pulumi_itself_waits_for_as_many_nodes_as_are_counted_where_nothing_else_can() -> None:
    waits = "pulumi.com/waitFor"
    assert daemon_set().inputs["metadata"]["annotations"][waits] == "jsonpath={.metadata.uid}"
    unwatched = daemon_set(watched=False)
    assert unwatched.inputs["metadata"]["annotations"][waits] == "jsonpath={.status.numberReady}=2"
    assert unwatched.options["customTimeouts"]["create"] == "1549s"


def test_another_stage_of_the_same_stack_owns_other_weights_under_other_names() -> None:
    one, other = (staged(name=name, owner=None) for name in ("chat-stage", "code-stage"))
    owners = [recording.outputs_of("WeightStage")[0]["owner"] for recording in (one, other)]
    assert owners == ["serving/h200-chat-stage", "serving/h200-code-stage"]
    names = [{registration.name for registration in recording.registrations} for recording in (one, other)]
    assert names[0].isdisjoint(names[1])


def test_a_stage_without_limits_has_a_day_and_pulumi_waits_a_little_longer() -> None:
    job = staged(watched=False, deadline_seconds=86400, await_seconds=None).only(":Job")
    assert job.inputs["spec"]["activeDeadlineSeconds"] == 86400
    assert job.options["customTimeouts"]["create"] == "86520s"


def test_a_revision_that_is_no_commit_is_refused_before_anything_is_made() -> None:
    with pytest.raises(pulumi.RunError, match=r"heavylift:model\.revision: 'main' is not a full commit"):
        staged({"repository": "moonshotai/Kimi-K2.5", "revision": "main"})
