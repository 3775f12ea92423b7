"""A GPU of another vendor is a row of the catalogue, and nothing else changes."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.cluster.facts import NodeFacts
from components.cluster.preflight import node_faults
from config.catalogue import gpu, reading
from config.stack.file import read_sections, stack_file
from config.stack.sections import StackConfig
from planner import fit
from planner.stack_request import request_of_stack
from tests.program import PROGRAM, run_program

_ROW = {
    "name": "mi300x",
    "aliases": [],
    "title": "MI300X",
    "vendor": "amd",
    "labels": ["AMD_Instinct_MI300X"],
    "smi_mib": 196592,
    "torch_gib": None,
    "compute_capability": None,
    "data_center": True,
    "source": "this test",
}
_CACHES = (reading.read, gpu._vendors, gpu.gpus, gpu._gpus_by_name)


@pytest.fixture(autouse=True)
def amd_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A catalogue with one GPU more."""
    data = tmp_path / "data"
    shutil.copytree(reading.DATA, data)
    content = json.loads((data / "gpus.json").read_text())
    content["gpus"].append(_ROW)
    (data / "gpus.json").write_text(json.dumps(content))
    monkeypatch.setattr(reading, "DATA", data)
    for cached in _CACHES:
        cached.cache_clear()
    yield
    for cached in _CACHES:
        cached.cache_clear()


def sections() -> dict[str, Any]:
    """The stack `h200` on GPUs of another vendor."""
    stack = read_sections(stack_file("h200", PROGRAM))
    stack["nodes"] = {**stack["nodes"], "gpu": "mi300x", "driver": "6.12.12"}
    return stack


def test_the_pod_asks_for_the_vendors_resource(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200", sections=sections())
    [engine] = recording.only("apps/v1:Deployment").inputs["spec"]["template"]["spec"]["containers"]
    assert engine["resources"]["limits"]["amd.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in json.dumps(engine)


def test_the_preflight_reads_the_vendors_labels() -> None:
    node = NodeFacts(
        "h200-0",
        labels={
            "kubernetes.io/hostname": "h200-0",
            "amd.com/gpu.product-name": "AMD_Instinct_MI250X",
            "amd.com/gpu.driver-version": "6.10.5",
        },
        allocatable={"amd.com/gpu": "4"},
    )
    assert node_faults(StackConfig.parse(sections()), [node]) == [
        "node h200-0: has GPUs of the kind AMD_Instinct_MI250X: expected mi300x (heavylift:nodes.gpu)",
        "node h200-0: has 4 of 8 amd.com/gpu allocatable; repair the node, or lower heavylift:nodes.gpus_per_node",
        "node h200-0: has driver 6.10.5: expected 6.12.12 (heavylift:nodes.driver)",
    ]


def test_what_is_not_known_of_the_vendor_makes_the_verdict_unknown() -> None:
    plan = fit(request_of_stack(StackConfig.parse(sections()), None))
    assert plan.verdict == "unknown"
    assert [problem.code for problem in plan.problems] == ["gpu_vendor_not_known"]
    assert plan.disk_bytes is not None
