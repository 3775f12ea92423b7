"""The command lines that pods are given, read by the programs that they start."""

import argparse
import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from components.in_pod import fabric_check
from components.inference_server import InferenceServer
from components.pods.jobs.stager_job import FINAL_STATUSES, NO_CREDENTIALS_STATUS
from components.weight_stage import WeightStage
from config.stack.file import read_sections, stack_file
from stager import __main__ as stager_program
from stager import command_line, verify
from tests.program import PROGRAM, await_nothing, run_program
from tests.recording_engine import Recording, record
from tests.unit.components.samples import KIMI, LIMITS, UNNAMED, VLLM

COMMIT = "4d01dfe0332d63057c186e0b262165819efb6611"
REPOSITORY = "moonshotai/Kimi-K2.5"
LOCK = {
    "version": 1,
    "repository": REPOSITORY,
    "revision": COMMIT,
    "commit": COMMIT,
    "files": [{"path": path, "size": 3, "sha256": "0" * 64} for path in ("config.json", "original/params.json")],
    "total_bytes": 6,
}


def commands(value: Any) -> Iterator[list[str]]:
    """Every command of a container below a value."""
    if isinstance(value, dict):
        if isinstance(value.get("command"), list):
            yield value["command"]
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from commands(each)


def arguments(recording: Recording, *program: str) -> list[list[str]]:
    """What the pods say to a program, of which the last word is a file's name or a subcommand."""
    found = []
    for registration in recording.registrations:
        for command in commands(registration.inputs):
            words = [Path(word).name for word in command[: len(program)]]
            if words == list(program):
                found.append(command[len(program) :])
    return found


def understood(parser: argparse.ArgumentParser, words: list[str]) -> dict[str, Any]:
    """What the program takes the words for; it would end with a message where it does not understand them."""
    return vars(parser.parse_args(words))


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Recording:
    """A stack over two nodes that uses whatever puts a word on a command line."""
    (tmp_path / "kimi.lock.json").write_text(json.dumps(LOCK))
    sections = deepcopy(read_sections(stack_file("h100x16", PROGRAM)))
    sections["nodes"]["fabric"]["devices"] = ["mlx5_0", "mlx5_1"]
    sections["model"]["include"] = ["config.json", "original/"]
    sections["weights"] |= {"verify": "full", "keep_newest": 1, "size": "2Ti"}
    sections["stage"] |= {
        "lock": str(tmp_path / "kimi.lock.json"),
        "sources": ["hub", "s3://bucket/prefix", "https://host/path", "/weights/import"],
        "native_xet": True,
    }
    return run_program(monkeypatch, "h100x16", sections=sections)


def test_the_stager_understands_what_the_stage_job_says(recording: Recording) -> None:
    said = arguments(recording, "python3", "run_stager.py", "stage")
    assert len(said) == 2, "one Job for each node"
    options = understood(command_line.parser(), ["stage", *said[0]])
    assert options["directory"].parent == Path("/weights")
    assert (options["repository"], options["revision"]) == (REPOSITORY, COMMIT)
    assert options["include"] == ["config.json", "original/"]
    assert options["sources"] == ["hub", "s3://bucket/prefix", "https://host/path", "/weights/import"]
    assert options["lock"].name == "weights.lock.json"
    assert options["user"] == "heavylift/h100x16"
    assert options["native_xet"]
    assert not options["allow_unpinned"]


def test_the_stager_understands_that_a_revision_may_be_a_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = deepcopy(read_sections(stack_file("h100x16", PROGRAM)))
    sections["model"] |= {"revision": "main", "allow_unpinned": True}
    [words, _] = arguments(run_program(monkeypatch, "h100x16", sections=sections), "python3", "run_stager.py", "stage")
    options = understood(command_line.parser(), ["stage", *words])
    assert (options["revision"], options["allow_unpinned"]) == ("main", True)


def test_the_stager_understands_what_the_prune_job_says(recording: Recording) -> None:
    said = arguments(recording, "python3", "run_stager.py", "prune")
    [staged, _] = arguments(recording, "python3", "run_stager.py", "stage")
    served = understood(command_line.parser(), ["stage", *staged])["directory"].name
    assert len(said) == 2
    options = understood(command_line.parser(), ["prune", *said[0]])
    assert options["mount"] == Path("/weights")
    assert options["in_use"] == [served]
    assert (options["keep_newest"], options["user"], options["dry_run"]) == (1, "heavylift/h100x16", False)


def test_the_verifier_understands_what_the_servers_pods_say(recording: Recording) -> None:
    said = arguments(recording, "python3", "verify.py")
    assert len(said) == 2, "leader and worker"
    for words in said:
        options = understood(verify.command_line(), words)
        assert options["directory"].parent == Path("/weights")
        assert (options["repository"], options["revision"], options["full"]) == (REPOSITORY, COMMIT, True)


def test_stager_and_verifier_understand_what_the_pods_of_a_group_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def group() -> None:
        common = {"namespace": "serving", "model": KIMI, "volume": {"host_path": "/mnt/nvme"}, "placement": UNNAMED}
        more = {"service_account": "mirror-reader", "sources": ["s3://mirror/models"], "image": "python:3.12-slim"}
        stage: Any = {**common, **more}
        server: Any = {**common, "engine": VLLM, "verifier_image": "python:3.12-slim", "limits": LIMITS}
        WeightStage("stage", stage)
        InferenceServer("server", server)

    await_nothing(monkeypatch)
    recording = record(group, stack="h200")
    [staged], [verified] = (
        arguments(recording, "python3", *program) for program in (("run_stager.py", "stage"), ("verify.py",))
    )
    assert understood(command_line.parser(), ["stage", *staged])["require_credentials"]
    assert understood(verify.command_line(), verified)["wait_seconds"] == LIMITS["weights_seconds"]
    assert (NO_CREDENTIALS_STATUS, set(FINAL_STATUSES)) == (
        stager_program.NO_CREDENTIALS_STATUS,
        {1, stager_program.USAGE_STATUS},
    )


def test_the_fabric_check_understands_what_the_servers_pods_say(recording: Recording) -> None:
    said = arguments(recording, "python3", "fabric_check.py")
    assert len(said) == 2
    for words in said:
        options = understood(fabric_check.command_line(), words)
        assert (options["resource"], options["devices"]) == ("rdma/ib", ["mlx5_0", "mlx5_1"])
