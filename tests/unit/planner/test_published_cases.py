"""Public failures and successes, with their own inputs and numbers. The ids are labels of the reports' collection."""

import pytest

from planner.time_limits import time_limits
from tests.unit.planner.asking import codes, plan, texts, warning_codes


def test_m01_kimi_on_eight_h200_is_accepted_and_its_latent_cache_is_whole_on_each_rank() -> None:
    """https://github.com/vllm-project/recipes/pull/115"""
    planned = plan("kimi-k2.5", tensor_parallel=8)
    assert planned.verdict == "fits"
    assert planned.per_gpu is not None
    assert planned.per_gpu.kv_bytes_per_token == 61 * 576 * 2


def test_m02_two_nodes_of_h100_serve_the_whole_context_and_one_node_does_not() -> None:
    """https://github.com/vllm-project/recipes/pull/395, which served it with 0.18.0."""
    asked = {"max_model_len": 262_144, "mm_encoder_tp_mode": "data", "fabric": "infiniband"}
    two = plan("kimi-k2.5", "h100", nodes=2, tensor_parallel=8, pipeline_parallel=2, engine_version="0.18.0", **asked)
    assert two.verdict == "fits"
    assert "no_fast_fabric" not in warning_codes(two)
    one = plan("kimi-k2.5", "h100", **asked)
    assert one.verdict == "rejected"
    assert codes(one) == {"weights_do_not_fit"}
    assert one.max_context == 0


def test_m02_one_node_of_h100_is_refused_with_what_is_left() -> None:
    planned = plan("kimi-k2.5", "h100", max_model_len=262_144)
    assert "71.19 GiB of weights per GPU leave 1.7 of the 72.85 GiB" in texts(planned)
    assert "2 nodes of 8 H100" in texts(planned)


def test_m07_the_nested_latent_fields_are_read_and_not_64_heads() -> None:
    """https://github.com/ai-dynamo/aiconfigurator/pull/912: counted as heads, a token would cost six times as much."""
    planned = plan("kimi-k2.5", "b200")
    assert planned.per_gpu is not None
    assert planned.per_gpu.kv_bytes_per_token == 70_272


def test_m09_an_8b_model_fits_one_l4_and_not_its_whole_context() -> None:
    """https://github.com/vllm-project/vllm/issues/6689"""
    assert plan("llama-3.1-8b", "l4", gpus_per_node=1, max_model_len=1024).verdict == "fits"
    whole = plan("llama-3.1-8b", "l4", gpus_per_node=1, max_model_len=131_072)
    assert codes(whole) == {"context_does_not_fit"}
    assert "16.00 GiB" in texts(whole)
    assert whole.max_context is not None
    assert f"max_model_len {whole.max_context};" in texts(whole)


