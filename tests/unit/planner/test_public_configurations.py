"""The 89 configurations of public models that a package carries: how many the planner cannot plan, and why."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.checkpoint.model_spec import find_model
from engines.request import FitRequest
from planner.fit import plan_only
from planner.report.oracle import DATA
from tests.oracle.pairs import write_checkpoint

CONFIGURATIONS = [
    entry
    for entry in json.loads((DATA / "configs.json").read_text())["models"]
    if not entry["repository"].startswith("made/")
]
MOST_UNKNOWN = 10

UNKNOWN = {
    "MiniMaxAI/MiniMax-M3": "sparse_attention_config",
    "nvidia/MiniMax-M3-NVFP4": "sparse_attention_config",
    "moonshotai/Kimi-K3": "linear_attn_config",
    "sgl-project/DeepSeek-V4-Flash-FP8": "compress_ratios",
    "sgl-project/DeepSeek-V4-Pro-FP8": "compress_ratios",
    "stepfun-ai/Step-3.7-Flash": "model type 'step3p7'",
    "stepfun-ai/Step-3.7-Flash-FP8": "model type 'step3p7'",
}
"""What is not known of each. A configuration that becomes known is taken off the list."""


def test_all_configurations_of_the_package_are_here() -> None:
    assert len(CONFIGURATIONS) == 89


@pytest.mark.parametrize("entry", CONFIGURATIONS, ids=lambda entry: entry["repository"])
def test_a_configuration_is_planned_or_its_reason_is_listed(entry: dict[str, Any], tmp_path: Path) -> None:
    directory = write_checkpoint(entry, tmp_path / "model")
    unknown = "; ".join(find_model(str(directory)).unknown)
    expected = UNKNOWN.get(entry["repository"], "")
    assert expected in unknown if expected else unknown == ""
    planned = plan_only(FitRequest(model=str(directory), gpu="b200", gpus_per_node=8, max_model_len=4096))
    assert planned.verdict in (("unknown", "rejected") if expected else ("fits", "tight", "rejected")), planned.problems


def test_few_are_unknown() -> None:
    assert len(UNKNOWN) <= MOST_UNKNOWN
