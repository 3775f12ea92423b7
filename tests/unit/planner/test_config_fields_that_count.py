"""Fields of a configuration that change what a model holds, each against what its makers' code does with it."""

from pathlib import Path
from typing import Any

import pytest

from config.checkpoint.layers import layer_kinds, networks
from config.checkpoint.quantization import read_quantization
from config.checkpoint.shape import read_shape
from config.checkpoint.tensors import Place, derived_groups
from tests.unit.planner.asking import codes, plan, texts, warning_codes
from tests.unit.planner.checkpoints import LLAMA, write_gguf, write_llama


def test_layers_that_fp8_ignores_keep_16_bits() -> None:
    """`ignored_layers` of vllm/model_executor/layers/quantization/fp8.py, beside `modules_to_not_convert`."""
    scheme = read_quantization({"quant_method": "fp8", "ignored_layers": ["model.layers.0.mlp.down_proj"]}).scheme
    assert scheme("model.layers.0.mlp.down_proj").bits == 16
    assert scheme("model.layers.1.mlp.down_proj").bits == 8


def test_a_sparse_step_makes_the_other_layers_dense() -> None:
    """Qwen3-MoE: a layer has experts if its number from 1 is a multiple of decoder_sparse_step and it is not listed in
    mlp_only_layers (transformers, modeling_qwen3_moe.py)."""
    text = {"num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [3]}
    assert networks(text, experts=True) == ("dense", "experts", "dense", "dense", "dense", "experts")


@pytest.mark.parametrize(("kind", "step"), [("gemma2", 2), ("gemma3_text", 6), ("gpt_oss", 2), ("cohere2", 4)])
def test_windows_that_a_class_spreads_are_spread(kind: str, step: int) -> None:
    kinds, odd = layer_kinds({"model_type": kind, "num_hidden_layers": 12, "sliding_window": 4096})
    assert odd == []
    assert [layer for layer, found in enumerate(kinds) if found == "full"] == [*range(step - 1, 12, step)]


def _sparse_model(directory: Path, **fields: Any) -> str:
    return str(write_llama(directory, {**LLAMA, **fields}))


def test_a_model_of_windows_alone_is_said_to_be_so(tmp_path: Path) -> None:
    planned = plan(_sparse_model(tmp_path, model_type="mistral", sliding_window=1024), "h100", gpus_per_node=1)
    assert codes(planned) == {"stage_without_full_attention"}
    assert "has no layer with full attention" in texts(planned)
    assert "fewer stages" not in texts(planned)


def test_the_layer_for_prediction_of_deepseek_v3_repeats_embedding_and_head() -> None:
    """DeepSeek-V3's README_WEIGHTS: 11.5B parameters of its own, and 0.9B each of embedding and head, rounded."""
    config = {
        **LLAMA,
        "model_type": "deepseek_v3",
        "num_nextn_predict_layers": 1,
        "hidden_size": 7168,
        "vocab_size": 129_280,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "num_attention_heads": 128,
        "n_routed_experts": 256,
        "moe_intermediate_size": 2048,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
    }
    found = derived_groups(read_shape(config), read_quantization(None))
    predicted = sum(group.parameters for group in found if group.place is Place.MTP)
    assert predicted == pytest.approx(11.5e9 + 2 * 0.9268e9, rel=0.01)


def test_a_vision_encoder_that_is_not_known_is_named_and_not_dropped(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"], '
        '"vision_config": {"model_type": "novel"}, "text_config": {"model_type": "gemma3_text", '
        '"num_hidden_layers": 6, "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, '
        '"num_key_value_heads": 2, "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 4096}}'
    )
    planned = plan(str(tmp_path), "h100", gpus_per_node=1)
    assert planned.verdict == "unknown"
    assert "vision encoder" in texts(planned)
    alone = plan(str(tmp_path), "h100", gpus_per_node=1, language_model_only=True)
    assert "vision encoder" not in texts(alone)


def test_experts_of_a_dense_model_are_not_offloaded(tmp_path: Path) -> None:
    write_gguf(tmp_path / "dense.gguf")
    planned = plan(str(tmp_path), "h100", engine="llama.cpp", gpus_per_node=1, expert_offload=True)
    assert planned.verdict == "fits"
    assert "no_experts" in warning_codes(planned)
    assert not {"expert_offload_slow", "expert_offload_not_needed"} & warning_codes(planned)
