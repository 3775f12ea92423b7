"""Verdicts on the requests that the project promises to judge, and the faults of a request."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.catalogue import find_gpu, gpu
from config.checkpoint.quantization import FP8_BLOCK, read_quantization
from planner import FitRequest, fit
from tests.unit.planner.asking import codes, plan, texts, warning_codes


def test_kimi_on_four_h200_is_refused_with_both_numbers_and_eight_are_offered() -> None:
    planned = plan("kimi-k2.5", "h200", nodes=1, gpus_per_node=4)
    assert planned.verdict == "rejected"
    assert "140.2 GiB of weights per GPU, and H200 has 139.8 GiB in all" in texts(planned)
    assert "8 H200" in texts(planned)
    assert "max_model_len" not in texts(planned), "no flag can help"


def test_kimi_on_eight_h200_fits_at_its_whole_context() -> None:
    planned = plan("kimi-k2.5", "h200", max_model_len=262_144)
    assert planned.verdict == "fits"
    assert planned.max_context == 262_144


def test_the_nvfp4_checkpoint_fits_four_b200() -> None:
    planned = plan("nvidia/Kimi-K2.5-NVFP4", "b200", gpus_per_node=4)
    assert planned.verdict == "fits"
    assert dict(planned.engine_env) == {"VLLM_USE_FLASHINFER_MOE_FP4": "1"}
    assert planned.engine_args[planned.engine_args.index("--kv-cache-dtype") + 1] == "fp8"


def test_a_quantization_that_contradicts_the_checkpoint_is_refused() -> None:
    planned = plan("kimi-k2.5", quantization="fp8")
    assert codes(planned) == {"quantization_contradicts_checkpoint"}
    assert "compressed-tensors" in texts(planned)
    assert codes(plan("kimi-k2.5", quantization="int8")) == {"quantization_contradicts_checkpoint"}
    assert plan("kimi-k2.5", quantization="compressed-tensors").verdict == "fits"


def test_an_unquantised_checkpoint_may_be_turned_into_fp8_while_loading() -> None:
    """Llama-3.1-8B takes 8.49 GiB then (llm-d-planner accuracy report, vLLM 0.19.0)."""
    planned = plan("llama-3.1-8b", "h100", gpus_per_node=1, quantization="fp8")
    assert planned.per_gpu is not None
    assert planned.per_gpu.weights_gib == pytest.approx(8.49, rel=0.01)


def test_tight_means_that_only_the_likely_end_fits() -> None:
    tokens = plan("llama-3.1-8b", "l4", gpus_per_node=1).kv_tokens
    assert tokens is not None
    worst, likely = tokens
    assert plan("llama-3.1-8b", "l4", gpus_per_node=1, max_model_len=worst).verdict == "fits"
    assert plan("llama-3.1-8b", "l4", gpus_per_node=1, max_model_len=worst + 16).verdict == "tight"
    assert plan("llama-3.1-8b", "l4", gpus_per_node=1, max_model_len=likely).verdict == "tight"
    assert plan("llama-3.1-8b", "l4", gpus_per_node=1, max_model_len=likely + 16).verdict == "rejected"


def test_a_budget_that_leaves_nothing_for_the_cuda_context_is_refused() -> None:
    """vLLM compares it with the memory that is free after its CUDA context is made (request_memory, 0.33.0)."""
    planned = plan("llama-3.1-8b", "h200", gpus_per_node=1, gpu_memory_utilization=1.0)
    assert (planned.verdict, codes(planned)) == ("rejected", {"no_memory_beside_budget"})
    assert "Set it to 0.98 or less" in texts(planned)
    close = plan("llama-3.1-8b", "h200", gpus_per_node=1, gpu_memory_utilization=0.995)
    assert (close.verdict, "little_memory_beside_budget" in warning_codes(close)) == ("fits", True)
    assert "little_memory_beside_budget" not in warning_codes(plan("llama-3.1-8b", "h200", gpus_per_node=1))


def test_a_context_beyond_the_model_is_refused() -> None:
    planned = plan("qwen3-235b-a22b", max_model_len=100_000)
    assert codes(planned) == {"context_beyond_model"}
    assert "40,960" in texts(planned)


def test_an_unset_context_is_the_longest_that_fits_and_that_is_said() -> None:
    planned = plan("llama-3.1-8b", "l4", gpus_per_node=1)
    assert planned.verdict == "fits"
    assert "context_shortened" in warning_codes(planned)
    assert planned.engine_args[planned.engine_args.index("--max-model-len") + 1] == str(planned.max_context)


def test_every_reason_comes_at_once() -> None:
    planned = plan(
        "kimi-k2.5", gpus_per_node=4, quantization="fp8", volume_bytes=10**9, extra_args=("--swap-space", "4")
    )
    assert codes(planned) == {
        "weights_do_not_fit",
        "quantization_contradicts_checkpoint",
        "disk_too_small",
        "argument_gone",
    }


def test_values_that_mean_nothing_come_at_once_with_key_value_and_expectation() -> None:
    planned = plan("kimi-k2.5", "h200", nodes=0, gpu_memory_utilization=2.0, engine_version="new")
    assert planned.verdict == "rejected"
    assert codes(planned) == {"value_not_valid"}
    for words in ("nodes: 0", "2.0", "'new'"):
        assert words in texts(planned)


def test_a_model_that_is_not_known_has_no_verdict_but_its_bytes_and_durations() -> None:
    planned = plan("acme/tiny", weights_bytes=5 * 10**9, gpus_per_node=2)
    assert planned.verdict == "unknown"
    assert codes(planned) == {"model_not_in_catalogue"}
    assert planned.weights_bytes == 5 * 10**9
    assert planned.disk_bytes == 2 * 5 * 10**9 + 5 * 10**8
    assert planned.download_seconds == 20.0
    assert planned.engine_args == ("--tensor-parallel-size", "2")


def test_a_checkpoint_whose_quantisation_was_not_seen_is_unknown() -> None:
    planned = plan("qwen3.5-35b-a3b-gptq-int4", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert planned.per_gpu is None or planned.per_gpu.weights_gib is None


def test_a_gpu_whose_memory_is_not_known_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    unmeasured = replace(find_gpu("h100-pcie"), torch_gib=None, derived=None)
    monkeypatch.setitem(gpu._gpus_by_name(), "h100-pcie", unmeasured)
    assert codes(plan("llama-3.1-8b", "h100-pcie", gpus_per_node=1)) == {"gpu_memory_not_known"}


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"tensor_parallel": 6, "gpus_per_node": 6}, "heads_not_divisible"),
        ({"tensor_parallel": 16}, "layout_exceeds_gpus"),
        ({"tensor_parallel": 8, "decode_context_parallel": 3}, "context_parallel_not_divisor"),
    ],
)
def test_a_layout_that_cannot_be_is_refused(settings: dict[str, int], code: str) -> None:
    assert code in codes(plan("kimi-k2.5", **settings))


@pytest.mark.parametrize(
    ("model", "settings", "code"),
    [
        ("qwen3-235b-a22b", {}, "shared_prompts_without_latent_attention"),
        ("kimi-k2.5", {}, "shared_prompts_with_images"),
        ("deepseek-r1", {"decode_context_parallel": 2}, "both_context_parallel"),
        ("deepseek-v3.2", {"decode_context_parallel": 2}, "both_context_parallel_not_known"),
        ("deepseek-r1", {"engine_version": "0.20.2"}, "setting_not_known"),
    ],
)
def test_what_cannot_share_prompts_between_ranks_is_named(model: str, settings: dict[str, Any], code: str) -> None:
    asked = plan(model, tensor_parallel=4, prefill_context_parallel=2, **settings)
    assert code in codes(asked)
    assert asked.verdict == ("unknown" if code.endswith("not_known") else "rejected")


def test_ranks_that_share_prompts_take_gpus_and_cut_experts_only() -> None:
    """As vLLM's own code holds them: 81.88 GiB a GPU (tests/data/oracle)."""
    shared = plan("deepseek-r1", tensor_parallel=4, prefill_context_parallel=2)
    assert shared.verdict == "fits"
    assert shared.layout.gpus == 8
    assert shared.per_gpu is not None
    assert shared.per_gpu.weights_gib == pytest.approx(81.88, abs=0.1)
    assert shared.engine_args[:4] == ("--tensor-parallel-size", "4", "--prefill-context-parallel-size", "2")


