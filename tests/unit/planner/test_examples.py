"""The stack files in `examples/`: each model of a public comparison table on the smallest machine that holds it.

The table (first column and GPUs as it prints them) promises Llama 3.1 8B and Qwen3.5-35B-A3B on 1x A100 40GB,
Qwen3-235B-A22B and MiniMax M2.5 on 4x A100 80GB, Qwen3.5-397B-A17B on 8x A100 80GB and GLM-5 on 8x H100.
"""

from pathlib import Path

import pytest

from config.catalogue import find_checkpoint
from config.stack.file import read_stack_file
from planner import fit
from planner.recommend import Query, recommend
from planner.stack_request import request_of_stack

_WITH_DRAFT_MODEL = "Pulumi.qwen3-32b.yaml"
"""An example of speculative decoding, which the table does not have."""

_OVER_TWO_NODES = "Pulumi.kimi-sglang-2-nodes.yaml"
"""An example of a group of nodes, which the table does not have."""

_EXAMPLES = sorted(
    file
    for file in (Path(__file__).parents[3] / "examples").glob("Pulumi.*.yaml")
    if file.name not in (_WITH_DRAFT_MODEL, _OVER_TWO_NODES)
)

_TABLE = {
    "Llama-3.1-8B": ("a100-40gb", 1),
    "Qwen3.5-35B-A3B": ("a100-40gb", 1),
    "Qwen3-235B-A22B": ("a100-80gb", 4),
    "MiniMax-M2.5": ("a100-80gb", 4),
    "Qwen3.5-397B-A17B": ("a100-80gb", 8),
    "GLM-5": ("h100", 8),
}
_MORE_THAN_THE_TABLE_SAYS = {"Qwen3.5-35B-A3B": 2}
"""72 GB in BF16 are more than a card of 40 GB; 37 GB in FP8 leave no room that is sure."""
_LESS_THAN_THE_TABLE_SAYS = {"Qwen3-235B-A22B": 2}
"""In 4-bit GPTQ, which the table does not consider."""


def test_the_example_with_a_draft_model_fits() -> None:
    stack = read_stack_file(_EXAMPLES[0].with_name(_WITH_DRAFT_MODEL))
    plan = fit(request_of_stack(stack, None))
    assert (plan.verdict, plan.context) == ("fits", 40_960)


def test_the_example_over_two_nodes_fits() -> None:
    stack = read_stack_file(_EXAMPLES[0].with_name(_OVER_TWO_NODES))
    plan = fit(request_of_stack(stack, None))
    assert (plan.verdict, plan.layout.tp, plan.layout.pp) == ("fits", 8, 2)


def test_every_model_of_the_table_has_an_example() -> None:
    shown = {find_checkpoint(read_stack_file(file).model.repository)[0].title for file in _EXAMPLES}
    assert shown == set(_TABLE)


@pytest.mark.parametrize("file", _EXAMPLES, ids=lambda file: file.name.split(".")[1])
def test_an_example_is_the_smallest_layout_that_is_recommended_for_the_tables_gpu(file: Path) -> None:
    stack = read_stack_file(file)
    model, checkpoint = find_checkpoint(stack.model.repository)
    gpu, promised = _TABLE[model.title]
    expected = (_MORE_THAN_THE_TABLE_SAYS | _LESS_THAN_THE_TABLE_SAYS).get(model.title, promised)

    found = recommend(Query(model=model.name, gpu=gpu, nodes=1))
    assert min(best.gpus for best in found) == expected
    best = next(best for best in found if best.checkpoint.name == checkpoint.name)
    plan = fit(request_of_stack(stack, None))
    assert (stack.nodes.gpu, stack.nodes.gpus_per_node) == (gpu, expected)
    assert plan.verdict == "fits"
    assert plan.layout == best.plan.layout
