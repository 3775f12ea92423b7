"""From a stack's names to the planner's."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from config.errors import StackError
from config.stack.sections import StackConfig
from config.stack.weights import WeightsLock
from planner import fit
from planner.report.summary import summary
from planner.stack_request import request_of_named_stack, request_of_stack

_PROGRAM = Path(__file__).parents[3]

_SECTIONS: dict[str, Any] = {
    "nodes": {
        "names": ["a", "b"],
        "gpu": "h100",
        "gpus_per_node": 8,
        "nvme_path": "/mnt/nvme",
        "driver": "580.95.05",
        "fabric": {"kind": "infiniband", "resource": "rdma/ib", "count": 8},
        "usd_per_gpu_hour": 2.5,
    },
    "model": {"repository": "moonshotai/Kimi-K2.5", "revision": "4d01dfe0332d63057c186e0b262165819efb6611"},
    "weights": {"kind": "host-path", "size": "2Ti", "keep_revisions": 3},
    "stage": {"image": "python:3.12-slim", "bandwidth": "10 Gbit/s"},
    "engine": {
        "name": "vllm",
        "version": "0.33.0",
        "image": "vllm/vllm-openai:v0.33.0",
        "tensor_parallel": 8,
        "pipeline_parallel": 2,
        "max_model_len": 262144,
        "kv_cache_dtype": "fp8",
        "mm_encoder_tp_mode": "data",
        "memory": "256Gi",
        "extra_args": ["--seed=1"],
    },
}


def test_everything_a_stack_says_reaches_the_request() -> None:
    lock = WeightsLock(text="", repository="", commit="", files=(), total_bytes=595_181_234_567)
    request = request_of_stack(StackConfig.parse(_SECTIONS), lock)
    assert (request.model, request.weights_bytes) == ("moonshotai/Kimi-K2.5", 595_181_234_567)
    assert (request.gpu, request.nodes, request.gpus_per_node) == ("h100", 2, 8)
    assert (request.fabric, request.driver, request.usd_per_gpu_hour) == ("infiniband", "580.95.05", 2.5)
    assert (request.tensor_parallel, request.pipeline_parallel) == (8, 2)
    assert (request.max_model_len, request.kv_cache_dtype, request.mm_encoder_tp_mode) == (262_144, "fp8", "data")
    assert (request.host_memory_bytes, request.volume_bytes, request.keep_revisions) == (2**38, 2**41, 3)
    assert request.staging_bytes_per_second == 1.25e9
    assert request.extra_args == ("--seed=1",)


def test_the_speed_of_shared_storage_is_what_the_start_is_planned_by() -> None:
    sections = deepcopy(_SECTIONS)
    sections["weights"]["read_bandwidth"] = "400 MB/s"
    request = request_of_stack(StackConfig.parse(sections), None)
    assert request.read_bytes_per_second == 400e6
    # 595.18 GB at 400 MB/s is 1,488 s; the engine starts in 234 s more.
    assert fit(request).load_seconds == pytest.approx(1722, abs=2)


def test_of_several_replicas_one_is_planned_on_its_share_of_the_nodes() -> None:
    sections = deepcopy(_SECTIONS)
    sections["nodes"]["names"] = ["a", "b", "c", "d", "spare"]
    sections["engine"]["replicas"] = 2
    request = request_of_stack(StackConfig.parse(sections), None)
    assert request.nodes == 2
    # 5 nodes of 8 GPUs at 2.50 $/h: both servers, and the spare.
    planned = fit(request)
    assert planned.cost_per_hour_usd == 100.0
    assert "100.00 $/h for all 5 nodes" in summary(request, planned)


def test_the_cost_of_a_stack_with_one_server_needs_no_explanation() -> None:
    request = request_of_stack(StackConfig.parse(_SECTIONS), None)
    assert "40.00 $/h" in summary(request, fit(request))
    assert "for all" not in summary(request, fit(request))


def test_two_nodes_of_h100_fit_with_the_published_weights_by_stage() -> None:
    planned = fit(request_of_stack(StackConfig.parse({**_SECTIONS, "weights": {"kind": "host-path"}}), None))
    assert planned.verdict == "fits"
    assert [stage.weights_gib for stage in planned.stages] == pytest.approx([36.42, 35.40], abs=0.05)
    assert planned.cost_per_hour_usd == 40.0
    assert planned.warnings == ()


@pytest.mark.parametrize("name", [path.name.split(".")[1] for path in sorted(_PROGRAM.glob("Pulumi.*.yaml"))])
def test_every_committed_stack_is_planned(name: str) -> None:
    planned = fit(request_of_named_stack(name, _PROGRAM))
    assert planned.verdict == "fits", planned.problems


def test_a_stack_that_does_not_exist_is_refused() -> None:
    with pytest.raises(StackError, match="stacks are"):
        request_of_named_stack("nowhere", _PROGRAM)


def test_a_stack_that_is_to_prove_itself_is_refused(tmp_path: Path) -> None:
    text = (_PROGRAM / "Pulumi.aws-l4.yaml").read_text(encoding="utf-8")
    (tmp_path / "Pulumi.own.yaml").write_text(f"{text}  heavylift:promotion:\n    from: own\n", encoding="utf-8")
    with pytest.raises(StackError, match=r"heavylift:promotion\.from: 'own' is this stack: expected another one"):
        request_of_named_stack("own", tmp_path)