def test_grouped_attention_limits_decode_context_parallel() -> None:
    refused = plan("qwen3-235b-a22b", tensor_parallel=8, decode_context_parallel=4)
    assert codes(refused) == {"context_parallel_too_wide"}
    assert plan("qwen3-235b-a22b", tensor_parallel=8, decode_context_parallel=2).verdict == "fits"


def test_idle_gpus_and_a_slow_fabric_are_said() -> None:
    assert "idle_gpus" in warning_codes(plan("llama-3.1-8b", "h100", tensor_parallel=1, gpus_per_node=8))
    assert "no_fast_fabric" in warning_codes(plan("kimi-k2.5", "h100", nodes=2))
    assert "tensor_parallel_across_nodes" in warning_codes(
        plan("kimi-k2.5", "h100", nodes=2, tensor_parallel=16, fabric="efa")
    )


def test_an_engine_older_than_the_model_is_refused_and_one_older_than_the_recipe_warned_of() -> None:
    assert "engine_too_old" in codes(plan("kimi-k2.5", engine_version="0.11.0"))
    assert "engine_older_than_recipe" in warning_codes(plan("kimi-k2.5", engine_version="0.18.0"))


def test_bytes_of_a_lock_replace_those_of_the_catalogue() -> None:
    planned = plan("kimi-k2.5", weights_bytes=600 * 10**9)
    assert planned.weights_bytes == 600 * 10**9
    assert planned.disk_bytes == 1260 * 10**9


