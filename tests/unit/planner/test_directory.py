"""Models that are read from a directory."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from config.catalogue import models
from config.checkpoint.config_fields import config_faults
from config.checkpoint.directory import DirectoryError, read_directory
from config.checkpoint.gguf_header import GgufError, read_gguf
from config.checkpoint.model_spec import find_model
from config.checkpoint.quantization import read_quantization
from config.checkpoint.shape import read_shape
from config.checkpoint.tensors import derived_groups
from tests.unit.planner.asking import codes, plan, texts, warning_codes
from tests.unit.planner.checkpoints import LLAMA, write_gguf, write_llama, write_safetensors


def test_headers_give_the_same_bytes_as_the_derivation(tmp_path: Path) -> None:
    model = find_model(str(write_llama(tmp_path)))
    assert model.measured
    derived = derived_groups(read_shape(LLAMA), read_quantization(None))
    assert sum(group.bytes for group in model.groups) == sum(group.bytes for group in derived)
    assert sum(group.parameters for group in model.groups) == sum(group.parameters for group in derived)

    def by_sharding(groups: object) -> dict[str, int]:
        sums: dict[str, int] = {}
        for group in groups:  # type: ignore[attr-defined]
            sums[group.sharding] = sums.get(group.sharding, 0) + group.bytes
        return sums

    assert by_sharding(model.groups) == by_sharding(derived)


def test_a_directory_is_planned(tmp_path: Path) -> None:
    planned = plan(str(write_llama(tmp_path)), "l4", gpus_per_node=1)
    assert planned.verdict == "fits"
    assert planned.max_context == 4096
    assert planned.per_gpu is not None
    # 2 layers x 2 (keys, values) x 2 heads x 16 x 2 bytes.
    assert planned.per_gpu.kv_bytes_per_token == 256
    assert planned.weights_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())


def test_an_unknown_model_type_is_planned_from_its_headers_and_not_without_them(tmp_path: Path) -> None:
    config = {**LLAMA, "model_type": "newer"}
    planned = plan(str(write_llama(tmp_path / "with", config)), "l4", gpus_per_node=1)
    assert planned.verdict == "fits"
    assert "model_type_not_checked" in warning_codes(planned)
    (tmp_path / "without").mkdir()
    (tmp_path / "without" / "config.json").write_text(json.dumps(config))
    planned = plan(str(tmp_path / "without"), "l4", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert "'newer'" in texts(planned)


@pytest.mark.parametrize(
    "field",
    [
        {"compress_ratios": [4, 8]},
        {"attention_chunk_size": 8192},
        {"layer_types": ["full_attention", "conv"]},
        {"index_topk": 2048},
        {"attn_type_list": [0, 1]},
        {"num_attention_heads": None},
    ],
)
def test_an_attention_that_is_not_known_is_said(tmp_path: Path, field: dict[str, object]) -> None:
    planned = plan(str(write_llama(tmp_path, {**LLAMA, **field})), "l4", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert codes(planned) == {"model_not_known"}
    assert planned.kv_tokens is None


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"num_hidden_layers": "two"}, "num_hidden_layers is 'two': expected a whole number from 0 to 10,000"),
        ({"vocab_size": float("nan")}, "vocab_size is nan: expected a whole number"),
        ({"hidden_size": True}, "hidden_size is True"),
        ({"num_key_value_heads": -1}, "num_key_value_heads is -1"),
        ({"max_position_embeddings": 10**30}, "expected a whole number from 0 to 100,000,000"),
        ({"layer_types": "full_attention"}, "layer_types is 'full_attention': expected a list of names"),
        ({"architectures": 3.5}, "architectures is 3.5: expected a list of names"),
        ({"decoder_sparse_step": [1, 2]}, "decoder_sparse_step is [1, 2]: expected a whole number"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries: expected one for each of the 2 layers"),
        ({"kv_lora_rank": 512}, "qk_nope_head_dim, qk_rope_head_dim, v_head_dim missing"),
        ({"text_config": [1]}, "text_config is [1]: expected an object"),
        ({"vision_config": {"vt_num_hidden_layers": 27}}, "init_pos_emb_width missing"),
        ({"num_attention_heads": 1000, "head_dim": None}, "expected at least one for each head"),
        ({"quantization_config": {"quant_method": "gptq", "group_size": 10**12}}, "has the number 1000000000000"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": ["re:("]}}, "quantization_config cannot be read"),
        ({"quantization_config": {"quant_method": "fp8", "ignore": 7}}, "quantization_config cannot be read"),
    ],
)
def test_a_field_that_means_nothing_is_named_with_what_was_expected(
    tmp_path: Path, field: dict[str, object], sentence: str
) -> None:
    planned = plan(str(write_llama(tmp_path, {**LLAMA, **field})), "l4", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert codes(planned) == {"directory_not_readable"}
    assert sentence in texts(planned)


def test_all_fields_that_mean_nothing_come_at_once(tmp_path: Path) -> None:
    planned = plan(str(write_llama(tmp_path, {**LLAMA, "hidden_size": "a", "vocab_size": 1.5})), "l4")
    assert "hidden_size is 'a'" in texts(planned)
    assert "vocab_size is 1.5" in texts(planned)


def test_every_configuration_of_the_catalogue_passes_the_check() -> None:
    assert {model.name: config_faults(model.config) for model in models()} == {model.name: () for model in models()}


def test_a_quantisation_that_is_not_known_is_said(tmp_path: Path) -> None:
    config = {**LLAMA, "quantization_config": {"quant_method": "aqlm"}}
    planned = plan(str(write_llama(tmp_path, config)), "l4", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert "'aqlm'" in texts(planned)


NVFP4_FILE = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}


def write_modelopt(directory: Path, declared: dict[str, Any]) -> Path:
    (directory / "config.json").write_text(json.dumps(LLAMA))
    (directory / "hf_quant_config.json").write_text(json.dumps(declared))
    return directory


def test_a_quantisation_file_without_a_producer_is_not_read_as_by_vllm_and_a_warning_says_so(tmp_path: Path) -> None:
    directory = str(write_modelopt(tmp_path, NVFP4_FILE))
    assert "quantization_file_not_read" in warning_codes(plan(directory, "h100", gpus_per_node=1))
    assert {group.dtype for group in find_model(directory).groups} == {"bf16"}


def test_a_quantisation_file_may_list_every_module(tmp_path: Path) -> None:
    mixed = {
        f"model.layers.{layer}.mlp.{name}_proj": {"quant_algo": "FP8"} for layer in range(2) for name in ("up", "down")
    }
    declared = {"quant_algo": "MIXED_PRECISION", "quantized_layers": mixed}
    model = find_model(str(write_modelopt(tmp_path, {"producer": {"name": "modelopt"}, "quantization": declared})))
    assert {group.dtype for group in model.groups if group.group == "dense_mlp"} == {"fp8", "bf16"}
    odd = {"quant_algo": "MIXED_PRECISION", "quantized_layers": {"model.layers.0.mlp.up_proj": {"quant_algo": "MXFP8"}}}
    write_modelopt(tmp_path, {"producer": {"name": "modelopt"}, "quantization": odd})
    assert find_model(str(tmp_path)).unknown == ("its quantisation: the algorithms MXFP8",)


def test_modelopts_own_file_is_read_for_the_quantisation(tmp_path: Path) -> None:
    write_modelopt(tmp_path, {"producer": {"name": "modelopt"}, **NVFP4_FILE})
    model = find_model(str(tmp_path))
    assert model.quantization.method == "modelopt"
    assert model.quantization.kv_cache_fp8
    assert {group.dtype for group in model.groups if group.group == "dense_mlp"} == {"nvfp4 g16"}
    assert "nvfp4_without_fp4" in warning_codes(plan(str(tmp_path), "h100", gpus_per_node=1))


def test_the_index_states_the_size_where_the_files_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 123_456}}))
    assert plan(str(tmp_path), "l4", gpus_per_node=1).weights_bytes == 123_456


@pytest.mark.parametrize("content", ["not json", "[]", "{}"])
def test_a_directory_that_cannot_be_read_is_no_traceback(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    assert plan(str(tmp_path), "l4").verdict == "unknown"


def test_an_empty_directory_is_refused_with_what_was_expected(tmp_path: Path) -> None:
    with pytest.raises(DirectoryError, match=r"neither config\.json nor a \.gguf file"):
        read_directory(tmp_path)


def test_packed_weights_count_as_what_they_stand_for(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    write_safetensors(
        tmp_path / "model.safetensors",
        {
            "model.layers.0.mlp.gate_proj.weight_packed": ("I32", [128, 8]),
            "model.layers.0.mlp.gate_proj.weight_scale": ("BF16", [128, 2]),
            "model.layers.1.mlp.gate_proj.weight": ("U8", [128, 32]),
            "model.layers.2.mlp.gate_proj.weight": ("BF16", [128, 64]),
        },
    )
    found = {(group.dtype, str(group.place)): group for group in find_model(str(tmp_path)).groups}
    assert found["I32", "layers"].parameters == 128 * 64
    assert found["BF16", "layers"].parameters == 0
    assert found["U8", "layers"].parameters == 128 * 64
    assert found["BF16", "mtp"].bytes == 128 * 64 * 2, "a layer beyond the last is for multi-token prediction"


def test_a_gguf_directory_is_planned_for_llama_cpp(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny-q4_k_m.gguf")
    planned = plan(str(tmp_path), "l4", engine="llama.cpp", gpus_per_node=1)
    assert planned.verdict == "fits"
    assert planned.max_context == 4096
    assert planned.per_gpu is not None
    # 2 layers of 3 (the output counts as one) hold 2 x 2 x 2 heads x 64 x 2 bytes in all.
    assert planned.per_gpu.kv_bytes_per_token == 1024


def test_gguf_metadata_is_read(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf")
    with (tmp_path / "tiny.gguf").open("rb") as file:
        header = read_gguf(file)
    assert header.config()["vocab_size"] == 512


def test_a_latent_gguf_says_so_by_its_own_key_length(tmp_path: Path) -> None:
    fields = {
        "attention.kv_lora_rank": 512, "attention.key_length_mla": 192, "attention.value_length_mla": 128,
        "rope.dimension_count": 64, "attention.key_length": 576, "attention.value_length": 512,
    }  # fmt: skip
    write_gguf(tmp_path / "new.gguf", architecture="deepseek2", fields=fields)
    with (tmp_path / "new.gguf").open("rb") as file:
        assert read_gguf(file).config()["kv_lora_rank"] == 512
    older = {"attention.kv_lora_rank": 512, "attention.key_length": 192, "attention.value_length": 128}
    write_gguf(tmp_path / "old.gguf", architecture="deepseek2", fields=older)
    with (tmp_path / "old.gguf").open("rb") as file:
        config = read_gguf(file).config()
    assert "kv_lora_rank" not in config
    assert config["head_dim"] == 160


def test_missing_gguf_shards_are_named(tmp_path: Path) -> None:
    for number in (1, 3):
        write_gguf(tmp_path / f"m-{number:05}-of-00003.gguf")
    with pytest.raises(DirectoryError, match=r"2 of 3 GGUF shards: \[2\] are missing"):
        read_directory(tmp_path)


@pytest.mark.parametrize(
    "content", [b"GGML", b"GGUF" + struct.pack("<IQQ", 9, 0, 0), b"GGUF" + struct.pack("<IQQ", 3, 1, 1) + b"\x05"]
)
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(content)
    with (tmp_path / "x.gguf").open("rb") as file, pytest.raises(GgufError):
        read_gguf(file)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**60), "a field of 1,152,921,504,606,846,976 bytes"),
        (struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, 1), "array of arrays"),
    ],
)
def test_a_length_that_was_spoiled_is_refused_before_it_is_read(tmp_path: Path, body: bytes, sentence: str) -> None:
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + body)
    with pytest.raises(DirectoryError, match=sentence):
        read_directory(tmp_path)


def test_a_safetensors_header_longer_than_the_format_allows_is_refused(tmp_path: Path) -> None:
    write_llama(tmp_path)
    (tmp_path / "model-00001-of-00002.safetensors").write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(DirectoryError, match="expected at most 100,000,000"):
        read_directory(tmp_path)


def test_gguf_files_lie_side_by_side_or_in_a_folder_for_each_quantisation(tmp_path: Path) -> None:
    (tmp_path / "Q4" / "deep").mkdir(parents=True)
    write_gguf(tmp_path / "Q4" / "deep" / "m.gguf")
    with pytest.raises(DirectoryError, match="neither config"):
        read_directory(tmp_path)
    write_gguf(tmp_path / "Q4" / "m.gguf")
    assert find_model(str(tmp_path)).is_gguf


def test_a_partial_download_is_refused_with_the_files_that_are_missing(tmp_path: Path) -> None:
    write_llama(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(
        DirectoryError, match=r"1 of 2 safetensors files: model-00002-of-00002\.safetensors are missing"
    ):
        read_directory(tmp_path)
    names = [f"part-{letter}.safetensors" for letter in "abc"]
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {n: n for n in names}}))
    write_safetensors(tmp_path / names[1], {})
    with pytest.raises(DirectoryError, match=r"1 of 3 .*: part-a\.safetensors, part-c\.safetensors are missing"):
        read_directory(tmp_path)


def test_a_file_that_ends_early_is_refused(tmp_path: Path) -> None:
    write_llama(tmp_path)
    last = tmp_path / "model-00002-of-00002.safetensors"
    with last.open("r+b") as file:
        file.truncate(last.stat().st_size - 1)
    with pytest.raises(DirectoryError, match="ends early"):
        read_directory(tmp_path)


def test_a_second_copy_of_the_weights_is_not_counted(tmp_path: Path) -> None:
    once = sum(group.bytes for group in find_model(str(write_llama(tmp_path / "once"))).groups)
    write_llama(tmp_path / "twice")
    write_safetensors(
        tmp_path / "twice" / "consolidated.safetensors", {"layers.0.attention.wq.weight": ("BF16", [64, 64])}
    )
    assert sum(group.bytes for group in find_model(str(tmp_path / "twice")).groups) == once


def test_tensors_whose_sharding_is_not_known_are_named(tmp_path: Path) -> None:
    """InternLM2 and Falcon call their tensors otherwise; whole on every rank, they would be counted eight times."""
    config = {**LLAMA, "model_type": "internlm2"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    tensors = {f"model.layers.{layer}.attention.wqkv.weight": ("BF16", [128, 64]) for layer in range(2)}
    tensors |= {"output.weight": ("BF16", [512, 64]), "model.norm.weight": ("BF16", [64])}
    write_safetensors(tmp_path / "model.safetensors", tensors)
    planned = plan(str(tmp_path), "l4", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert codes(planned) == {"model_not_known"}
    assert "model.layers.N.attention.wqkv.weight, output.weight are sharded" in texts(planned)


def test_a_name_that_the_file_system_refuses_is_one_clear_error() -> None:
    with pytest.raises(DirectoryError, match="cannot be read: File name too long"):
        find_model("x" * 300)
