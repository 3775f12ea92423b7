"""An AMD GPU is a row of the catalogue: the pod asks for its resource, the preflight reads its labels, and the planner
knows its backends."""

import json
from typing import Any

import pytest

from components.cluster.facts import NodeFacts
from components.cluster.nodes_fit import node_faults
from config.catalogue import find_gpu
from config.stack.file import read_sections, stack_file
from config.stack.sections import StackConfig
from config.units import GIB
from engines.request import FitRequest
from engines.versions import Version
from engines.vllm.memory.overhead import Workload, overhead
from planner import fit
from planner.stack_request import request_of_stack
from tests.program import PROGRAM, run_program


def sections() -> dict[str, Any]:
    """The stack `mi300x` with the driver's version."""
    stack = read_sections(stack_file("mi300x", PROGRAM))
    stack["nodes"] = {**stack["nodes"], "driver": "6.14.14"}
    return stack


def test_the_pod_asks_for_the_vendors_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "mi300x", sections=sections())
    [engine] = recording.only("apps/v1:Deployment").inputs["spec"]["template"]["spec"]["containers"]
    assert engine["resources"]["limits"]["amd.com/gpu"] == "8"
    assert "nvidia" not in json.dumps(engine)


def test_the_preflight_reads_the_vendors_labels() -> None:
    node = NodeFacts(
        "mi300x-0",
        labels={
            "kubernetes.io/hostname": "mi300x-0",
            "amd.com/gpu.product-name": "AMD_Instinct_MI250X",
            "amd.com/gpu.driver-version": "6.10.5",
        },
        allocatable={"amd.com/gpu": "4"},
    )
    assert node_faults(StackConfig.parse(sections()), [node]) == [
        "node mi300x-0: has GPUs of the kind AMD_Instinct_MI250X: expected mi300x (heavylift:nodes.gpu)",
        "node mi300x-0: has 4 of 8 amd.com/gpu allocatable; repair the node, or lower heavylift:nodes.gpus_per_node",
        "node mi300x-0: has driver 6.10.5: expected 6.14.14 (heavylift:nodes.driver)",
    ]


def test_a_plan_says_what_was_never_checked_of_the_vendor() -> None:
    plan = fit(request_of_stack(StackConfig.parse(sections()), None))
    assert plan.verdict == "fits"
    assert plan.attention_backend == "TRITON_MLA"
    assert [warning.code for warning in plan.warnings] == ["driver_not_checked", "gpu_hardly_measured"]


@pytest.mark.parametrize(
    ("model", "code"),
    [("kimi-k2.5-nvfp4", "nvfp4_on_amd"), ("glm-5-fp8", "sparse_attention_on_amd")],
)
def test_what_is_not_known_of_the_vendor_makes_the_verdict_unknown(model: str, code: str) -> None:
    plan = fit(FitRequest(model=model, gpu="mi300x", gpus_per_node=8))
    assert plan.verdict == "unknown"
    assert [problem.code for problem in plan.problems] == [code]


@pytest.mark.parametrize(
    ("total", "utilisation", "weights", "cache", "version", "workload"),
    [
        # rocm.blogs.amd.com/artificial-intelligence, on Ray: DeepSeek-R1-Distill-Qwen-14B, 2 MI300X, July 2025.
        pytest.param(191.98, 0.9, 13.99, 151.25, "0.9.1", (2, 5120, 13824, 152064, 0, 0, 8192), id="mi300x"),
        # A public note on DeepSeek-V4-Flash-Base, 8 MI355X at utilisation 0.8, 2,048 batched tokens, August 2026.
        pytest.param(287.98, 0.8, 35.15, 191.04, "0.23.0", (8, 4096, 0, 129280, 6, 2048, 2048), id="mi355x"),
    ],
)
def test_logs_of_amd_gpus_lie_in_the_range_that_cuda_gpus_gave(
    total: float, utilisation: float, weights: float, cache: float, version: str, workload: tuple[int, ...]
) -> None:
    tp, hidden, dense, vocabulary, active, width, batched = workload
    of = Workload(
        tp=tp, pp=1, dp=1, expert_parallel=False, last_stage=True, hidden=hidden, dense_width=dense,
        vocabulary=vocabulary, experts_active=active, expert_width=width, experts_local=0, vision=False,
        batched_tokens=batched, sequences=1024,
    )  # fmt: skip
    beside = overhead(of, Version.parse(version), weights * GIB)
    assert beside.likely <= (total * utilisation - weights - cache) * GIB <= beside.worst


def test_a_variant_with_other_memory_is_another_gpu() -> None:
    """The 141 GB H20 is named NVIDIA-H20-3e, and an H200 NVIDIA-H200: neither is an H20 with 96 GB."""
    stack = sections()
    stack["nodes"] = {**stack["nodes"], "gpu": "h20", "driver": None}
    expected = StackConfig.parse(stack)
    for product in ("NVIDIA-H20-3e", "NVIDIA-H200"):
        labels = {"kubernetes.io/hostname": "mi300x-0", "nvidia.com/gpu.product": product}
        node = NodeFacts("mi300x-0", labels=labels, allocatable={"nvidia.com/gpu": "8"})
        assert node_faults(expected, [node]) == [
            f"node mi300x-0: has GPUs of the kind {product}: expected h20 (heavylift:nodes.gpu)"
        ]


def test_a_gpu_that_the_catalogue_does_not_list_may_be_any_but_those_that_it_lists() -> None:
    """A misspelled name would otherwise be found after the weights are staged."""
    stack = sections()
    stack["nodes"] = {**stack["nodes"], "gpu": "b400", "driver": None}
    unlisted = StackConfig.parse(stack)
    for product, faults in (("NVIDIA-B400", 0), ("NVIDIA-H200", 1), ("NVIDIA-H200-NVL", 1)):
        labels = {"kubernetes.io/hostname": "mi300x-0", "nvidia.com/gpu.product": product}
        node = NodeFacts("mi300x-0", labels=labels, allocatable={"nvidia.com/gpu": "8"})
        assert len(node_faults(unlisted, [node])) == faults


def test_memory_that_no_log_shows_is_said() -> None:
    assert find_gpu("h20").derived
    plan = fit(FitRequest(model="llama-3.1-8b", gpu="h20", gpus_per_node=1))
    assert plan.verdict == "fits"
    assert "gpu_memory_derived" in [warning.code for warning in plan.warnings]