def test_cost_is_a_stated_rate_or_a_dated_price() -> None:
    assert plan("kimi-k2.5", usd_per_gpu_hour=2.5).cost_per_hour_usd == 20.0
    assert plan("kimi-k2.5", instance_type="p5en.48xlarge").cost_per_hour_usd == 63.296
    assert plan("kimi-k2.5", instance_type="p5en.48xlarge", usd_per_gpu_hour=1).cost_per_hour_usd == 8.0
    assert plan("kimi-k2.5").cost_per_hour_usd is None
    assert plan("kimi-k2.5", instance_type="p5e.48xlarge").cost_per_hour_usd is None


def test_the_plan_has_exactly_the_documented_keys() -> None:
    planned = plan("kimi-k2.5").as_dict()
    assert list(planned) == [
        "verdict", "problems", "warnings", "layout", "pods", "per_gpu", "kv_tokens", "context",
        "max_concurrency", "max_context", "weights_bytes", "disk_bytes", "download_seconds", "load_seconds",
        "cost_per_hour_usd", "cost_parts", "speed", "engine_args", "engine_env",
    ]  # fmt: skip
    assert list(planned["speed"]) == ["prompt_tokens", "answer_tokens", "bound", "likely", "why_no_likely_range"]
    assert list(planned["pods"]) == ["gpus_per_pod", "pods_per_server", "nodes_per_server"]
    assert list(planned["layout"]) == ["tp", "pp", "dp", "pcp", "ep", "dcp"]
    assert list(planned["per_gpu"]) == ["budget_gib", "weights_gib", "overhead_gib", "kv_gib", "kv_bytes_per_token"]
    assert list(plan("kimi-k2.5", gpus_per_node=4).as_dict()["problems"][0]) == ["code", "message", "fix"]
    assert list(planned["warnings"][0]) == ["code", "message"]


def test_a_plan_is_the_same_each_time() -> None:
    request = FitRequest(model="glm-5-fp8", gpu="h200")
    assert fit(request) == fit(request)


@pytest.mark.parametrize(
    ("model", "tp", "refused"),
    [
        # 8 key-value heads of 48 (vLLM 0.33.0, models/minimax_m2.py).
        ("minimax-m2.5", 3, True),
        ("minimax-m2.5", 6, True),
        ("minimax-m2.5", 4, False),
        ("minimax-m2.5", 16, False),
        # 16 key and 64 value heads of the linear attention.
        ("qwen3.5-397b-a17b", 32, True),
        ("qwen3.5-397b-a17b", 8, False),
    ],
)
def test_heads_that_tensor_parallelism_cannot_share_evenly_are_refused(model: str, tp: int, refused: bool) -> None:
    planned = plan(model, "b300", gpus_per_node=tp, tensor_parallel=tp)
    assert ("heads_not_divisible" in codes(planned)) == refused
    assert not refused or "Use one of 1, 2" in texts(planned)


