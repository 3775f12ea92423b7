"""Draft models for speculative decoding, against vLLM 0.33.0's own code and rules.

Weights, bytes per token and tokens of thirteen pairs are compared with vLLM's own in `test_oracle.py`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from config.engine_name import EngineName
from engines.plan import Plan
from tests.unit.planner.asking import codes, plan, texts

QWEN: dict[str, Any] = {"gpus_per_node": 1, "draft": "Qwen/Qwen3-0.6B", "speculative_tokens": 3}


def drafted(model: str = "qwen3-32b", **settings: Any) -> Plan:
    return plan(model, **{**QWEN, **settings})


def test_weights_cache_and_bytes_of_both_models_are_counted() -> None:
    """Qwen3-0.6B has 28 layers of 8 key and value heads of 128; its 596 M parameters in 16 bits, with the head tied to
    the embedding, are 1.11 GiB (huggingface.co/Qwen/Qwen3-0.6B)."""
    both, alone = drafted(), drafted(draft=None, speculative_tokens=None)
    assert both.verdict == "fits"
    assert both.per_gpu is not None
    assert alone.per_gpu is not None
    assert both.per_gpu.kv_bytes_per_token == (64 + 28) * 2 * 8 * 128 * 2
    assert both.per_gpu.weights_gib is not None
    assert alone.per_gpu.weights_gib is not None
    assert both.per_gpu.weights_gib - alone.per_gpu.weights_gib == pytest.approx(1.12, abs=0.02)
    assert both.weights_bytes is not None
    assert alone.weights_bytes is not None
    assert both.weights_bytes - alone.weights_bytes == pytest.approx(596e6 * 2, rel=0.01)


def test_the_arguments_name_the_method_and_the_server_adds_the_directory() -> None:
    arguments = drafted().engine_args
    at = arguments.index("--spec-method")
    assert arguments[at : at + 4] == ("--spec-method", "draft_model", "--spec-tokens", "3")
    assert "--speculative-config" not in arguments


def test_the_context_is_no_longer_than_that_of_the_draft_model() -> None:
    """vLLM lowers it to the draft model's (vllm/config/vllm.py `_limit_max_model_len_to_draft`)."""
    planned = drafted("qwen3-coder-480b-a35b", gpus_per_node=8)
    assert planned.context == 40_960
    refused = drafted("qwen3-coder-480b-a35b", gpus_per_node=8, max_model_len=100_000)
    assert "exceeds the 40,960 tokens that Qwen/Qwen3-0.6B supports" in texts(refused)


@pytest.mark.parametrize(
    ("model", "settings", "code"),
    [
        ("kimi-k2.5", {"gpus_per_node": 8}, "draft_vocabulary_differs"),
        ("qwen3-32b", {"nodes": 2}, "draft_over_stages"),
        ("qwen3-32b", {"speculative_tokens": None}, "no_draft_tokens"),
        ("qwen3-32b", {"draft": "unsloth/Kimi-K2-Instruct-GGUF"}, "draft_not_in_catalogue"),
        ("qwen3-32b", {"draft": "acme/none"}, "draft_not_in_catalogue"),
        ("qwen3-32b", {"draft": "qwen3.5-35b-a3b"}, "draft_vocabulary_differs"),
        ("qwen3-32b", {"gpus_per_node": 2, "decode_context_parallel": 2}, "draft_not_known"),
        ("qwen3-32b", {"cpu_offload_gb": 4}, "draft_not_known"),
        ("qwen3-32b", {"engine_version": "0.20.2"}, "setting_not_known"),
        ("qwen3-32b", {"extra_args": ("--spec-model", "/weights")}, "argument_of_the_plan"),
        ("qwen3-235b-a22b", {"gpus_per_node": 8, "draft": "qwen3-vl-2b"}, "draft_not_known"),
    ],
)
def test_what_vllm_refuses_or_the_planner_does_not_know_is_named(
    model: str, settings: dict[str, Any], code: str
) -> None:
    planned = drafted(model, **settings)
    assert code in codes(planned)
    assert planned.verdict in ("rejected", "unknown")


def test_heads_that_the_ranks_cannot_share_are_those_of_the_draft_model_too() -> None:
    """Qwen3-0.6B has 16 attention heads, and Qwen3-32B 64."""
    planned = drafted(gpus_per_node=32, tensor_parallel=32)
    assert "of the draft model Qwen/Qwen3-0.6B do not divide one another" in texts(planned)


def test_a_head_that_drafts_is_no_draft_model(tmp_path: Path) -> None:
    """As yuhuili/EAGLE3-LLaMA3.1-Instruct-8B names itself."""
    config = {"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama", "vocab_size": 128256}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 850_000_000}}))
    planned = drafted("llama-3.1-8b", draft=str(tmp_path))
    assert codes(planned) == {"draft_is_head"}, texts(planned)
    assert planned.verdict == "unknown"
    assert "LlamaForCausalLMEagle3, a head that drafts from the hidden states" in texts(planned)


def test_a_head_that_names_a_whole_model_is_known_by_its_repository(tmp_path: Path) -> None:
    """As yuhuili/EAGLE-LLaMA3-Instruct-8B, whose config.json says LlamaForCausalLM."""
    directory = tmp_path / "EAGLE-LLaMA3-Instruct-8B"
    directory.mkdir()
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096}
    config |= {"intermediate_size": 14336, "num_attention_heads": 32, "num_hidden_layers": 1, "num_key_value_heads": 8}
    (directory / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 2048}))
    planned = drafted("llama-3.1-8b", draft=str(directory))
    assert codes(planned) == {"draft_is_head"}, texts(planned)


def test_llama_cpp_has_no_draft_model() -> None:
    planned = drafted("unsloth/Kimi-K2.5-GGUF", engine=EngineName.LLAMA_CPP, gpus_per_node=8)
    assert "draft_not_supported" in codes(planned)
