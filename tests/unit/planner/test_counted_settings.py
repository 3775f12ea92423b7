"""Settings that change what a GPU holds, against the arithmetic of vLLM 0.33.0's own code."""

from typing import Any

import pytest

from engines.vllm.memory.stages import memory_of, weights_by_group
from tests.unit.planner.asking import GIB, codes, plan, resolved_request, warning_codes


def _weights(model: str, gpu: str = "h200", **settings: Any) -> float:
    return sum(weights_by_group(resolved_request(model, gpu, **settings), 0).values()) / GIB


def test_eager_mode_has_no_graphs() -> None:
    resolved = resolved_request("llama-3.1-8b", gpus_per_node=1, enforce_eager=True)
    assert resolved.backend is not None
    [stage] = memory_of(resolved, 139 * GIB, resolved.backend).stages
    assert (stage.overhead.graphs_low, stage.overhead.graphs_high) == (0, 0)
    planned = plan("llama-3.1-8b", gpus_per_node=1, enforce_eager=True)
    assert planned.verdict == "fits"
    assert "--enforce-eager" in planned.engine_args
    assert "eager mode" in planned.overhead_widened_by


_SPREAD: dict[str, Any] = {"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": True}


def test_copies_of_experts_and_the_buffer_of_a_layer_are_counted() -> None:
    """Kimi-K2.5 has 384 experts of 44,040,192 weights in 60 layers, at 0.5625 B a weight: 23.1 MiB each. With 32 copies
    a rank holds 52 of them instead of 48 in each layer, and 52 more for the layer that moves."""
    each = 3 * 7168 * 2048 * 0.5625 / GIB
    more = _weights("kimi-k2.5", **_SPREAD, redundant_experts=32) - _weights("kimi-k2.5", **_SPREAD)
    assert more == pytest.approx(each * (4 * 60 + 52), rel=1e-6)
    arguments = plan("kimi-k2.5", **_SPREAD, redundant_experts=32).engine_args
    at = arguments.index("--enable-eplb")
    assert arguments[at + 1 : at + 3] == ("--eplb-config", '{"num_redundant_experts": 32}')


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({**_SPREAD, "redundant_experts": 31}, "redundant_experts_not_even"),
        ({"redundant_experts": 32}, "experts_not_spread"),
        ({**_SPREAD, "redundant_experts": 32, "engine_version": "0.20.2"}, "setting_not_known"),
        ({**_SPREAD, "redundant_experts": -1}, "value_not_valid"),
        ({"cpu_offload_gb": 0.0}, "value_not_valid"),
        ({"cpu_offload_gb": 40.0}, "host_memory_not_known"),
        ({"cpu_offload_gb": 40.0, "host_memory_bytes": 300 * GIB}, "host_memory_too_small"),
    ],
)
def test_what_the_engine_would_refuse_or_nobody_knows_is_named(settings: dict[str, Any], code: str) -> None:
    assert code in codes(plan("kimi-k2.5", **settings))


def test_experts_of_models_that_vllm_does_not_balance_leave_the_verdict_open() -> None:
    planned = plan("minimax-m2.5", gpus_per_node=4, expert_parallel=True, redundant_experts=0)
    assert planned.verdict == "unknown"
    assert codes(planned) == {"balancing_not_known"}


def test_weights_that_stay_in_host_memory_leave_the_gpu_and_need_the_pods_memory() -> None:
    """Llama-3.1-8B in 16 bits is 15 GiB, of which 2 x 128,256 x 4,096 x 2 B are embedding and head."""
    assert _weights("llama-3.1-8b", gpus_per_node=1, cpu_offload_gb=4.0) == pytest.approx(14.99 - 4, abs=0.01)
    most = _weights("llama-3.1-8b", gpus_per_node=1, cpu_offload_gb=100.0)
    assert most == pytest.approx(2 * 128_256 * 4096 * 2 / GIB + 0.03, abs=0.01)
    settings = {"gpu": "l4", "gpus_per_node": 1, "max_model_len": 8192, "host_memory_bytes": 64 * GIB}
    plain, kept = plan("llama-3.1-8b", **settings), plan("llama-3.1-8b", **settings, cpu_offload_gb=4.0)
    assert (plain.verdict, kept.verdict) == ("fits", "fits")
    assert plain.host.memory_bytes is not None
    assert kept.host.memory_bytes == plain.host.memory_bytes + 4 * GIB
    assert kept.max_context is not None
    assert plain.max_context is not None
    assert kept.max_context > plain.max_context


