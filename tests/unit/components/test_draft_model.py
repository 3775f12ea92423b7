"""A draft model: a second set of weights, staged before the model, checked before the server, and pruned by itself."""

from typing import Any

import pytest

from config.stack.file import read_sections
from tests.program import PROGRAM, run_program
from tests.recording_engine import Recording

EXAMPLE = PROGRAM / "examples" / "Pulumi.qwen3-32b.yaml"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Recording:
    return run_program(monkeypatch, "qwen3-32b", sections=read_sections(EXAMPLE))


def jobs(made: Recording) -> dict[str, Any]:
    """The pod specs of the Jobs by the name of their component."""
    found = [each for each in made.registrations if each.type == "kubernetes:batch/v1:Job"]
    return {each.parent: each.inputs["spec"]["template"]["spec"] for each in found}


def server(made: Recording) -> dict[str, Any]:
    [deployment] = [each for each in made.registrations if each.type == "kubernetes:apps/v1:Deployment"]
    spec: dict[str, Any] = deployment.inputs["spec"]["template"]["spec"]
    return spec


def argument(command: list[str], flag: str) -> str:
    return command[command.index(flag) + 1]


def test_both_repositories_are_staged_and_pruned_into_directories_of_their_own(made: Recording) -> None:
    specs = jobs(made)
    assert set(specs) == {"stage", "stage-draft", "prune", "prune-draft"}
    staged = {name: specs[name]["containers"][0]["command"] for name in ("stage", "stage-draft")}
    assert {name: argument(command, "--repository") for name, command in staged.items()} == {
        "stage": "Qwen/Qwen3-32B",
        "stage-draft": "Qwen/Qwen3-0.6B",
    }
    directories = {name: argument(command, "--directory") for name, command in staged.items()}
    assert directories["stage"] != directories["stage-draft"]
    for name, owner in (("prune", "qwen3-32b"), ("prune-draft", "qwen3-32b_draft")):
        command = specs[name]["containers"][0]["command"]
        digest = directories[name.replace("prune", "stage")].rpartition("/")[2]
        assert f"--in-use={digest}" in command
        assert any(word.endswith(f"/{owner}") for word in command), command


def test_the_server_starts_only_after_both_were_checked(made: Recording) -> None:
    spec, directories = server(made), {}
    for container in spec["initContainers"]:
        command = container["command"]
        directories[argument(command, "--repository")] = command[2]
    assert set(directories) == {"Qwen/Qwen3-32B", "Qwen/Qwen3-0.6B"}
    [engine] = spec["containers"]
    assert engine["command"][-1] == directories["Qwen/Qwen3-32B"]
    assert argument(engine["args"], "--spec-model") == directories["Qwen/Qwen3-0.6B"]
    assert argument(engine["args"], "--spec-tokens") == "3"
    mounts = {mount["name"] for each in spec["initContainers"] for mount in each["volumeMounts"]}
    assert mounts == {"weights", "verifier", "draft-verifier"}, "each check expects the files of its own weights"


def test_the_release_names_the_draft_model(made: Recording) -> None:
    [outputs] = made.outputs_of("ServedModel")
    assert outputs["release"]["draft"]["repository"] == "Qwen/Qwen3-0.6B"
    assert outputs["release"]["draft"]["weights_digest"] != outputs["release"]["weights_digest"]
