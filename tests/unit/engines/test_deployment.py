"""How a server is divided over pods and nodes, and what a stack cannot be deployed without."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.plan import Plan, Pods
from engines.request import Deployment, FitRequest
from engines.rules.deployment import pods_of
from planner import fit
from tests.unit.planner.asking import GIB, codes, plan, texts, warning_codes

KIMI = {"model": "kimi-k2.5", "gpu": "h100"}


def on_two_nodes(**settings: Any) -> Plan:
    """Kimi-K2.5 on two nodes of eight H100, with NVLink within and InfiniBand between them."""
    return plan("kimi-k2.5", "h100", nodes=2, fabric="infiniband", **settings)


@pytest.mark.parametrize(
    ("gpus", "pods"),
    [
        (0, Pods(0, 1, 1)),
        (1, Pods(1, 1, 1)),
        (8, Pods(8, 1, 1)),
        (12, Pods(6, 2, 2)),
        (16, Pods(8, 2, 2)),
        (24, Pods(8, 3, 3)),
    ],
)
def test_a_server_takes_as_few_nodes_as_hold_it_and_as_many_gpus_of_each(gpus: int, pods: Pods) -> None:
    assert pods_of(gpus, 8) == pods


def test_a_layout_that_its_nodes_cannot_share_evenly_is_rejected_with_both_numbers() -> None:
    rejected = on_two_nodes(tensor_parallel=1, pipeline_parallel=9)
    assert "layout_not_even" in codes(rejected)
    assert "takes 9 GPUs, which 2 nodes of 8 cannot share evenly: expected a multiple of 2" in texts(rejected)


def test_memory_and_shared_memory_of_a_pod_are_those_of_its_own_gpus() -> None:
    layout = on_two_nodes(tensor_parallel=4, pipeline_parallel=3)
    assert layout.pods == Pods(gpus_per_pod=6, pods_per_server=2, nodes_per_server=2)
    # 2 GiB of shared memory per GPU; 16 GiB for the server, 12 per GPU, and the shared memory.
    assert layout.host.shared_memory_bytes == 6 * 2 * GIB
    assert layout.host.memory_bytes == (16 + 6 * 12 + 6 * 2) * GIB


def test_the_one_gpu_of_each_pod_of_a_group_gets_shared_memory() -> None:
    """vLLM 0.32.0 ended in such a leader: "160 MiB required, 64 MiB free" (`make prove-vllm`)."""
    layout = plan("llama-3.1-8b", "h100", nodes=2, gpus_per_node=1, tensor_parallel=2)
    assert layout.pods == Pods(gpus_per_pod=1, pods_per_server=2, nodes_per_server=2)
    assert layout.host.shared_memory_bytes == 2 * GIB


def test_a_tensor_parallel_group_that_ends_on_another_node_is_said() -> None:
    settings = {"nodes": 2, "fabric": "efa", "pipeline_parallel": 3}
    assert "tensor_parallel_across_nodes" in warning_codes(plan("kimi-k2.5", "h100", tensor_parallel=4, **settings))
    assert "tensor_parallel_across_nodes" not in warning_codes(plan("kimi-k2.5", "h100", nodes=2, fabric="efa"))


@pytest.mark.parametrize("model", ["kimi-k2.5", "acme/tiny"])
def test_more_servers_than_there_are_nodes_are_rejected_with_all_numbers(model: str) -> None:
    deployment = Deployment(nodes=2, replicas=3, volume_has_size=False)
    rejected = plan(model, "h200", deployment=deployment)
    assert "too_few_nodes" in codes(rejected)
    assert "The stack has 2 nodes; 3 servers of 1 node each take 3." in texts(rejected)
    assert plan(model, "h200", deployment=Deployment(nodes=3, replicas=3)).verdict != "rejected" or model == "acme/tiny"


def test_a_node_group_that_is_too_small_is_told_its_count() -> None:
    deployment = Deployment(nodes=1, replicas=2, volume_has_size=False)
    rejected = plan("kimi-k2.5", "h200", instance_type="p5en.48xlarge", deployment=deployment)
    (finding,) = (each for each in rejected.problems if each.code == "too_few_nodes")
    assert finding.fix == "Set nodes.count to 2, or lower engine.replicas."


def test_a_volume_whose_size_nobody_knows_is_rejected() -> None:
    def of_unknown_size(**settings: Any) -> Plan:
        return plan("acme/tiny", deployment=Deployment(nodes=1), **settings)

    assert "volume_size_not_known" in codes(of_unknown_size())
    assert of_unknown_size(volume_bytes=400 * GIB).volume_bytes == 400 * GIB
    assert of_unknown_size(weights_bytes=10**9).volume_bytes == 2_100_000_000
    assert plan("acme/tiny", deployment=Deployment(nodes=1, volume_has_size=False)).volume_bytes is None
    assert codes(plan("acme/tiny")) == {"model_not_in_catalogue"}, "without a stack there is no volume"


def test_what_does_not_depend_on_the_model_is_checked_for_a_model_that_is_not_known() -> None:
    rejected = plan("acme/tiny", tensor_parallel=16, extra_args=("--no-such-flag",))
    assert rejected.verdict == "rejected"
    assert codes(rejected) == {"model_not_in_catalogue", "layout_exceeds_gpus", "argument_not_known"}


LLAMA_ON_AWS = FitRequest(
    model="meta-llama/Llama-3.1-8B-Instruct",
    gpu="l4",
    gpus_per_node=1,
    instance_type="g6.xlarge",
    max_model_len=16384,
    host_memory_bytes=14 * GIB,
    deployment=Deployment(nodes=1, volume_has_size=False),
)
"""A g6.xlarge has 4 vCPUs and 250 GB of NVMe (EC2, DescribeInstanceTypes)."""


@pytest.mark.parametrize(("cpus", "refused"), [(None, False), (3, False), (4, True), (64, True)])
def test_pods_for_which_no_instance_has_the_cpus_are_refused(cpus: int | None, refused: bool) -> None:
    request = replace(LLAMA_ON_AWS, deployment=Deployment(nodes=1, volume_has_size=False, cpus=cpus))
    found = [problem for problem in fit(request).problems if problem.code == "instance_cpus_too_few"]
    assert bool(found) is refused
    assert all("engine.cpus to at most 3" in problem.fix for problem in found)


@pytest.mark.parametrize(("revisions", "refused"), [(2, False), (60, True)])
def test_weights_for_which_no_instance_has_the_disks_are_refused(revisions: int, refused: bool) -> None:
    found = [
        problem
        for problem in fit(replace(LLAMA_ON_AWS, keep_revisions=revisions)).problems
        if problem.code == "instance_disk_too_small"
    ]
    assert bool(found) is refused
    assert all("225.0 of the 250 GB of NVMe of g6.xlarge" in problem.message for problem in found)


@pytest.mark.parametrize(("memory", "refused"), [(None, True), (15, True), (14, False)])
def test_pods_for_which_no_instance_has_the_memory_are_refused(memory: int | None, refused: bool) -> None:
    """A g6.xlarge has 16 GiB, of which pods get about 14.7; without a stated memory, the plan asks for 28."""
    request = replace(LLAMA_ON_AWS, host_memory_bytes=memory and memory * GIB)
    found = [problem for problem in fit(request).problems if problem.code == "instance_memory_too_small"]
    assert bool(found) is refused
    assert all("engine.memory to at most 14Gi" in problem.fix for problem in found)


PUBLIC_IMAGE = "vllm/vllm-openai:v0.33.0"
AWS_IMAGE = "763104351884.dkr.ecr.us-east-2.amazonaws.com/vllm:server-cuda-v1"


@pytest.mark.parametrize(
    ("gpu", "image", "pipeline_parallel", "refused"),
    [
        ("h100", PUBLIC_IMAGE, 2, True),
        ("h100", f"docker.io/{PUBLIC_IMAGE}", 2, True),
        ("h100", AWS_IMAGE, 2, False),
        ("h200", PUBLIC_IMAGE, 1, False),
    ],
)
def test_an_image_without_efa_is_refused_for_servers_over_several_nodes(
    gpu: str, image: str, pipeline_parallel: int, refused: bool
) -> None:
    deployment = Deployment(nodes=2, volume_has_size=False, image=image)
    layout = {"tensor_parallel": 8, "pipeline_parallel": pipeline_parallel}
    settings = {"nodes": 2, "fabric": "efa", "deployment": deployment, **layout}
    assert ("image_without_efa" in codes(plan("kimi-k2.5", gpu, **settings))) is refused


def test_a_server_that_takes_more_than_its_share_of_the_nodes_is_told_how_many_nodes_all_take() -> None:
    deployment = Deployment(nodes=3, replicas=2, volume_has_size=False)
    asked = plan("kimi-k2.5", "h100", tensor_parallel=8, pipeline_parallel=2, deployment=deployment)
    assert "each of the 2 servers has 1 of the 3 nodes, with 8 GPUs each" in texts(asked)
    assert "Use 4 nodes" in texts(asked)


@pytest.mark.parametrize(("zone", "warned"), [("use2-az3", False), ("use2-az9", True)])
def test_a_zone_that_does_not_offer_the_instance_type_is_a_warning(zone: str, warned: bool) -> None:
    """EC2 offers p5en in use2-az1, use2-az2 and use2-az3 (DescribeInstanceTypeOfferings, tests/recorded_ec2.py)."""
    deployment = Deployment(nodes=1, volume_has_size=False, zone=zone)
    asked = plan("kimi-k2.5", "h200", instance_type="p5en.48xlarge", deployment=deployment)
    found = [warning.message for warning in asked.warnings if warning.code == "zone_not_offered"]
    assert bool(found) is warned
    assert all("it lists use2-az1, use2-az2, use2-az3" in message for message in found)


@pytest.mark.parametrize(
    ("version", "gpus", "warned"), [("0.31.0", 8, True), ("0.32.0", 8, False), ("0.31.0", 1, False)]
)
def test_a_kept_cache_is_warned_of_where_ranks_may_wait_for_one_another(version: str, gpus: int, warned: bool) -> None:
    planned = plan("llama-3.1-8b", "h100", gpus_per_node=gpus, engine_version=version, keep_cache=True)
    assert ("kept_cache_may_hang" in warning_codes(planned)) is warned
