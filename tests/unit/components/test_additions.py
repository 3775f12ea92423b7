"""What a stack adds to its pods, and that it cannot change what the program sets."""

from copy import deepcopy
from typing import Any

import pulumi
import pytest

from components.inference_server import InferenceServer
from components.pods.additions import NONE_TO_SERVERS, Additions
from components.weight_stage import WeightStage
from config.stack import arguments
from tests.recording_engine import Recording, record
from tests.unit.components.samples import EIGHT_GPUS, H200, KIMI, LIMITS, ON_H200, TWO_H200S, VLLM


def made(pod: arguments.PodSettings, *, nodes: int = 1, kind: str = "server") -> Recording:
    """The Job or the server with these additions."""

    def program() -> None:
        shared: Any = {"namespace": "serving", "model": KIMI, "volume": ON_H200, "placement": H200, "pod": pod}
        if kind == "stage":
            WeightStage("stage", shared | {"image": "python:3.12-slim"})
            return
        placement, volume = (TWO_H200S, {"claim": "shared"}) if nodes > 1 else (H200, ON_H200)
        pods = {**EIGHT_GPUS, "nodes_per_server": nodes}
        own: Any = {"engine": VLLM, "pods": pods, "limits": LIMITS, "verifier_image": "python:3.12-slim"}
        InferenceServer("server", shared | own | {"placement": placement, "volume": volume})

    return record(program, stack="h200")


def templates(recording: Recording) -> list[dict[str, Any]]:
    """The pod templates of the Job, Deployment or LeaderWorkerSet."""
    for kind, path in ((":Job", ["template"]), (":Deployment", ["template"])):
        for workload in recording.of_type(kind):
            return [workload.inputs["spec"][path[0]]]
    group = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    return [group["leaderTemplate"], group["workerTemplate"]]


def refused(pod: arguments.PodSettings, kind: str = "server") -> list[str]:
    with pytest.raises(pulumi.RunError) as caught:
        made(pod, kind=kind)
    return str(caught.value).removeprefix("nothing was created:\n  ").split("\n  ")


@pytest.mark.parametrize(("kind", "nodes"), [("server", 1), ("server", 2), ("stage", 1)])
def test_every_pod_has_what_the_keys_say(kind: str, nodes: int) -> None:
    pod: arguments.PodSettings = {
        "pull_secrets": ["registry", "other"],
        "runtime_class": "nvidia",
        "priority_class": "serving",
        "labels": {"kueue.x-k8s.io/queue-name": "gpus", "our_label": "x"},
        "annotations": {"sidecar.istio.io/inject": "false"},
        "cpu_limit": 64,
    }
    recording = made(pod, kind=kind, nodes=nodes)
    for template in templates(recording):
        spec = template["spec"]
        assert spec["imagePullSecrets"] == [{"name": "registry"}, {"name": "other"}]
        assert (spec["runtimeClassName"], spec["priorityClassName"]) == ("nvidia", "serving")
        assert pod["labels"].items() <= template["metadata"]["labels"].items()
        assert pod["annotations"].items() <= template["metadata"]["annotations"].items()
        for container in [*spec["initContainers"], *spec["containers"]]:
            assert container["resources"]["limits"]["cpu"] == ("1" if container["name"] == "fabric" else "64")
    kinds = {"stage": ":Job", "server": ":Deployment" if nodes == 1 else ":LeaderWorkerSet"}
    workload = recording.only(kinds[kind]).inputs
    assert pod["labels"].items() <= workload["metadata"]["labels"].items()
    if kind == "server" and nodes == 1:
        assert "our_label" not in workload["spec"]["selector"]["matchLabels"], "a selector cannot change"