@pytest.mark.parametrize(
    ("settings", "regions"),
    [
        ({}, 1),
        ({"tensor_parallel": 1, "data_parallel": 8, "expert_parallel": True}, 8),
        ({"nodes": 2, "gpu": "h100", "fabric": "infiniband"}, 1),
        ({"nodes": 2, "tensor_parallel": 1, "data_parallel": 16, "expert_parallel": True, "fabric": "infiniband"}, 8),
    ],
)
def test_kv_cache_in_host_memory_is_in_shared_memory_once_for_each_data_parallel_rank(
    settings: dict[str, Any], regions: int
) -> None:
    """vLLM 0.33.0 maps a file of the whole size in /dev/shm, and does not start where less is free
    (vllm/v1/kv_offload/cpu/shared_offload_region.py)."""
    plain, offloaded = plan("kimi-k2.5", **settings), plan("kimi-k2.5", **settings, kv_offload=200 * GIB, **_HOST)
    assert offloaded.host.shared_memory_bytes - plain.host.shared_memory_bytes == regions * 200 * GIB
    assert plain.host.memory_bytes is not None
    assert offloaded.host.memory_bytes == plain.host.memory_bytes + regions * 200 * GIB
    assert offloaded.kv_tokens == plain.kv_tokens
    assert offloaded.engine_args[offloaded.engine_args.index("--kv-offloading-size") + 1] == "200"


_HOST: dict[str, Any] = {"host_memory_bytes": 4096 * GIB}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"kv_offload": 0}, "value_not_valid"),
        ({"kv_offload": 200 * GIB}, "host_memory_not_known"),
        ({"kv_offload": 200 * GIB, "host_memory_bytes": 150 * GIB}, "host_memory_too_small"),
        ({"kv_offload": 200 * GIB, **_HOST, "shared_memory_bytes": 64 * GIB}, "shared_memory_too_small"),
        ({"kv_offload": 200 * GIB, **_HOST, "engine_version": "0.30.0"}, "setting_not_known"),
        ({"max_num_queued_reqs": 0}, "value_not_valid"),
        ({"max_num_queued_reqs": 100, "max_num_seqs": 128}, "queue_below_sequences"),
        ({"max_num_queued_reqs": 100, "engine_version": "0.27.1"}, "setting_not_known"),
        ({"sleep_idle_seconds": 600}, "setting_not_used"),
        ({"load_format": "pt"}, "value_not_valid"),
        ({"load_format": "instanttensor"}, "reader_not_checked"),
        ({"load_format": "runai_streamer"}, "reader_memory_not_known"),
        ({"load_format": "runai_streamer", **_HOST}, "reader_not_checked"),
        ({"load_format": "instanttensor", "gpu": "mi300x"}, "reader_needs_nvidia"),
        ({"load_format": "fastsafetensors", "engine_version": "0.25.0"}, "setting_not_known"),
    ],
)
def test_limits_of_host_memory_and_queue_are_named(settings: dict[str, Any], code: str) -> None:
    planned = plan("kimi-k2.5", **settings)
    assert code in codes(planned) | warning_codes(planned)


def test_a_queue_that_holds_all_that_run_is_passed_on() -> None:
    planned = plan("kimi-k2.5", max_num_seqs=128, max_num_queued_reqs=256)
    assert "queue_below_sequences" not in warning_codes(planned)
    assert planned.engine_args[planned.engine_args.index("--max-num-queued-reqs") + 1] == "256"


@pytest.mark.parametrize(
    "flag",
    [
        *("--enforce-eager", "--enable-eplb", "--eplb-config", "--cpu-offload-gb", "--kv-offloading-size"),
        *("--load-format", "--max-num-queued-reqs"),
    ],
)
def test_a_setting_of_its_own_is_not_given_as_an_extra_argument(flag: str) -> None:
    assert codes(plan("kimi-k2.5", extra_args=(flag, "1"))) == {"argument_of_the_plan"}


