"""The program as a whole: what comes first, what stops it, and what never leaves it."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pulumi
import pytest

from components import inference_server, weight_stage
from components.cluster.api import ClusterUnreachable
from components.cluster.facts import ClusterFacts, NodeFacts, PodFacts, VolumeFacts
from components.pods import fabric
from components.pods.labels import labels
from config.stack.file import read_sections, stack_file
from config.stack.sections import StackConfig
from tests.program import PROGRAM, fit_cluster, run_program
from tests.recording_engine import Recording

H200 = read_sections(stack_file("h200", PROGRAM))
H100X16 = read_sections(stack_file("h100x16", PROGRAM))
DEV = read_sections(stack_file("dev", PROGRAM))


UNPROMOTED = {section: values for section, values in H200.items() if section != "promotion"}
"""A stack without a stack before it, and so without warnings about that one."""

BY_TAG = (
    "images without a digest may be other images tomorrow: engine.image vllm/vllm-openai:v0.33.0, "
    "stage.image python:3.12-slim; `python -m config pin STACK` writes the digests into the stack file"
)


def edited(sections: dict[str, Any], **edits: dict[str, Any]) -> dict[str, Any]:
    result = deepcopy(sections)
    for section, values in edits.items():
        result[section] = {**result.get(section, {}), **values}
    return result


def server_pod(recording: Recording) -> Any:
    return recording.only(":Deployment").inputs["spec"]["template"]


def server_pods(recording: Recording) -> list[Any]:
    """The specs of the pods of one server."""
    if groups := recording.of_type(":LeaderWorkerSet"):
        template = groups[0].inputs["spec"]["leaderWorkerTemplate"]
        return [template["leaderTemplate"]["spec"], template["workerTemplate"]["spec"]]
    return [server_pod(recording)["spec"]]


def urns(recording: Recording, kind: str) -> set[str]:
    return {registration.urn for registration in recording.of_type(kind)}


def test_the_server_waits_for_every_stage_job_and_that_for_nodes_and_volumes(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200")
    assert urns(recording, ":Job") <= recording.only(":InferenceServer").depends_on
    before_staging = recording.only(":WeightStage").depends_on
    assert urns(recording, ":PersistentVolumeClaim") <= before_staging


def test_nothing_is_removed_unless_the_stack_says_so_and_then_only_after_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_program(monkeypatch, "h200").of_type(":WeightPrune") == []
    recording = run_program(monkeypatch, "h200", sections=edited(H200, weights={"keep_newest": 1}))
    assert urns(recording, ":Deployment") <= recording.only(":WeightPrune").depends_on
    (prune,) = [job for job in recording.of_type(":Job") if job.name.startswith("prune-")]
    (stage,) = [job for job in recording.of_type(":Job") if job.name.startswith("stage-")]
    pods = [job.inputs["spec"]["template"]["spec"] for job in (prune, stage)]
    programs = [[volume["configMap"] for volume in pod["volumes"] if volume["name"] == "program"] for pod in pods]
    assert programs[0] == programs[1]


@pytest.mark.parametrize("stack", ["dev", "h200"])
def test_nothing_is_staged_before_there_is_a_namespace(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, stack)
    for component in (":WeightVolume", ":WeightStage"):
        assert recording.only(":Namespace").urn in recording.only(component).depends_on


def test_everything_goes_through_one_provider_with_the_stacks_own_context(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200")
    provider = recording.only("providers:kubernetes")
    assert provider.inputs["context"] == "test"
    assert provider.inputs["clusterIdentifier"] == "5f0c7a44-6a55-4d52-9f0d-8d2a6a1f0c11"
    assert provider.inputs["kubeconfig"] in provider.secrets
    assert "somebody-elses-token" not in provider.inputs["kubeconfig"]
    objects = [registration for registration in recording.registrations if registration.type.startswith("kubernetes:")]
    assert objects
    assert {registration.options["provider"].rsplit("::", 1)[0] for registration in objects} == {provider.urn}


@pytest.mark.parametrize("preview", [True, False])
def test_the_hub_token_is_in_no_registration_but_its_secret(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200", preview=preview, hub_token="hf_sample")
    (secret,) = [each for each in recording.registrations if "hf_sample" in str(each.inputs)]
    assert secret.type == "kubernetes:core/v1:Secret"
    assert secret.secrets == {"hf_sample"}
    assert "hf_sample" not in str([recording.outputs, recording.infos, recording.warnings])


KEY = "sample-key-of-32-characters-0001"


@pytest.mark.parametrize("preview", [True, False])
def test_the_api_key_is_in_no_registration_but_its_secret(preview: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200", preview=preview, api_key=KEY)
    (secret,) = [each for each in recording.registrations if KEY in str(each.inputs)]
    assert secret.type == "kubernetes:core/v1:Secret"
    assert secret.secrets == {KEY}
    assert secret.inputs["immutable"] is True
    assert KEY not in str([recording.outputs, recording.infos, recording.warnings])
    assert any("/invocations" in warning for warning in recording.warnings)


@pytest.mark.parametrize(
    ("stack", "variable"),
    [
        ("h200", "VLLM_API_KEY"),
        ("h200-sglang", "SGLANG_API_KEY"),
        ("h200-gguf", "LLAMA_API_KEY"),
        ("h100x16", "VLLM_API_KEY"),
    ],
)
def test_only_the_engine_that_answers_gets_the_api_key(
    stack: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = run_program(monkeypatch, stack, api_key=KEY)
    having = [
        (container["name"], entry["valueFrom"]["secretKeyRef"]["key"])
        for pod in server_pods(recording)
        for container in [*pod["initContainers"], *pod["containers"]]
        for entry in container.get("env", [])
        if entry["name"] == variable
    ]
    assert having == [("engine", "api-key")]


@pytest.mark.parametrize("key", ["", "too-short", "sixteen letters and a space", "two-keys-of-sixteen,and-another-one"])
def test_a_key_that_an_engine_takes_for_none_or_for_two_is_refused_and_not_repeated(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = refused(monkeypatch, "h200", api_key=key)
    assert "heavylift:api_key: expected at least 16 letters" in message
    assert not key or key not in message


def test_another_stager_leaves_the_servers_pod_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_program(monkeypatch, "h200")
    monkeypatch.setattr(inference_server, "verifier_texts", lambda: {"verify.py": "# another one"})
    monkeypatch.setattr(weight_stage, "stager_archive", lambda: {"stager.json.bz2": "YW5vdGhlciBvbmU="})
    after = run_program(monkeypatch, "h200")
    programs = [{each.name: each.inputs for each in run.of_type(":ConfigMap")} for run in (before, after)]
    assert programs[0]["stage-program"] != programs[1]["stage-program"]
    assert programs[0]["server-verifier"] != programs[1]["server-verifier"]
    assert server_pod(before) == server_pod(after)


def test_other_sources_and_bandwidth_leave_the_servers_pod_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_program(monkeypatch, "h200")
    sections = edited(H200, stage={"sources": ["s3://mirror/models", "hub"], "bandwidth": "1 Gbit/s"})
    assert server_pod(run_program(monkeypatch, "h200", sections=sections)) == server_pod(before)


def test_another_revision_makes_another_job_and_moves_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    before = run_program(monkeypatch, "h200")
    after = run_program(monkeypatch, "h200", sections=edited(H200, model={"revision": "0" * 40}))
    assert before.only(":Job").name != after.only(":Job").name
    assert server_pod(before) != server_pod(after)
    assert before.only(":PersistentVolumeClaim").inputs == after.only(":PersistentVolumeClaim").inputs


def test_a_slower_line_gives_the_job_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = edited(H200, stage={"bandwidth": "1 Gbit/s"})
    limits = [
        run_program(monkeypatch, "h200", sections=sections).only(":Job").inputs["spec"]["activeDeadlineSeconds"]
        for sections in (H200, slow)
    ]
    # 595.18 GB at 1.25 and 0.125 GB/s, three times over.
    assert limits == [pytest.approx(1429, abs=2), pytest.approx(14285, abs=2)]


def test_the_preview_prints_the_plan_and_the_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200", preview=True)
    assert recording.infos[:2] == [
        "HEAVYLIFT_KUBECONFIG overrides heavylift:cluster.kubeconfig: tests/kubeconfig.yaml",
        "HEAVYLIFT_KUBE_CONTEXT overrides heavylift:cluster.context: test",
    ]
    assert recording.infos[2].startswith("fits: moonshotai/Kimi-K2.5 on 8 H200")


def test_a_model_that_the_planner_does_not_know_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt name looks like that, and nothing would stop it before the download."""
    misspelt = edited(H200, model={"repository": "moonshotai/Kimi-K25"}, weights={"size": "2Ti"})
    recording = run_program(monkeypatch, "h200", sections=misspelt, preview=True)
    assert [words for words in recording.warnings if words.startswith("unknown: moonshotai/Kimi-K25")]


