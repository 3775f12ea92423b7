"""`python -m config promote`, on the shipped stack h200 under two names."""

from pathlib import Path

import pytest

from config.__main__ import main
from tests.program import PROGRAM

OLD = "4d01dfe0332d63057c186e0b262165819efb6611"
NEW = "0123456789abcdef0123456789abcdef01234567"
IMAGE, OLD_IMAGE = f"vllm/vllm-openai@sha256:{'a' * 64}", f"vllm/vllm-openai@sha256:{'b' * 64}"
"""Made up, as the new commit is."""
SHIPPED = (PROGRAM / "Pulumi.h200.yaml").read_text().replace("vllm/vllm-openai:v0.33.0", OLD_IMAGE)
STAGING = (
    SHIPPED.replace(OLD, NEW)
    .replace(OLD_IMAGE, IMAGE)
    .replace("max_model_len: 262144", "max_model_len: 131072")
    .replace("h200-0", "h200-staging-0")
)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "Pulumi.staging.yaml").write_text(STAGING)
    (tmp_path / "Pulumi.production.yaml").write_text(SHIPPED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_the_release_is_copied_and_nothing_else(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (program / "Pulumi.production.yaml").chmod(0o640)
    assert main(["promote", "staging", "production"]) == 0
    written = program / "Pulumi.production.yaml"
    assert written.read_text() == SHIPPED.replace(OLD, NEW).replace(OLD_IMAGE, IMAGE)
    assert written.stat().st_mode & 0o777 == 0o640
    assert sorted(file.name for file in program.iterdir()) == ["Pulumi.production.yaml", "Pulumi.staging.yaml"]
    said = capsys.readouterr().out
    assert "fits: moonshotai/Kimi-K2.5 on 8 H200, vLLM 0.33.0, TP8; context 262,144; 595.2 GB to stage" in said
    assert "wrote Pulumi.production.yaml: 2 lines. Next: commit it and open a pull request." in said
    assert main(["promote", "staging", "production"]) == 0
    assert "nothing to promote" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ("{from: staging, soak: 24h}", "has run on staging for 24h, and refuses it until then"),
        ("{from: staging, allow_unproven: true}", "has run on staging, and warns if it has not"),
    ],
)
def test_the_gate_of_the_target_is_named(
    gate: str, said: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    production = program / "Pulumi.production.yaml"
    text = production.read_text()
    start = text.index("  heavylift:promotion:")
    rest = [line for line in text[start:].splitlines()[1:] if not line.startswith("    ")]
    production.write_text("\n".join([f"{text[:start]}  heavylift:promotion: {gate}", *rest, ""]))
    assert main(["promote", "staging", "production", "--dry-run"]) == 0
    assert f"gate: `pulumi up` of production expects that the release {said}" in capsys.readouterr().out


@pytest.mark.parametrize(("option", "status"), [("--dry-run", 0), ("--check", 1)])
def test_nothing_is_written_where_it_is_only_asked(
    option: str, status: int, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["promote", "staging", "production", option]) == status
    assert (program / "Pulumi.production.yaml").read_text() == SHIPPED
    said = capsys.readouterr().out
    assert "model.revision" in said
    assert "engine.image" in said
    assert "max_model_len" not in said


def test_stacks_with_one_release_pass_the_check(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["promote", "staging", "production"])
    assert main(["promote", "staging", "production", "--check"]) == 0


def test_every_reason_comes_at_once_and_nothing_is_written(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    staging, production = program / "Pulumi.staging.yaml", program / "Pulumi.production.yaml"
    edit(staging, f"revision: {NEW}", "allow_unpinned: true\n    revision: main")
    edit(staging, IMAGE, "vllm/vllm-openai:v0.33.0")
    edit(production, "gpus_per_node: 8", "gpus_per_node: 4")
    edit(production, "tensor_parallel: 8", "tensor_parallel: 4")
    before = production.read_bytes()
    assert main(["promote", "staging", "production"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    for reason in ("model.revision: 'main'", "engine.image: 'vllm/", "weights_do_not_fit", "What fits instead"):
        assert reason in said.err
    assert production.read_bytes() == before


def test_a_missing_lock_is_a_reason(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(program / "Pulumi.staging.yaml", "bandwidth: 10", "lock: weights/no.lock.json\n    bandwidth: 10")
    assert main(["promote", "staging", "production"]) == 1
    assert "heavylift:stage.lock: lock weights/no.lock.json: cannot be read" in capsys.readouterr().err


def test_faults_of_both_files_are_named_with_their_stack(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(program / "Pulumi.staging.yaml", "tensor_parallel: 8", "tensor_paralel: 8")
    edit(program / "Pulumi.production.yaml", "gpus_per_node: 8", "gpus_per_node: eight")
    assert main(["promote", "staging", "production"]) == 1
    said = capsys.readouterr().err
    assert "staging: heavylift:engine.tensor_paralel" in said
    assert "production: heavylift:nodes.gpus_per_node" in said


@pytest.mark.parametrize(("source", "target"), [("staging", "none"), ("../x", "production"), ("staging", "staging")])
def test_a_stack_that_is_not_there_is_refused(
    source: str, target: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["promote", source, target]) == 1
    said = capsys.readouterr().err
    assert "nothing was written" in said
    assert "Traceback" not in said


def test_a_folder_without_room_leaves_the_file(
    program: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    assert main(["promote", "staging", "production"]) == 1
    assert "cannot be written (No space left on device)" in capsys.readouterr().err
    assert (program / "Pulumi.production.yaml").read_text() == SHIPPED


def test_values_of_the_environment_are_not_printed(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit(program / "Pulumi.staging.yaml", "tensor_parallel: 8", "tensor_parallel: 8\n    environment: {A: hidden}")
    assert main(["promote", "staging", "production"]) == 0
    assert "hidden" not in capsys.readouterr().out
    assert "environment: {A: hidden}" in (program / "Pulumi.production.yaml").read_text()