def test_no_suggestion_has_heads_that_cannot_be_shared() -> None:
    assert "3 H200" not in texts(plan("minimax-m2.5", "h100", gpus_per_node=3))


def test_a_batch_below_the_sequences_is_refused_and_the_default_of_the_sequences_yields() -> None:
    planned = plan("kimi-k2.5", max_num_batched_tokens=512, max_num_seqs=1024)
    assert codes(planned) == {"batch_below_sequences"}
    assert "max_num_batched_tokens to 1024" in texts(planned)
    assert plan("kimi-k2.5", max_num_batched_tokens=512, max_num_seqs=512).verdict == "fits"
    assert plan("kimi-k2.5", max_num_batched_tokens=512).verdict == "fits"


@pytest.mark.parametrize(
    ("model", "gpu", "dtype", "refused"),
    [
        ("kimi-k2.5", "h200", "fp8_inc", True),
        ("kimi-k2.5", "h200", "fp8_e5m2", True),
        ("kimi-k2.5", "h200", "fp8_ds_mla", True),
        ("kimi-k2.5", "h200", "fp8_e4m3", False),
        ("glm-5-fp8", "h200", "nvfp4_ds_mla", True),
        ("glm-5-fp8", "h200", "fp8_ds_mla", False),
        ("glm-5-fp8", "b200", "nvfp4_ds_mla", False),
        ("llama-3.1-8b", "h200", "fp8_e5m2", False),
        ("llama-3.1-8b", "h200", "fp8_inc", True),
        ("llama-3.1-8b", "h200", "fp8_ds_mla", True),
        ("llama-3.1-8b", "h200", "octave_k3v4", True),
    ],
)
def test_a_cache_type_that_no_backend_takes_is_refused(model: str, gpu: str, dtype: str, refused: bool) -> None:
    """As `supported_kv_cache_dtypes` of vLLM 0.33.0's backends has it."""
    planned = plan(model, gpu, kv_cache_dtype=dtype)
    assert ("cache_type_not_taken" in codes(planned)) == refused
    assert not refused or "Expected auto, float16, bfloat16, fp8, " in texts(planned)


def test_what_the_engine_does_while_loading_changes_no_byte_of_the_volume() -> None:
    stored = plan("qwen3-235b-a22b-2507", gpus_per_node=4)
    loaded = plan("qwen3-235b-a22b-2507", gpus_per_node=4, quantization="fp8")
    assert stored.weights_bytes is not None
    # 235.09 billion parameters of 2 bytes.
    assert stored.weights_bytes == pytest.approx(470.2e9, rel=0.001)
    assert (loaded.weights_bytes, loaded.disk_bytes) == (stored.weights_bytes, stored.disk_bytes)
    text = plan("kimi-k2.5", language_model_only=True)
    assert text.weights_bytes == plan("kimi-k2.5").weights_bytes


def test_a_dense_network_that_is_cut_within_its_groups_is_refused(tmp_path: Path) -> None:
    """Qwen2-72B-AWQ: 29,568 / 2 = 14,784 is no multiple of 128."""
    awq = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
    config = {**_QWEN_72B, "quantization_config": awq}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert "linear_width_not_in_groups" in codes(plan(str(tmp_path), "a100-80gb", gpus_per_node=2))
    assert "linear_width_not_in_groups" not in codes(plan(str(tmp_path), "a100-80gb", gpus_per_node=1))


def test_block_fp8_is_known_by_either_way_of_declaring_it() -> None:
    weights = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
    declared = {"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"]}}}
    declared["config_groups"]["group_0"]["weights"] = weights  # type: ignore[index]
    assert read_quantization(declared).scheme("model.layers.0.mlp.gate_proj") is FP8_BLOCK
    weights["block_structure"] = [64, 64]
    assert read_quantization(declared).unknown


_QWEN_72B = {
    "model_type": "qwen2",
    "hidden_size": 8192,
    "intermediate_size": 29_568,
    "max_position_embeddings": 32_768,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "vocab_size": 152_064,
}