HELD = "node h200-0: 8 of 8 nvidia.com/gpu are held by team-a/train-0 (8), and the server needs 8"


def taken_cluster() -> ClusterFacts:
    """What the stack h200 relies on, in the hands of another."""
    holder = PodFacts("team-a", "train-0", "h200-0", devices={"nvidia.com/gpu": 8})
    return replace(fit_cluster(StackConfig.parse(H200)), pods=[holder])


def test_gpus_that_another_pod_holds_are_a_warning_in_a_preview(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200", preview=True, cluster=taken_cluster())
    assert [warning for warning in recording.warnings if warning.startswith(HELD)]


def test_gpus_that_another_pod_holds_end_an_up_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    assert HELD in refused(monkeypatch, "h200", cluster=taken_cluster())


def test_pods_that_may_not_be_listed_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = replace(fit_cluster(StackConfig.parse(H200)), pods_hidden="status 403, pods is forbidden")
    recording = run_program(monkeypatch, "h200", sections=UNPROMOTED, cluster=hidden)
    assert recording.warnings == [
        BY_TAG,
        "whether other pods hold devices of the nodes was not checked: status 403, pods is forbidden",
    ]


def test_one_warning_names_all_images_without_a_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_program(monkeypatch, "h200").warnings.count(BY_TAG) == 1
    digest = "@sha256:" + "a" * 64
    pinned = {section: {"image": f"{H200[section]['image']}{digest}"} for section in ("engine", "stage")}
    recording = run_program(monkeypatch, "h200", sections=edited(H200, **pinned))
    assert not [words for words in recording.warnings if "digest" in words]


@pytest.mark.parametrize(
    ("stack", "security", "warned"),
    [
        ("mi300x", {}, True),
        ("mi300x", {"group": 109}, False),
        ("mi300x", {"profile": "baseline"}, False),
        ("h200", {}, False),
    ],
)
def test_a_server_without_root_on_amd_gpus_is_warned_of_the_group_of_their_devices(
    stack: str, security: dict[str, Any], warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = edited(read_sections(stack_file(stack, PROGRAM)), security=security)
    recording = run_program(monkeypatch, stack, sections=sections)
    assert any("the group render" in words for words in recording.warnings) is warned


def test_the_exports_say_where_what_and_whether_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    (exports,) = run_program(monkeypatch, "h200").outputs_of("Stack")
    assert exports["endpoint"] == "http://h200.heavylift.svc:8000/v1"
    assert exports["model"] == "moonshotai/Kimi-K2.5"
    assert exports["revision"] == "4d01dfe0332d63057c186e0b262165819efb6611"
    assert exports["plan"]["verdict"] == "fits"
    assert exports["answered"] == "yes"
    assert exports["release"] == {
        "repository": "moonshotai/Kimi-K2.5",
        "revision": "4d01dfe0332d63057c186e0b262165819efb6611",
        "include": [],
        "weights_digest": "669cddc777e743fa",
        "engine": "vllm",
        "version": "0.33.0",
        "image": "vllm/vllm-openai:v0.33.0",
    }
    assert set(exports) == {"endpoint", "answered", "model", "revision", "release", "plan"}


def refused(monkeypatch: pytest.MonkeyPatch, stack: str, **options: Any) -> str:
    """What the program says when it ends before it has registered anything but the provider, which is no object."""
    recording = Recording()
    with pytest.raises(pulumi.RunError) as caught:
        run_program(monkeypatch, stack, into=recording, **options)
    assert [each for each in recording.registrations if each.type != "pulumi:providers:kubernetes"] == []
    return str(caught.value)


@pytest.mark.parametrize("preview", [True, False])
def test_a_plan_that_cannot_work_ends_the_program_with_every_reason(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = {"tensor_parallel": 4, "mm_encoder_tp_mode": "weights"}
    four = edited(H200, nodes={"gpus_per_node": 4}, engine=engine, weights={"size": "400Gi"})
    message = refused(monkeypatch, "h200", sections=four, preview=preview)
    assert message.startswith("rejected: moonshotai/Kimi-K2.5 on 4 H200")
    assert "140.2" in message, "GiB of weights per GPU, more than an H200 has"
    assert "429.5 GB" in message, "what 400Gi are"
    assert "nothing was created" in message


def test_the_first_articles_volume_is_refused_with_the_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(monkeypatch, "h200", sections=edited(H200, weights={"size": "400Gi"}), preview=True)
    assert "429.5 GB" in message
    assert "595.2 GB" in message


def test_a_stack_that_is_to_prove_itself_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(monkeypatch, "h200", sections=edited(H200, promotion={"from": "h200"}), preview=True)
    assert message.splitlines() == [
        "the stack 'h200' cannot be used, nothing was created:",
        "  heavylift:promotion.from: 'h200' is this stack: expected another one, that runs a release first",
    ]


def test_all_faults_of_a_stack_come_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = edited(H200, model={"revision": "main"}, weights={"size": "big"}, engine={"tensor_paralel": 8})
    assert refused(monkeypatch, "h200", sections=sections).splitlines() == [
        "the stack 'h200' cannot be used, nothing was created:",
        "  heavylift:model.revision: 'main' is not a full commit: expected 40 hex digits, or set allow_unpinned: true",
        "  heavylift:weights.size: 'big' is not a size: expected a Kubernetes quantity such as 400Gi or 2Ti",
        "  heavylift:engine.tensor_paralel: is not a known key: expected tensor_parallel",
    ]


def test_an_object_with_a_name_of_ours_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(monkeypatch, "h200", sections={**H200, "replicas": {"count": 2}})
    assert "heavylift:replicas: is not a known key" in message


def test_a_token_in_plain_text_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(monkeypatch, "h200", hub_token="hf_sample", secret=False)
    assert "heavylift:hub_token: is in plain text" in message
    assert "hf_sample" not in message


def test_a_lock_that_is_missing_is_refused_together_with_a_name_that_cannot_be_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = refused(monkeypatch, "H200_prod", sections=edited(H200, stage={"lock": "none.lock.json"}))
    assert "stack name: 'H200_prod' cannot name a Service" in message
    assert "heavylift:stage.lock: lock none.lock.json: cannot be read" in message


def test_faults_of_the_cluster_end_the_program_in_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = NodeFacts("h200-0", not_ready="kubelet stopped", allocatable={"nvidia.com/gpu": "4"})
    message = refused(monkeypatch, "h200", cluster=ClusterFacts(nodes=[broken]), preview=True)
    assert message.splitlines() == [
        "cluster 'test' is not fit for this stack, nothing was created:",
        "  node h200-0: is not Ready (kubelet stopped)",
        "  node h200-0: its label kubernetes.io/hostname is None: expected the node's name",
        "  node h200-0: has 4 of 8 nvidia.com/gpu allocatable; repair the node, or lower heavylift:nodes.gpus_per_node",
    ]


def test_a_preview_goes_on_without_a_cluster_and_says_what_it_did_not_see(monkeypatch: pytest.MonkeyPatch) -> None:
    away = ClusterUnreachable("connection refused")
    recording = run_program(monkeypatch, "h200", preview=True, sections=UNPROMOTED, cluster=away)
    assert recording.warnings == [
        BY_TAG,
        "cluster 'test' cannot be reached: connection refused; it was not checked, and an update may do other than "
        "this preview shows",
    ]
    assert recording.of_type(":Deployment")
    provider = recording.only("providers:kubernetes")
    assert provider.options["ignoreChanges"] == ["clusterIdentifier", "kubeconfig"], "it stays the one it was"


def test_a_cluster_that_was_reached_decides_on_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = run_program(monkeypatch, "h200", preview=True).only("providers:kubernetes")
    assert "ignoreChanges" not in provider.options


def test_an_update_without_a_cluster_ends_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    message = refused(monkeypatch, "h200", cluster=ClusterUnreachable("connection refused"))
    assert message == "cluster 'test' cannot be reached: connection refused; nothing was created"


def test_a_group_on_a_cluster_without_its_api_ends_the_program_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without = replace(fit_cluster(StackConfig.parse(H100X16)), leader_worker_sets=False)
    message = refused(monkeypatch, "h100x16", cluster=without, preview=True)
    assert "the API leaderworkerset.x-k8s.io/v1 is missing" in message
    assert "https://lws.sigs.k8s.io" in message


def test_every_node_of_a_group_is_staged_spares_too_and_the_pods_go_to_exactly_those(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    three = edited(H100X16, nodes={"names": ["h100-0", "h100-1", "h100-2"]})
    recording = run_program(monkeypatch, "h100x16", sections=three)
    jobs = [job.inputs["spec"]["template"]["spec"]["nodeSelector"] for job in recording.of_type(":Job")]
    staged = sorted(selector["kubernetes.io/hostname"] for selector in jobs)
    template = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        required = template[part]["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert required["nodeSelectorTerms"][0]["matchExpressions"][0]["values"] == staged
    assert urns(recording, ":Job") <= recording.only(":InferenceServer").depends_on


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (
            {"data_parallel": 2, "expert_parallel": True, "max_model_len": 131072},
            "--tensor-parallel-size 8 --data-parallel-size 2 --enable-expert-parallel",
        ),
        ({"tensor_parallel": 16}, "--tensor-parallel-size 16"),
    ],
)
def test_other_layouts_over_two_nodes_are_served_by_the_same_kind_of_group(
    layout: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sections = edited(H100X16, engine={"pipeline_parallel": None, **layout})
    recording = run_program(monkeypatch, "h100x16", sections=sections, preview=True)
    made = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    assert made["size"] == 2
    arguments = " ".join(made["workerTemplate"]["spec"]["containers"][0]["args"])
    assert expected in arguments
    assert "--pipeline-parallel-size" not in arguments
    assert "--nnodes 2 --node-rank $(LWS_WORKER_INDEX)" in arguments


def test_a_shared_claim_is_staged_once_and_mounted_by_every_pod_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h100x16", sections=edited(H100X16, weights={"kind": "claim"}))
    assert len(recording.of_type(":Job")) == 1
    claim = recording.only(":PersistentVolumeClaim").inputs
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    template = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    for part in ("leaderTemplate", "workerTemplate"):
        [weights] = [each for each in template[part]["spec"]["volumes"] if each["name"] == "weights"]
        assert weights == {"name": "weights", "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}


def test_another_fabric_check_leaves_the_pods_of_a_group_as_they_are(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = run_program(monkeypatch, "h100x16")
    check = tmp_path / "fabric_check.py"
    check.write_text("# another one")
    monkeypatch.setattr(fabric, "CHECK", check)
    after = run_program(monkeypatch, "h100x16")
    groups = [run.only(":LeaderWorkerSet").inputs for run in (before, after)]
    assert groups[0] == groups[1]
    programs = [[each.inputs["data"] for each in run.of_type(":ConfigMap")] for run in (before, after)]
    assert programs[0] != programs[1]


def test_what_was_made_before_there_was_a_served_model_keeps_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a stack of the first reviewed version has it: resources of the stack itself, whose children follow them."""
    recording = run_program(monkeypatch, "h200", sections=edited(H200, weights={"keep_newest": 1}))
    parts = [registration for registration in recording.registrations if registration.parent == "model"]
    assert {part.name for part in parts} == {"namespace", "nodes", "weights", "stage", "server", "prune"}
    for part in parts:
        assert {"spec": {"noParent": True}} in part.options["aliases"]


def test_a_namespace_of_somebody_else_is_used_and_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = replace(fit_cluster(StackConfig.parse(DEV)), namespace_labels={"team": "search"})
    assert run_program(monkeypatch, "dev", cluster=theirs).of_type(":Namespace") == []


def test_a_namespace_of_another_stack_is_not_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = replace(fit_cluster(StackConfig.parse(DEV)), namespace_labels=labels("h200", "namespace"))
    assert run_program(monkeypatch, "dev", cluster=theirs).of_type(":Namespace") == []


def test_what_an_earlier_life_of_the_stack_left_is_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = edited({key: value for key, value in DEV.items() if key != "weights"}, weights={"kind": "claim"})
    left = replace(
        fit_cluster(StackConfig.parse(DEV)),
        namespace_labels=labels("dev", "namespace"),
        claims={"dev-weights": VolumeFacts(10 * 2**30, storage_class="standard")},
    )
    recording = run_program(monkeypatch, "dev", sections=sections, cluster=left)
    assert recording.only(":Namespace").options["importId"] == "heavylift"
    assert recording.only(":PersistentVolumeClaim").options["importId"] == "heavylift/dev-weights"


def test_the_namespace_outlives_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace = run_program(monkeypatch, "dev").only(":Namespace")
    assert namespace.options["retainOnDelete"] is True
    assert "importId" not in namespace.options
