"""Bytes per token and tokens, against formulas' published values and what logs print."""

import math
from dataclasses import replace
from typing import Any

import pytest

from config.catalogue import PublishedCache, ground_truth
from config.checkpoint.shape import read_shape
from engines.vllm.memory.attention_backend import Backend
from engines.vllm.memory.kv_cache import Pool, PoolRules, stage_pool
from planner.report.accuracy import predicted_tokens
from tests.unit.planner.asking import GIB, codes, plan, texts, warning_codes


@pytest.mark.parametrize(
    ("model", "gpu", "tp", "dtype", "expected"),
    [
        ("kimi-k2.5", "h200", 8, None, 70_272),
        ("kimi-k2.5", "h200", 8, "fp8", 35_136),
        ("kimi-k2.5", "h200", 8, "fp8_ds_mla", 40_016),
        ("glm-5-fp8", "h200", 8, None, 100_152),
        ("glm-5-fp8", "h200", 8, "fp8", 61_464),
        ("glm-5-fp8", "b200", 8, "fp8", 55_224),
        ("qwen3-235b-a22b", "h200", 1, None, 192_512),
        ("qwen3-235b-a22b", "h200", 4, None, 48_128),
        ("qwen3-235b-a22b", "h200", 8, None, 48_128),
        ("minimax-m2.5", "h200", 2, None, 126_976),
        ("minimax-m2.5", "h200", 8, "fp8", 15_872),
        ("llama-3.1-8b", "h100", 1, None, 131_072),
        ("qwen3.5-35b-a3b", "h200", 1, None, 20_480),
        ("qwen3.5-397b-a17b", "h200", 2, "fp8", 7_680),
    ],
)
def test_a_token_costs_what_the_formula_says(model: str, gpu: str, tp: int, dtype: str | None, expected: int) -> None:
    planned = plan(model, gpu, gpus_per_node=tp, kv_cache_dtype=dtype, available_kv_gib=40.0)
    assert planned.per_gpu is not None
    assert planned.per_gpu.kv_bytes_per_token == expected


@pytest.mark.parametrize("entry", ground_truth().caches, ids=lambda entry: entry.id)
def test_published_tokens_lie_within_the_rounding_of_the_published_bytes(entry: PublishedCache) -> None:
    low, high = (
        predicted_tokens(entry, entry.kv_gib + rounding) for rounding in (-entry.rounding_gib, entry.rounding_gib)
    )
    if entry.not_gated:
        assert abs(predicted_tokens(entry, entry.kv_gib) / entry.tokens - 1) < 0.015
    else:
        assert low <= entry.tokens <= high


def test_262144_tokens_of_kimi_cost_the_same_on_each_gpu_whatever_tensor_parallel_is() -> None:
    found = {tp: plan("kimi-k2.5", "b300", gpus_per_node=tp, max_model_len=262_144).per_gpu for tp in (4, 8)}
    assert all(per_gpu is not None and per_gpu.kv_bytes_per_token == 70_272 for per_gpu in found.values())
    assert pytest.approx(17.16, abs=0.005) == 70_272 * 262_144 / GIB


def test_only_decode_context_parallel_divides_a_latent_cache() -> None:
    asked = {"tensor_parallel": 8, "kv_cache_dtype": "bfloat16", "block_size": 64, "available_kv_gib": 46.80}
    assert plan("kimi-k2.5", **asked).kv_tokens == (715_072, 715_072)
    assert plan("kimi-k2.5", **asked, decode_context_parallel=8).kv_tokens == (5_720_576, 5_720_576)


def test_a_latent_pool_of_another_model_holds_what_its_engine_said() -> None:
    """M05: 17.39 GiB at 23,040 B per token, and the engine's limit of 810,208 tokens."""
    pool = Pool(16, 16 * 23_040, 1, 0, 23_040, 1)
    low, high = (pool.longest_request(pool.blocks(gib * GIB)) for gib in (17.385, 17.395))
    assert low <= 810_208 <= high


def test_minimax_on_two_gpus_needs_58_8_gib_for_497600_tokens() -> None:
    """M21, but for its MI300X: bytes per token and tokens."""
    planned = plan("minimax-m2.5", gpus_per_node=2, available_kv_gib=58.85, max_model_len=196_608)
    assert planned.per_gpu is not None
    assert planned.per_gpu.kv_bytes_per_token == 126_976
    assert planned.kv_tokens is not None
    assert planned.kv_tokens[0] == pytest.approx(497_600, rel=0.001)
    assert planned.verdict == "fits"


def test_prefix_caching_takes_a_second_state_per_group() -> None:
    asked = {"gpus_per_node": 1, "max_model_len": 131_072, "available_kv_gib": 18.64, "engine_version": "0.20.0"}
    cached = plan("qwen3.5-35b-a3b", "h100", **asked)
    uncached = plan("qwen3.5-35b-a3b", "h100", **asked, enable_prefix_caching=False)
    assert cached.kv_tokens == (925_508, 925_508)
    assert uncached.kv_tokens is not None
    # 125 growing blocks and three groups of states: 128 blocks per request instead of 131.
    assert uncached.kv_tokens[0] == int(925_508 * 131 / 128) + 1