def test_m13_sparse_decode_scratch_is_warned_of_and_counted() -> None:
    """https://github.com/vllm-project/vllm/issues/53413: 8 GiB at 32,768 batched tokens."""
    asked = {"tensor_parallel": 8, "expert_parallel": True, "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.90}
    large = plan("glm-5-fp8", **asked, max_num_batched_tokens=32_768)
    assert large.verdict in ("fits", "tight")
    assert "sparse_decode_scratch" in warning_codes(large)
    assert any("8.0 GiB" in warning.message for warning in large.warnings)
    derived = plan("glm-5-fp8", "b200", kv_cache_dtype="fp8")
    assert derived.engine_args[derived.engine_args.index("--max-num-batched-tokens") + 1] == "8192"
    assert "sparse_decode_scratch" not in warning_codes(derived)


def test_m15_qwen3_235b_on_four_h100_holds_what_was_printed_and_not_262144() -> None:
    """https://github.com/vllm-project/vllm/issues/21348: 178,880 tokens in a release of mid-2025."""
    asked = {"gpus_per_node": 4, "engine_version": "0.9.2"}
    planned = plan("qwen3-235b-a22b-fp8", "h100", **asked)
    assert planned.verdict == "fits"
    assert planned.kv_tokens is not None
    assert planned.kv_tokens[0] <= 178_880 <= planned.kv_tokens[1]
    longer = plan("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "h100", **asked, max_model_len=262_144)
    assert codes(longer) == {"context_does_not_fit"}


def test_m17_an_attention_without_a_formula_is_unknown_and_has_no_numbers() -> None:
    """https://github.com/vllm-project/vllm/issues/51041"""
    planned = plan("kimi-k3", "b300")
    assert planned.verdict == "unknown"
    assert planned.kv_tokens is None
    assert planned.max_context is None


def test_m18_only_a_quarter_of_the_layers_of_a_hybrid_model_cost_per_token() -> None:
    """https://github.com/noonghunna/club-3090/issues/612"""
    planned = plan("qwen3.5-35b-a3b", "h100", gpus_per_node=1, kv_cache_dtype="fp8", available_kv_gib=5.98)
    assert planned.per_gpu is not None
    assert planned.per_gpu.kv_bytes_per_token == 10_240


def test_m21_minimax_on_two_large_gpus_holds_107_gib_of_weights_on_each() -> None:
    """https://github.com/vllm-project/recipes/pull/273 prints about 109 GB."""
    planned = plan("minimax-m2.5", "b200", gpus_per_node=2, max_model_len=196_608)
    assert planned.verdict == "fits"
    assert planned.per_gpu is not None
    assert planned.per_gpu.weights_gib == pytest.approx(107.28, abs=0.01)


def test_m23_kimi_k3_on_eight_gb200_is_refused_and_sixteen_are_left_open() -> None:
    """https://github.com/vllm-project/recipes/issues/934: 1,536 GB under a declared minimum of 1,680."""
    eight = plan("kimi-k3", "gb200", nodes=2, gpus_per_node=4)
    assert eight.verdict == "rejected"
    assert "weights_do_not_fit" in codes(eight)
    assert plan("kimi-k3", "gb200", nodes=4, gpus_per_node=4).verdict == "unknown"


def test_q01_experts_cut_to_192_are_refused_where_blocks_of_128_are_needed() -> None:
    """https://github.com/vllm-project/vllm/issues/17569"""
    planned = plan("qwen3-235b-a22b-fp8", "h100", tensor_parallel=8, engine_version="0.10.0")
    assert codes(planned) == {"expert_width_not_in_blocks"}
    for number in ("1536", "8", "192", "128"):
        assert number in texts(planned)
    assert "expert_parallel" in texts(planned)
    assert "tensor_parallel 4" in texts(planned)


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("0.10.0", "rejected"), ("0.20.2", "rejected"), ("0.25.0", "unknown"), ("0.33.0", "fits")],
)
def test_q01_says_unknown_between_a_release_that_fails_and_one_that_works(version: str, verdict: str) -> None:
    planned = plan("qwen3-235b-a22b-fp8", "h100", tensor_parallel=8, engine_version=version)
    assert planned.verdict == verdict
    if verdict == "fits":
        assert "expert_width_not_in_blocks" in warning_codes(planned)


def test_q02_minimax_is_refused_at_tp8_and_accepted_with_expert_parallel_or_tp4() -> None:
    """https://github.com/vllm-project/recipes/pull/96"""
    old = {"engine_version": "0.20.2"}
    assert codes(plan("minimax-m2.5", "h100", tensor_parallel=8, **old)) == {"expert_width_not_in_blocks"}
    spread = plan("minimax-m2.5", "h100", tensor_parallel=8, expert_parallel=True, **old)
    assert spread.verdict == "fits"
    assert "--enable-expert-parallel" in spread.engine_args
    assert plan("minimax-m2.5", "h100", gpus_per_node=4, **old).verdict == "fits"


def test_q04_a_shared_expert_of_64_is_refused_and_expert_parallel_is_no_way_out() -> None:
    """https://github.com/vllm-project/vllm/issues/52997"""
    planned = plan("qwen3.5-35b-a3b-fp8", "h100", tensor_parallel=8)
    assert "linear_width_not_in_blocks" in codes(planned)
    assert "tensor_parallel 4" in texts(planned)
    spread = plan("qwen3.5-35b-a3b-fp8", "h100", tensor_parallel=8, expert_parallel=True)
    assert "linear_width_not_in_blocks" in codes(spread)
    assert plan("qwen3.5-35b-a3b-fp8", "h100", tensor_parallel=4, gpus_per_node=4).verdict == "fits"