def test_the_layer_that_drafts_is_held_and_has_a_cache_as_the_others() -> None:
    """DeepSeek-V3's decoder layer with experts, once more, with a projection of 2 x 7,168 x 7,168 in 16 bits and five
    norms that are whole on every rank; embedding and head are those of the model (vLLM 0.33.0, deepseek_mtp.py)."""
    more = _weights("deepseek-v3", speculative_tokens=1) - _weights("deepseek-v3")
    experts = 256 * 3 * 7168 * 2048 / 8
    shared = 3 * 7168 * 2048 / 8
    attention = 7168 * 1536 + 7168 * 576 + (1536 * 24_576 + 512 * 32_768 + 16_384 * 7168) / 8
    router = 256 * 7168 * 2
    projection = 2 * 7168 * 7168 * 2
    copies = 512 * 32_768 * 2 / 8
    expected = experts + shared + attention + router + projection + copies
    # Scales of blocks and norms are 0.03%.
    assert more * GIB == pytest.approx(expected, rel=0.001)
    planned, plain = plan("deepseek-v3", speculative_tokens=1), plan("deepseek-v3")
    assert planned.per_gpu is not None
    assert plain.per_gpu is not None
    assert (planned.per_gpu.kv_bytes_per_token, plain.per_gpu.kv_bytes_per_token) == (62 * 1152, 61 * 1152)
    at = planned.engine_args.index("--speculative-config")
    assert planned.engine_args[at + 1] == '{"method": "mtp", "num_speculative_tokens": 1}'
    assert "speculative decoding" in planned.overhead_widened_by


@pytest.mark.parametrize(
    ("model", "settings", "code"),
    [
        ("kimi-k2.5", {}, "no_draft_layers"),
        ("qwen3.5-397b-a17b", {"pipeline_parallel": 2}, "drafts_not_known"),
        ("glm-5.2-fp8", {}, "drafts_not_known"),
        ("deepseek-v3", {"engine_version": "0.20.2"}, "setting_not_known"),
        ("deepseek-v3", {"speculative_tokens": 0}, "value_not_valid"),
    ],
)
def test_drafts_without_a_formula_leave_the_verdict_open(model: str, settings: dict[str, Any], code: str) -> None:
    assert code in codes(plan(model, **{"speculative_tokens": 2, **settings}))


def test_adapters_have_two_matrices_beside_each_linear_layer() -> None:
    """Llama-3.1-8B on two GPUs: for each unit of rank, queries, keys and values take 3 x 4,096 and give 2,048 and
    2 x 512; the output takes 2,048 and gives 4,096; the network takes 2 x 4,096 and 7,168, and gives 2 x 7,168 and
    4,096; embedding and head are whole, 128,256 and 4,096 each (vLLM 0.33.0, vllm/lora/layers)."""
    layer = (3 * 4096 + 2048 + 2 * 512) + (2048 + 4096) + (2 * 4096 + 2 * 7168) + (7168 + 4096)
    expected = 4 * 64 * 2 * (32 * layer + 2 * (128_256 + 4096))
    settings: dict[str, Any] = {"gpus_per_node": 2}
    held = _weights("llama-3.1-8b", **settings, max_loras=4, max_lora_rank=64)
    assert (held - _weights("llama-3.1-8b", **settings)) * GIB == pytest.approx(expected, rel=1e-6)
    arguments = plan("llama-3.1-8b", **settings, max_loras=4, max_lora_rank=64).engine_args
    at = arguments.index("--enable-lora")
    assert arguments[at : at + 5] == ("--enable-lora", "--max-loras", "4", "--max-lora-rank", "64")


@pytest.mark.parametrize(
    ("model", "settings", "code"),
    [
        ("kimi-k2.5", {"max_loras": 1}, "adapters_not_served"),
        ("deepseek-v4-flash", {"max_loras": 1}, "adapters_not_known"),
        ("qwen3-30b-a3b", {"max_loras": 1, "tensor_parallel": 4, "data_parallel": 2}, "adapters_not_known"),
        ("qwen3-30b-a3b", {"max_loras": 1, "gpu": "b200"}, "adapters_not_known"),
        ("llama-3.1-8b", {"max_lora_rank": 8}, "rank_without_adapters"),
        ("llama-3.1-8b", {"max_loras": 1, "max_lora_rank": 24}, "rank_not_taken"),
        ("llama-3.1-8b", {"max_loras": 1, "engine_version": "0.20.2"}, "setting_not_known"),
        ("llama-3.1-8b", {"extra_args": ("--enable-lora",)}, "argument_of_the_plan"),
    ],
)
def test_adapters_without_a_formula_leave_the_verdict_open(model: str, settings: dict[str, Any], code: str) -> None:
    assert code in codes(plan(model, **settings))