def test_a_patch_adds_a_certificate_bundle_an_alias_and_a_variable_of_a_secret() -> None:
    variable = {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "engine_keys", "key": "key"}}}
    mount = {"name": "bundle", "mountPath": "/etc/ssl/certs", "readOnly": True}
    patch: dict[str, Any] = {
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["hub"]}],
        "volumes": [{"name": "bundle", "configMap": {"name": "ca_bundle"}}],
        "containers": [
            {"name": "engine", "env": [variable], "volumeMounts": [mount], "resources": {"limits": {"rdma/b_0": "1"}}}
        ],
    }
    [before], [after] = templates(made({})), templates(made({"patch": patch}))
    old, new = before["spec"]["containers"][0], after["spec"]["containers"][0]
    assert new["env"] == [*old["env"], variable]
    assert new["volumeMounts"] == [*old["volumeMounts"], mount]
    assert new["resources"]["limits"] == {**old["resources"]["limits"], "rdma/b_0": "1"}
    assert after["spec"]["hostAliases"] == patch["hostAliases"]
    assert after["spec"]["volumes"] == [*before["spec"]["volumes"], *patch["volumes"]]
    assert before["metadata"]["annotations"] != after["metadata"]["annotations"], "the pods' version"
    assert [new[key] for key in ("command", "args", "image")] == [old[key] for key in ("command", "args", "image")]


def test_a_patch_reaches_both_pods_of_a_group_with_its_own_spelling() -> None:
    patch = {"topologySpreadConstraints": [{"labelSelector": {"matchLabels": {"a_b": "c_d"}}}]}
    for template in templates(made({"patch": patch}, nodes=2)):
        assert template["spec"]["topologySpreadConstraints"] == patch["topologySpreadConstraints"]


def test_an_added_container_is_as_restricted_as_the_programs_own() -> None:
    patch = {"initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}]}
    [template] = templates(made({"patch": patch}, kind="stage"))
    own, added = template["spec"]["initContainers"]
    assert added["name"] == "proxy"
    assert added["securityContext"] == own["securityContext"]


def test_what_the_program_or_another_key_sets_is_refused_with_every_path() -> None:
    patch = {
        "hostNetwork": True,
        "securityContext": {"runAsUser": 0},
        "terminationGracePeriodSeconds": 5,
        "containers": [
            {
                "name": "engine",
                "image": "other",
                "command": ["sh"],
                "securityContext": {"privileged": True},
                "resources": {"limits": {"nvidia.com/gpu": "4"}},
                "env": [{"name": "VLLM_CACHE_ROOT", "value": "/x"}],
                "livenessProbe": {"initialDelaySeconds": 1},
                "volumeMounts": [{"name": "weights", "mountPath": "/elsewhere"}],
            },
            {"image": "nameless"},
        ],
        "volumes": [{"name": "weights", "emptyDir": {}}],
    }
    key, engine = "heavylift:pod.server.patch", "heavylift:pod.server.patch.containers[engine]"
    assert [fault.partition(": ")[0] for fault in refused({"patch": patch})] == [
        f"{key}.hostNetwork",
        f"{key}.securityContext",
        f"{key}.terminationGracePeriodSeconds",
        f"{engine}.image",
        f"{engine}.command",
        f"{engine}.securityContext",
        f"{engine}.resources.limits.nvidia.com/gpu",
        f"{engine}.env[VLLM_CACHE_ROOT].value",
        f"{engine}.livenessProbe",
        f"{engine}.volumeMounts[/elsewhere]",
        f"{key}.containers",
    ]


def test_a_second_container_of_a_job_is_refused_since_the_job_would_not_end() -> None:
    patch = {"containers": [{"name": "proxy", "image": "proxy:1"}]}
    assert refused({"patch": patch}, "stage") == [
        "heavylift:pod.stage.patch.containers[proxy]: is refused: expected initContainers with restartPolicy: Always; "
        "a Job waits for all its containers"
    ]


def test_labels_and_annotations_of_the_program_are_refused() -> None:
    settings: arguments.PodSettings = {"labels": {"app.kubernetes.io/instance": "x"}, "annotations": {}}
    assert refused(settings) == [
        "heavylift:pod.server.labels: 'app.kubernetes.io/instance' is set by the program: expected another name"
    ]


def test_the_programs_own_pod_is_left_as_it_is() -> None:
    spec = {"containers": [{"name": "a", "security_context": {}, "resources": {"limits": {"x": "1"}}}], "volumes": []}
    before = deepcopy(spec)
    patch = {"containers": [{"name": "a", "resources": {"limits": {"y": "1"}}}]}
    additions = Additions(NONE_TO_SERVERS.settings.model_copy(update={"patch": patch}), "key")
    [container] = additions.template({"labels": {}}, spec)["spec"]["containers"]
    assert container["resources"]["limits"] == {"x": "1", "y": "1"}
    assert spec == before
