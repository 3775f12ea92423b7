"""Releases that serve an architecture, contexts that scalings give, and backends of compute capability 12.x, against
vLLM 0.33.0's own sources."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.checkpoint.rotary import scaled_context
from config.checkpoint.shape import read_shape
from engines.vllm.memory.stages import weights_by_group
from tests.unit.planner.asking import DATA, GIB, codes, plan, resolved_request
from tests.unit.planner.checkpoints import LLAMA, write_llama

_ORACLE = DATA.parent / "oracle" / "configs.json"


def _with(directory: Path, **fields: Any) -> str:
    return str(write_llama(directory, {**LLAMA, **fields}))


def _small(model: str, gpu: str = "h100", **settings: Any) -> Any:
    return plan(model, gpu, gpus_per_node=1, **settings)


@pytest.mark.parametrize(
    ("architecture", "release", "code"),
    [
        ("MiniMaxM2ForCausalLM", "0.6.5", "engine_too_old"),
        ("MiniMaxM2ForCausalLM", "0.11.0", "engine_too_old"),
        ("MiniMaxM2ForCausalLM", "0.12.0", "release_not_known"),
        ("DeepseekV3ForCausalLM", "0.6.5", "release_not_known"),
        ("NoSuchForCausalLM", "0.33.0", "architecture_not_known"),
        ("MiniMaxM2ForCausalLM", "0.33.0", None),
        ("LlamaForCausalLM", "0.10.0", None),
    ],
)
def test_a_release_must_list_the_architecture_of_a_model_outside_the_catalogue(
    tmp_path: Path, architecture: str, release: str, code: str | None
) -> None:
    """0.10.0 and 0.11.0 do not list MiniMax-M2, 0.15.0 does; releases between them and before them were not read."""
    planned = _small(_with(tmp_path, architectures=[architecture]), engine_version=release)
    assert codes(planned) == ({code} if code else set())
    assert planned.verdict == {"engine_too_old": "rejected", None: "fits"}.get(code, "unknown")


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({}, 4096),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 16_384),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, 8192),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}}, 4096),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, 4096),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}, "model_type": "gemma3_text"}, 4096),
    ],
)
def test_a_scaling_gives_the_context_that_the_engine_derives(scaling: dict[str, Any], expected: int) -> None:
    """vllm/config/model.py _get_and_verify_max_len: YaRN and its like are in max_position_embeddings already."""
    assert scaled_context({**LLAMA, **scaling}) == expected
    assert read_shape({**LLAMA, **scaling}).max_context == expected


def test_yarn_of_a_checkpoint_is_bounded_by_its_positions_and_not_known_in_older_releases(tmp_path: Path) -> None:
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
    model = _with(tmp_path, rope_scaling=yarn)
    assert codes(_small(model, max_model_len=16_384)) == {"context_beyond_model"}
    assert codes(_small(model, max_model_len=16_384, engine_version="0.20.2")) == {"yarn_context_not_known"}
    assert codes(_small(model, max_model_len=16_385, engine_version="0.20.2")) == {"context_beyond_model"}


_QWEN = {"model_type": "qwen3", "rope_theta": 1_000_000, "max_position_embeddings": 40_960}


def test_the_context_is_stretched_by_the_override_that_the_engine_takes(tmp_path: Path) -> None:
    """Qwen3's model card: YaRN with a factor of 4 over 32,768 tokens, where config.json says 40,960."""
    model = _with(tmp_path, **_QWEN)
    settings: dict[str, Any] = {"yarn_factor": 4.0, "yarn_original_context": 32_768, "max_model_len": 131_072}
    assert codes(_small(model, max_model_len=131_072)) == {"context_beyond_model"}
    planned = _small(model, **settings)
    assert planned.verdict == "fits"
    overrides = json.loads(planned.engine_args[planned.engine_args.index("--hf-overrides") + 1])
    assert overrides == {
        "max_position_embeddings": 131_072,
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1_000_000,
            "factor": 4.0,
            "original_max_position_embeddings": 32_768,
        },
    }
    assert codes(_small(model, **{**settings, "max_model_len": 131_073})) == {"context_beyond_model"}
    assert _small(model, yarn_factor=2.0).max_context == 81_920


@pytest.mark.parametrize(
    ("model", "settings", "code"),
    [
        ("qwen3-235b-a22b-fp8", {"yarn_original_context": 4096}, "yarn_without_factor"),
        ("llama-3.1-8b", {"yarn_factor": 2.0}, "yarn_not_known"),
        ("kimi-k2.5", {"yarn_factor": 2.0}, "yarn_not_known"),
        ("qwen3-235b-a22b-fp8", {"yarn_factor": 1.0}, "value_not_valid"),
        ("qwen3-235b-a22b-fp8", {"yarn_factor": 2.0, "engine_version": "0.20.2"}, "setting_not_known"),
    ],
)
def test_a_stretch_that_nobody_knows_is_named(model: str, settings: dict[str, Any], code: str) -> None:
    assert code in codes(plan(model, "h200", **settings))


def test_sparse_attention_has_a_backend_on_compute_capability_12() -> None:
    """FLASHINFER_MLA_SPARSE_SM120 packs a cache of every type into 656 B a token and layer, in blocks of 64, beside 132
    of the indexer; the first release that was read with it is 0.25.0."""
    planned = plan("glm-5-nvfp4", "rtx-pro-6000")
    assert planned.attention_backend == "FLASHINFER_MLA_SPARSE_SM120"
    assert planned.kv_block_tokens == 64
    assert planned.per_gpu is not None
    assert planned.per_gpu.kv_bytes_per_token == 78 * (656 + 132)
    assert "no_attention_backend" not in codes(planned)
    assert "no_attention_backend" in codes(plan("glm-5-nvfp4", "rtx-pro-6000", engine_version="0.21.0"))
    assert "no_attention_backend" in codes(plan("glm-5-nvfp4", "l40s"))


@pytest.mark.parametrize(
    ("release", "published"),
    [("0.10.1", 65.97), ("0.14.1", 64.38), ("0.33.0", 61.074)],
    ids=["marlin-issue-23278", "triton-issue-33155", "oracle"],
)
def test_experts_in_mxfp4_are_padded_as_each_release_does(tmp_path: Path, release: str, published: float) -> None:
    """GiB of gpt-oss-120b on one H100: github.com/vllm-project/vllm issues 23278 and 33155, and vLLM 0.33.0's code."""
    entries = json.loads(_ORACLE.read_text(encoding="utf-8"))["models"]
    [config] = [entry["config"] for entry in entries if entry["repository"] == "openai/gpt-oss-120b"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    resolved = resolved_request(str(tmp_path), "h100", gpus_per_node=1, engine_version=release)
    assert sum(weights_by_group(resolved, 0).values()) / GIB == pytest.approx(published, rel=0.01)
