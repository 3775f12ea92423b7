"""The 89 configurations of public models that a package carries: how many the planner cannot plan, and why."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.checkpoint.model_spec import find_model
from engines.request import FitRequest
from planner.fit import plan_only
from planner.report.oracle import DATA
from planner.report.summary import summary
from tests.oracle.pairs import write_checkpoint

CONFIGURATIONS = [
    entry
    for entry in json.loads((DATA / "configs.json").read_text())["models"]
    if entry["source"].startswith("aiconfigurator") and not entry["repository"].startswith("made/")
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


@pytest.mark.parametrize("gpu", ["rtx-pro-6000", "mi300x", "a100-80gb"])
def test_compressed_attention_is_unknown_where_its_cache_was_not_compared(gpu: str) -> None:
    planned = plan_only(FitRequest(model="deepseek-v4-flash", gpu=gpu, gpus_per_node=8))
    assert planned.verdict == "unknown"
    assert "compressed_attention_on_this_gpu" in [problem.code for problem in planned.problems]


def test_a_size_that_is_not_published_is_marked_as_computed() -> None:
    """Kimi-K2.5's size is published, DeepSeek-V3's follows from its shape, and a stack's lock file states it."""
    for model, stated, marked in (
        ("kimi-k2.5", None, False),
        ("deepseek-v3", None, True),
        ("deepseek-v3", 700 * 10**9, False),
    ):
        request = FitRequest(model=model, gpu="h200", weights_bytes=stated)
        assert ("(computed from its shapes)" in summary(request, plan_only(request))) == marked