def test_q06_the_vision_encoders_heads_do_not_count() -> None:
    """https://github.com/gpustack/gpustack/issues/2642: Kimi-K2.5 has 16 heads in its vision encoder, and 64 others."""
    assert "heads_not_divisible" not in codes(plan("kimi-k2.5", "b300", nodes=4, tensor_parallel=32))
    refused = plan("kimi-k2.5", "b300", gpus_per_node=6, tensor_parallel=6)
    assert "64 attention heads" in texts(refused)


def test_q06_of_qwen_the_heads_of_the_linear_attention_count() -> None:
    """It has 16 heads in its vision encoder too; the 16 key heads of its linear attention are what 32 ranks cannot
    share (vLLM 0.33.0, mamba/gdn/qwen_gdn_linear_attn.py)."""
    assert codes(plan("qwen3.5-397b-a17b", "b300", nodes=2, tensor_parallel=16)) == set()
    refused = plan("qwen3.5-397b-a17b", "b300", nodes=4, tensor_parallel=32)
    assert codes(refused) == {"heads_not_divisible"}
    assert "16 key and 64 value heads of the linear attention" in texts(refused)


def test_q07_fp8_experts_on_ampere_are_refused_unless_the_release_has_a_weight_only_way() -> None:
    """https://github.com/vllm-project/vllm/issues/18182 and /54318"""
    asked = {"gpus_per_node": 4, "max_model_len": 32_768}
    old = plan("qwen3-235b-a22b-fp8", "a100-80gb", **asked, engine_version="0.8.5")
    assert "fp8_experts_without_fp8" in codes(old)
    between = plan("qwen3-235b-a22b-fp8", "a100-80gb", **asked, engine_version="0.20.0")
    assert between.verdict == "unknown"
    new = plan("qwen3-235b-a22b-fp8", "a100-80gb", **asked)
    assert new.verdict == "fits"
    assert "fp8_experts_without_fp8" in warning_codes(new)
    assert new.engine_args[new.engine_args.index("--moe-backend") + 1] == "marlin"


@pytest.mark.parametrize("checkpoint", ["glm-5", "glm-5-fp8", "glm-5-nvfp4"])
@pytest.mark.parametrize("gpu", ["a100-80gb", "a10g", "l40s"])
def test_q09_sparse_attention_has_no_backend_before_hopper_whatever_the_format(checkpoint: str, gpu: str) -> None:
    """https://github.com/zai-org/GLM-5/issues/13"""
    planned = plan(checkpoint, gpu, nodes=4)
    assert planned.verdict == "rejected"
    assert "no_attention_backend" in codes(planned)


@pytest.mark.parametrize("checkpoint", ["kimi-k2.5-nvfp4", "glm-5-nvfp4", "minimax-m2.5-nvfp4"])
def test_q10_nvfp4_on_hopper_is_decided_by_the_release(checkpoint: str) -> None:
    """https://github.com/ai-dynamo/aiconfigurator/pull/1392"""
    new = plan(checkpoint, "h200")
    assert new.verdict == "fits"
    assert "nvfp4_without_fp4" in warning_codes(new)
    old = plan(checkpoint, "h200", engine_version="0.20.2")
    assert "nvfp4_without_fp4" in codes(old)
    assert "nvfp4_without_fp4" not in warning_codes(plan(checkpoint, "b200"))


def test_q10_format_and_memory_are_judged_apart() -> None:
    planned = plan("nvidia/Kimi-K2.5-NVFP4", "h200", gpus_per_node=4)
    assert codes(planned) == {"weights_do_not_fit"}
    assert "nvfp4_without_fp4" in warning_codes(planned)


def test_q12_groups_of_128_do_not_divide_192() -> None:
    """https://github.com/vllm-project/vllm/issues/17604: starts, then fails on the first request."""
    planned = plan("Qwen/Qwen3-235B-A22B-GPTQ-Int4", "a100-40gb", tensor_parallel=8, engine_version="0.9.1")
    assert codes(planned) == {"expert_width_not_in_groups"}
    assert "192" in texts(planned)


def test_q14_a_model_newer_than_the_tables_is_said_to_be_so() -> None:
    """https://github.com/vllm-project/recipes/issues/698"""
    planned = plan("kimi-k3", nodes=2, tensor_parallel=8, pipeline_parallel=2)
    assert planned.verdict == "unknown"
    assert "does not know its Kimi delta attention" in texts(planned)


