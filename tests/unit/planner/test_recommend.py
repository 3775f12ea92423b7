"""Recommendations: accepted by the planner, best first, within quality and budget."""

import json
from pathlib import Path

import pytest

from config.catalogue import find_checkpoint
from planner.__main__ import main
from planner.fit import plan_only
from planner.recommend import Nearness, Query, nearness, recommend, with_more_nodes
from planner.report.recommendations import table
from tests.unit.planner.checkpoints import LLAMA, write_llama


def test_every_recommendation_is_accepted_and_cheaper_ones_go_first_among_equals() -> None:
    found = recommend(Query(quality="high"))
    for best in found:
        assert best.model.quality == "high"
        assert (best.plan.cost_per_hour_usd or 0.0) > 0
        assert plan_only(best.request).verdict in ("fits", "tight")
    for kind in Nearness:
        costs = [row.plan.cost_per_hour_usd or 0.0 for row in found if row.nearness is kind]
        assert costs == sorted(costs)
    assert [row.nearness for row in found] == sorted(row.nearness for row in found)


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        ("kimi-k2.5", Nearness.ORIGINAL),
        ("gpt-oss-120b", Nearness.ORIGINAL),
        ("glm-5-fp8", Nearness.ORIGINAL),
        ("kimi-k2.5-nvfp4", Nearness.CLOSE),
        ("qwen3-235b-a22b-gptq-int4", Nearness.FOUR_BITS),
        ("kimi-k2.5-gguf-q4", Nearness.FOUR_BITS),
        ("kimi-k2.5-gguf", Nearness.FEWER_BITS),
    ],
)
def test_how_near_a_checkpoint_is_to_what_its_makers_released(checkpoint: str, expected: Nearness) -> None:
    assert nearness(*find_checkpoint(checkpoint)) is expected


def test_the_original_goes_before_a_smaller_machine() -> None:
    """Kimi-K2.5 is INT4 from its makers; its 2-bit GGUF needs half of the GPUs."""
    found = recommend(Query(model="kimi-k2.5", gpu="h200"))
    assert found[0].checkpoint.name == "kimi-k2.5"
    assert found[-1].checkpoint.name == "kimi-k2.5-gguf"
    assert found[-1].gpus < found[0].gpus


def test_where_one_node_is_too_small_for_the_original_it_says_how_many_hold_it() -> None:
    """The recipe of Kimi-K2.5 names two nodes of H100; on H200 one is enough, and nothing is said."""
    query = Query(model="kimi-k2.5", gpu="h100")
    found = recommend(query)
    assert {row.nearness for row in found} == {Nearness.FOUR_BITS, Nearness.FEWER_BITS}
    said = table(found, with_more_nodes(query, found))
    expected = "two nodes of 8 H100 SXM hold the original int4 checkpoint kimi-k2.5: fits, TP8 PP2; add --nodes 2"
    assert said.splitlines()[-1].strip() == expected
    on_h200 = Query(model="kimi-k2.5", gpu="h200")
    assert with_more_nodes(on_h200, recommend(on_h200)) == ()


def test_latent_attention_gets_rows_whose_ranks_do_not_copy_the_cache() -> None:
    """Eight ranks hold eight times the tokens, less what attention in every rank takes of the weights."""
    rows = [row for row in recommend(Query(model="kimi-k2.5", gpu="h200")) if row.checkpoint.name == "kimi-k2.5"]
    layouts = {(row.plan.layout.tp, row.plan.layout.dp, row.plan.layout.dcp): row for row in rows}
    assert set(layouts) == {(8, 1, 1), (8, 1, 8), (1, 8, 1)}
    assert 7 < layouts[8, 1, 8].times_the_tokens <= 8
    assert 2 < layouts[1, 8, 1].times_the_tokens < 8


def test_the_context_is_spread_within_each_pipeline_stage_too() -> None:
    """Two nodes of H100 hold the INT4 checkpoint in two stages of eight ranks, which copy the cache as one node's do.
    Attention in sixteen ranks leaves too little beside 56 GiB of weights on each."""
    rows = [row for row in recommend(Query(model="kimi-k2.5", gpu="h100", nodes=2)) if row.checkpoint.format == "int4"]
    assert [(row.plan.layout.tp, row.plan.layout.pp, row.plan.layout.dcp) for row in rows] == [(8, 2, 1), (8, 2, 8)]
    assert 7 < rows[1].times_the_tokens <= 8


def test_grouped_attention_that_is_cut_without_copies_gets_none() -> None:
    rows = recommend(Query(model="qwen3-coder-480b-a35b", gpu="h200"))
    assert [row.times_the_tokens for row in rows] == [1.0]


def test_a_directory_is_recommended_for_as_a_checkpoint_of_the_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_llama(tmp_path / "tiny", LLAMA)
    [row] = recommend(Query(model=str(directory), gpu="l4", max_model_len=128))
    assert row.gpus == 1
    (tmp_path / "Pulumi.yaml").write_text("name: heavylift\n")
    monkeypatch.chdir(tmp_path)
    arguments = ("recommend", "--model", str(directory), "--gpu", "l4", "--max-model-len", "128", "--write", "tiny")
    assert main(arguments) == 0
    assert "repository: <repository of this checkpoint>" in (tmp_path / "Pulumi.tiny.yaml").read_text()
    (directory / "config.json").write_text(json.dumps([]))
    assert main(arguments[:-2]) == 2
    assert "is not an object" in capsys.readouterr().err


def test_a_budget_is_kept() -> None:
    found = recommend(Query(usd_per_hour=30.0))
    assert found
    assert all((best.plan.cost_per_hour_usd or 99) <= 30.0 for best in found)


@pytest.mark.parametrize(
    ("checkpoint", "gpu", "nodes", "gpus"),
    [
        ("kimi-k2.5", "h200", 1, 8),
        ("kimi-k2.5", "h100", 2, 16),
        ("kimi-k2.5-nvfp4", "b200", 1, 4),
        ("glm-5-fp8", "h200", 1, 8),
        ("minimax-m2.5", "h100", 1, 4),
        ("qwen3-235b-a22b", "h200", 1, 4),
        ("qwen3-235b-a22b-fp8", "h100", 1, 4),
        ("qwen3.5-397b-a17b", "h200", 1, 8),
        ("qwen3.5-35b-a3b", "h200", 1, 1),
        ("llama-3.1-8b", "l4", 1, 1),
    ],
)
def test_the_smallest_machine_is_the_one_that_recipes_name(checkpoint: str, gpu: str, nodes: int, gpus: int) -> None:
    """Sizes of vllm-project/recipes at 8959cf64, and the collection's own screen by bytes."""
    model = find_checkpoint(checkpoint)[0].name
    found = {best.checkpoint.name: best for best in recommend(Query(model=model, gpu=gpu, nodes=nodes))}
    assert found[checkpoint].gpus == gpus


def test_kimi_is_not_recommended_for_one_node_of_h100() -> None:
    names = {best.checkpoint.name for best in recommend(Query(gpu="h100", nodes=1, quality="frontier"))}
    assert not names & {"kimi-k2.5", "kimi-k2.6", "kimi-k2.5-nvfp4"}


def test_nothing_found_is_said() -> None:
    assert recommend(Query(gpu="l4", gpus_per_node=1, quality="frontier")) == ()
    assert "Try more GPUs" in table(())
