"""The stack file that a recommendation writes: what it still wants to be told, and what it then plans."""

from pathlib import Path

import pytest
import yaml

from config.catalogue import models
from config.errors import StackError
from config.stack.file import read_sections, read_stack_file, stack_file
from config.stack.sections import StackConfig
from planner.__main__ import main
from planner.draft import write_draft
from planner.fit import plan_only
from planner.recommend import Query, Recommendation, recommend
from planner.stack_request import request_of_stack

FOUND = [
    best
    for model in models()
    for best in recommend(Query(model=model.name, gpu="h100", nodes=4, usd_per_gpu_hour=2.25))
]
_DRAIN = ("--shutdown-timeout", "60")
"""What a stack adds to the arguments of a plan: the seconds that its servers have to finish requests."""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty program, in which the commands run."""
    (tmp_path / "Pulumi.yaml").write_text("name: heavylift\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def filled_in(file: Path) -> StackConfig:
    """The stack after a person named nodes and path."""
    text = file.read_text().replace("<where the nodes' NVMe is mounted>", "/mnt/nvme")
    file.write_text(text.replace("<name of node ", "node-").replace(">", ""))
    return read_stack_file(file)


def test_every_model_that_can_be_planned_is_among_the_recommendations() -> None:
    unknown = {"kimi-k3", "minimax-m3", "step-3.7-flash", "nemotron-3-super"}
    """The attention of two, the tensors of one and the quantisation of the last are not known to the planner."""
    assert {best.model.name for best in FOUND} == {model.name for model in models()} - unknown
    assert {best.request.nodes for best in FOUND} == {1, 2, 4}, "single nodes and groups"


@pytest.mark.parametrize("best", FOUND, ids=lambda best: f"{best.checkpoint.name}-{best.gpus}")
def test_a_written_stack_wants_its_nodes_named_and_then_plans_the_same(best: Recommendation, program: Path) -> None:
    file = write_draft(best, "found", program)
    with pytest.raises(StackError) as refused:
        read_stack_file(file)
    names = [f"heavylift:nodes.names[{index}]" for index in range(best.request.nodes)]
    assert [fault.split(": ")[0] for fault in refused.value.faults] == [*names, "heavylift:nodes.nvme_path"]

    stack = filled_in(file)
    plan = plan_only(request_of_stack(stack, None))
    first = best.checkpoint.gguf.first_shard if best.checkpoint.gguf else None
    arguments = tuple(argument for argument in plan.engine_args if argument not in _DRAIN)
    assert (plan.verdict, arguments, plan.per_gpu) == (
        best.plan.verdict,
        best.plan.engine_args,
        best.plan.per_gpu,
    )
    assert plan.model_file == first


def test_the_message_says_what_to_fill_in(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("recommend", "--gpu", "h200", "--model", "moonshotai/Kimi-K2.5", "--write", "found")) == 0
    assert "wrote Pulumi.found.yaml: kimi-k2.5 on 8 H200" in capsys.readouterr().out
    assert main(("fit", "--stack", "found")) == 2
    said = capsys.readouterr().err
    assert "'<name of node 1>' is not valid: expected the node's name as `kubectl get nodes` prints it" in said
    assert "is not valid: expected an absolute path such as /mnt/nvme" in said


def test_the_first_of_the_table_is_written(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("recommend", "--gpu", "h200", "--quality", "frontier", "--write", "found")) == 0
    first = capsys.readouterr().out.splitlines()[1].split()[1]
    repository = read_sections(program / "Pulumi.found.yaml")["model"]["repository"]
    assert first in {best.checkpoint.name for best in FOUND if best.checkpoint.repository == repository}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("2", {"tensor_parallel": 8, "decode_context_parallel": 8}),
        ("3", {"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": True}),
        ("kimi-k2.5-nvfp4", {"tensor_parallel": 8}),
    ],
)
def test_any_row_is_written_by_its_number_or_checkpoint(row: str, expected: dict[str, object], program: Path) -> None:
    query = ("recommend", "--gpu", "h200", "--model", "kimi-k2.5")
    assert main((*query, "--write", "found", "--row", row)) == 0
    sections = read_sections(program / "Pulumi.found.yaml")
    kept = ("tensor_parallel", "data_parallel", "expert_parallel", "decode_context_parallel")
    assert {name: value for name, value in sections["engine"].items() if name in kept} == expected


def test_a_row_that_is_not_there_is_refused(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = ("recommend", "--gpu", "h200", "--model", "llama-3.1-8b")
    assert main((*query, "--write", "found", "--row", "9")) == 2
    assert "--row: 9 is not in the table: expected a number from 1 to" in capsys.readouterr().err
    assert main((*query, "--row", "1")) == 2
    assert "--row: requires --write" in capsys.readouterr().err
    assert not (program / "Pulumi.found.yaml").exists()


def test_a_known_commit_is_pinned_and_an_unknown_one_is_said_to_be(program: Path) -> None:
    by_name = {best.checkpoint.name: best for best in reversed(FOUND)}
    pinned = yaml.safe_load(write_draft(by_name["kimi-k2.5"], "pinned", program).read_text())
    assert pinned["config"]["heavylift:model"]["revision"] == "4d01dfe0332d63057c186e0b262165819efb6611"
    unpinned = write_draft(by_name["kimi-k2.5-nvfp4"], "unpinned", program).read_text()
    assert "revision: main # commit not known to us; pin before use" in unpinned


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpu", "h200", "--write", "there"), "--write: Pulumi.there.yaml: already exists"),
        (("--gpu", "h200", "--write", "No Name"), "--write: stack name: 'No Name' cannot name a Service"),
        (("--gpu", "h200", "--write", "../x"), "--write: stack name: '../x' cannot name a Service"),
        (("--gpu", "h200", "--write", ""), "--write: stack name: '' cannot name a Service"),
        (("--write", "found"), "--write: requires --gpu"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused(
    arguments: tuple[str, ...], said: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = stack_file("there", program)
    there.write_text("mine")
    assert main(("recommend", *arguments)) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == "", "before a table that nobody asked for alone"
    assert there.read_text() == "mine"
    assert sorted(file.name for file in program.iterdir()) == ["Pulumi.there.yaml", "Pulumi.yaml"]


def test_nothing_is_written_away_from_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(("recommend", "--gpu", "h200", "--write", "found")) == 2
    assert "no Pulumi.yaml in this directory" in capsys.readouterr().err


def test_nothing_is_written_where_nothing_fits(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--gpu", "l4", "--gpus-per-node", "1", "--quality", "frontier", "--write", "found")
    assert main(("recommend", *asked)) == 1
    assert "Try more GPUs" in capsys.readouterr().out
    assert not stack_file("found", program).exists()