@pytest.mark.parametrize(
    ("driver", "masked"),
    [("580.95.05", "/usr/local/cuda-12.9/compat"), ("575.57.08", "/usr/local/cuda-12.9/compat"), ("550.54", None)],
)
def test_g01_baked_compatibility_libraries_are_hidden_from_a_driver_that_is_as_new(
    driver: str, masked: str | None
) -> None:
    """https://github.com/gpustack/gpustack/issues/4678"""
    planned = plan("kimi-k2.5", engine_version="0.15.1", driver=driver)
    assert planned.host.masked_directory == masked
    assert dict(planned.engine_env).get("VLLM_ENABLE_CUDA_COMPATIBILITY") is None


@pytest.mark.parametrize(("driver", "switched"), [("575.57.08", True), ("580", False), ("595.10", False)])
def test_g02_a_driver_older_than_the_image_gets_the_switch(driver: str, switched: bool) -> None:
    """https://github.com/vllm-project/vllm/pull/33992"""
    planned = plan("llama-3.1-8b", "a100-80gb", gpus_per_node=1, driver=driver)
    assert (dict(planned.engine_env).get("VLLM_ENABLE_CUDA_COMPATIBILITY") == "1") is switched
    assert planned.host.masked_directory is None


@pytest.mark.parametrize(
    ("version", "driver", "code"),
    [
        ("0.33.0", None, "driver_not_known"),
        ("0.25.0", "580", "image_cuda_not_known"),
        ("0.33.0", "1", "driver_not_known"),
    ],
)
def test_g01_an_unknown_image_or_driver_is_warned_of_and_nothing_is_changed(
    version: str, driver: str | None, code: str
) -> None:
    planned = plan("kimi-k2.5", engine_version=version, driver=driver)
    assert code in warning_codes(planned)
    assert planned.host.masked_directory is None
    assert planned.engine_env == ()


def test_d11_a_volume_of_600_gib_is_too_small_for_621_gb() -> None:
    """https://github.com/Mesh-LLM/mesh-llm/issues/311"""
    asked = {"engine": "llama.cpp", "include": ("Q4_K_M/*.gguf",), "keep_revisions": 1}
    planned = plan("unsloth/Kimi-K2.5-GGUF", **asked, volume_bytes=600 * 2**30)
    assert "disk_too_small" in codes(planned)
    assert planned.weights_bytes == 621_000_000_000
    assert plan("unsloth/Kimi-K2.5-GGUF", **asked, volume_bytes=700 * 10**9).verdict == "fits"


def test_the_first_articles_400_gib_volume_is_refused_with_the_numbers() -> None:
    planned = plan("kimi-k2.5", volume_bytes=400 * 2**30)
    assert "disk_too_small" in codes(planned)
    assert "429.5 GB" in texts(planned)
    assert "595.2 GB" in texts(planned)


def test_k03_and_k04_a_start_limit_below_the_load_is_said() -> None:
    assert "startup_limit_short" in warning_codes(plan("kimi-k2.5", startup_seconds=300))
    assert "startup_limit_short" not in warning_codes(plan("kimi-k2.5", startup_seconds=1800))
    assert time_limits(plan("kimi-k2.5")).engine_ready_seconds > (plan("kimi-k2.5").load_seconds or 0)


def test_k01_ranks_on_one_node_get_shared_memory_that_counts_in_the_limit() -> None:
    planned = plan("kimi-k2.5")
    assert planned.host.shared_memory_bytes == 16 * 2**30
    assert planned.host.memory_bytes is not None
    assert planned.host.memory_bytes > planned.host.shared_memory_bytes
    assert plan("llama-3.1-8b", "h100", gpus_per_node=1).host.shared_memory_bytes == 0
    assert "shared_memory_small" in warning_codes(plan("kimi-k2.5", shared_memory_bytes=64 * 2**20))


def test_k18_a_memory_limit_far_below_what_loading_needs_is_said() -> None:
    assert "host_memory_small" in warning_codes(plan("kimi-k2.5", host_memory_bytes=32 * 2**30))
    assert "host_memory_small" not in warning_codes(plan("kimi-k2.5", host_memory_bytes=256 * 2**30))
