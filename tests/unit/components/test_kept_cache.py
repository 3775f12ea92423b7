"""`weights.cache`: the stage Job makes a directory for the server's user, and only the engine writes to it."""

from typing import Any

import pytest

from config.errors import StackError
from config.stack.file import read_sections
from config.stack.sections import StackConfig
from config.units import GIB
from planner import fit
from planner.report.explain import explain
from planner.stack_request import request_of_stack
from stager import command_line
from tests.program import PROGRAM, run_program
from tests.recording_engine import Recording
from tests.unit.components.test_security import violations

EXAMPLE = PROGRAM / "examples" / "Pulumi.qwen3-32b.yaml"
OWNER = "heavylift/qwen3-32b"


def sections(*, cache: bool = True, **more: dict[str, Any]) -> dict[str, Any]:
    """The sections of the example `qwen3-32b`, with more settings."""
    read = dict(read_sections(EXAMPLE))
    for name, settings in more.items():
        read[name] = {**read.get(name, {}), **settings}
    read["weights"] = {**read["weights"], "cache": cache}
    return read


def made(monkeypatch: pytest.MonkeyPatch, **more: Any) -> Recording:
    return run_program(monkeypatch, "qwen3-32b", sections=sections(**more))


def jobs(recording: Recording) -> dict[str, Any]:
    """The pod specs of the Jobs by the name of their component."""
    return {each.parent: each.inputs["spec"]["template"]["spec"] for each in recording.of_type(":Job")}


def server(recording: Recording) -> dict[str, Any]:
    spec: dict[str, Any] = recording.only(":Deployment").inputs["spec"]["template"]["spec"]
    return spec


def mounts(container: dict[str, Any]) -> list[dict[str, Any]]:
    return [mount for mount in container["volumeMounts"] if mount["name"] == "weights"]


def key(recording: Recording) -> str:
    """The last part of the directory that the engine writes to."""
    [_, kept] = mounts(server(recording)["containers"][0])
    return str(kept["subPath"]).rpartition("/")[2]


def words(pod: dict[str, Any]) -> dict[str, Any]:
    """What the stager reads in a pod's command."""
    command = pod["containers"][0]["command"]
    return vars(command_line.parser().parse_args(command[2:]))


def test_only_the_engine_writes_to_its_own_directory_beside_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = made(monkeypatch)
    spec = server(recording)
    [engine] = spec["containers"]
    weights, kept = mounts(engine)
    assert weights["readOnly"] is True
    assert kept == {"name": "weights", "mountPath": "/kept-cache", "subPath": f".cache/{OWNER}/{key(recording)}"}
    for container in spec["initContainers"]:
        assert [mount["readOnly"] for mount in mounts(container)] == [True]
    assert list(violations(spec)) == []
    environment = {each["name"]: each.get("value") for each in engine["env"]}
    kept_there = {name for name, value in environment.items() if str(value).startswith("/kept-cache")}
    assert kept_there == {
        "CUDA_CACHE_PATH",
        "FLASHINFER_WORKSPACE_BASE",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "VLLM_CACHE_ROOT",
    }


def test_the_stage_job_makes_it_and_pruning_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = made(monkeypatch)
    pods, named = jobs(recording), key(recording)
    for part in ("stage", "prune"):
        said = words(pods[part])
        assert (said["user"], said["cache"]) == (OWNER, named)
    for part in ("stage-draft", "prune-draft"):
        assert words(pods[part])["cache"] is None
    assert words(pods["stage"])["cache_owner"] == 2000


def test_on_a_disk_of_the_node_root_gives_it_away_and_needs_one_capability_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_cache = jobs(made(monkeypatch, weights={"kind": "host-path"}))
    without = jobs(made(monkeypatch, weights={"kind": "host-path"}, cache=False))

    def added(pods: dict[str, Any], part: str) -> list[str]:
        [container] = pods[part]["containers"]
        return sorted(container["securityContext"]["capabilities"]["add"])

    assert added(with_cache, "stage") == ["CHOWN", "DAC_OVERRIDE"]
    assert added(without, "stage") == added(with_cache, "prune") == ["DAC_OVERRIDE"]


def test_another_image_release_or_user_has_another_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: list[dict[str, Any]] = [
        {},
        {"engine": {"image": "vllm/vllm-openai:v0.33.0-cu130"}},
        {"engine": {"version": "0.32.0"}},
        {"security": {"user": 1000}},
    ]
    assert len({key(made(monkeypatch, **each)) for each in changes}) == len(changes)
    assert key(made(monkeypatch, engine={"max_model_len": 8192})) == key(made(monkeypatch))


def test_without_it_nothing_outlives_the_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = made(monkeypatch, cache=False)
    assert len(mounts(server(recording)["containers"][0])) == 1
    assert "kept-cache" not in str(recording.registrations)
    assert words(jobs(recording)["stage"])["cache"] is None


def test_the_plan_counts_it_and_says_what_it_saves() -> None:
    asked = request_of_stack(StackConfig.parse(sections()), None)
    without = request_of_stack(StackConfig.parse(sections(cache=False)), None)
    planned, before = fit(asked), fit(without)
    assert planned.disk_bytes is not None
    assert before.disk_bytes is not None
    assert planned.disk_bytes - before.disk_bytes == 20 * GIB
    assert planned.load_seconds == before.load_seconds, "the first load compiles"
    assert "a later load with the same image and weights.cache: 38 to 166 s less" in explain(asked, planned)


def test_a_volume_without_room_for_it_is_refused() -> None:
    whole = fit(request_of_stack(StackConfig.parse(sections(cache=False)), None)).disk_bytes
    assert whole is not None
    size = f"{-(-whole // GIB)}Gi"
    planned = fit(request_of_stack(StackConfig.parse(sections(weights={"size": size})), None))
    [problem] = [each for each in planned.problems if each.code == "disk_too_small"]
    assert "21.5 GB for weights.cache" in problem.message


def test_nodes_that_share_a_claim_share_no_cache() -> None:
    wanted = sections(nodes={"names": ["a", "b"]}, weights={"kind": "claim"}, engine={"replicas": 2})
    with pytest.raises(StackError, match=r"heavylift:weights\.cache: is true, and the servers of 2 nodes"):
        StackConfig.parse(wanted)


def test_llama_cpp_compiles_nothing() -> None:
    read = dict(read_sections(PROGRAM / "Pulumi.h200-gguf.yaml"))
    read["weights"] = {**read["weights"], "cache": True}
    planned = fit(request_of_stack(StackConfig.parse(read), None))
    assert [each.code for each in planned.problems] == ["cache_not_supported"]