def test_the_smallest_stage_sets_the_tokens() -> None:
    planned = plan("kimi-k2.5", "h100", nodes=2, tensor_parallel=8)
    first, last = planned.stages
    assert planned.kv_tokens is not None
    held = [(stage.kv_gib[0] + 0.005) * GIB / stage.kv_bytes_per_token for stage in (first, last)]
    assert held[1] - 1000 <= planned.kv_tokens[0] <= min(held)


def test_a_block_size_is_rounded_to_what_the_backend_takes() -> None:
    on_flashmla = plan("kimi-k2.5", kv_cache_dtype="fp8", block_size=16, available_kv_gib=10.0)
    assert on_flashmla.kv_tokens is not None
    assert on_flashmla.kv_tokens[0] % 64 == 0
    assert on_flashmla.engine_args[on_flashmla.engine_args.index("--block-size") + 1] == "64"
    assert "block_size_rounded" in warning_codes(on_flashmla)
    asked_for = plan("kimi-k2.5", kv_cache_dtype="fp8", block_size=128, available_kv_gib=10.0)
    assert "block_size_rounded" not in warning_codes(asked_for)


def test_an_unknown_cache_type_is_refused_with_the_ones_that_exist() -> None:
    planned = plan("kimi-k2.5", kv_cache_dtype="fp9")
    assert planned.verdict == "rejected"
    assert codes(planned) == {"cache_type_not_known"}
    assert "fp8" in texts(planned)


def test_a_cache_type_without_a_formula_leaves_the_verdict_open() -> None:
    planned = plan("llama-3.1-8b", kv_cache_dtype="turboquant_4bit_nc")
    assert planned.verdict == "unknown"
    assert planned.kv_tokens is None


@pytest.mark.parametrize(
    ("growing", "sliding", "groups", "fixed"), [(3, 15, 1, 5), (12, 12, 1, 1), (12, 14, 1, 1), (10, 20, 1, 2)]
)
def test_layers_with_a_window_take_a_fixed_number_of_blocks(
    growing: int, sliding: int, groups: int, fixed: int
) -> None:
    kinds = ["full_attention"] * growing + ["sliding_attention"] * sliding
    config = {"num_hidden_layers": len(kinds), "hidden_size": 640, "vocab_size": 1000, "num_attention_heads": 4}
    shape = read_shape(
        {**config, "num_key_value_heads": 1, "head_dim": 256, "layer_types": kinds, "sliding_window": 512}
    )
    backend = Backend("FLASH_ATTN", 16)
    pool = stage_pool(
        shape, range(shape.layers), dtype="auto", tp=1, dcp=1, backend=backend, block=16, tokens_in_flight=2048,
        prefix_caching=True, rules=PoolRules(1.25, batches_in_flight=False, prefill_checkpoints=False),
    )  # fmt: skip
    per_window = math.ceil((511 + 2048) / 16) + 1
    assert (pool.growing_groups, pool.fixed_blocks) == (groups, fixed * per_window)
    # The shortest context takes its windows and one block; a long one grows by its full layers alone.
    assert pool.blocks_of_request(16) == groups + pool.fixed_blocks
    assert pool.blocks_of_request(160_000) == 10_000 * groups + pool.fixed_blocks


def test_a_pool_of_alike_layers_is_a_capacity() -> None:
    pool = Pool(16, 16 * 100, 1, 0, 100, 1)
    assert pool.uniform
    assert pool.reported_tokens(10, 7) == 160
    assert not replace(pool, fixed_blocks=1).uniform


@pytest.mark.parametrize(
    ("model", "settings", "printed"),
    [
        (
            "minimax-m2.5",
            {"gpus_per_node": 4, "available_kv_gib": 18.16, "max_model_len": 128_000, "max_num_seqs": 10},
            2.4,
        ),
        (
            "qwen3.5-35b-a3b",
            {"gpus_per_node": 1, "available_kv_gib": 18.64, "max_model_len": 131_072, "engine_version": "0.20.0"},
            7.06,
        ),
    ],
)
def test_the_maximum_concurrency_is_the_one_that_logs_print(
    model: str, settings: dict[str, Any], printed: float
) -> None:
    """Logs `h` and `k` of config/data/ground_truth.json: cache, context and 'Maximum concurrency'."""
    planned = plan(model, "h100", **settings)
    assert planned.context == settings["max_model_len"]
    assert planned.max_concurrency == pytest.approx((printed, printed), rel=0.005)


def test_half_the_context_is_served_to_twice_as_many() -> None:
    whole, half = plan("kimi-k2.5", max_model_len=262_144), plan("kimi-k2.5", max_model_len=131_072)
    assert (whole.context, half.context) == (262_144, 131_072)
    assert whole.max_concurrency is not None
    assert half.max_concurrency == pytest.approx([2 * requests for requests in whole.max_concurrency], rel=0.01)
    assert whole.max_context == half.max_context
