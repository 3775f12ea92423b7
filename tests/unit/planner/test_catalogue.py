"""The data files: complete, sourced, and what the shared collection says of them."""

import json
import re
from dataclasses import asdict
from typing import Any

import pytest
from pydantic import TypeAdapter

from config.catalogue import (
    ModelFamily,
    NotInCatalogueError,
    cuda_of_drivers,
    engine_facts,
    engine_flags,
    find_checkpoint,
    find_gpu,
    find_instance,
    gpus,
    ground_truth,
    instances,
    models,
    overheads,
    release_ranges,
)
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.vllm.defaults import vllm_defaults
from planner.report.accuracy import DOCUMENT, document


def test_every_model_of_the_table_is_there_with_its_variants() -> None:
    formats = {model.name: {checkpoint.format for checkpoint in model.checkpoints} for model in models()}
    assert formats["kimi-k2.5"] == {"int4", "nvfp4", "gguf"}
    assert formats["kimi-k2.6"] == {"int4", "nvfp4"}
    assert formats["glm-5"] == {"bf16", "fp8", "nvfp4"}
    assert formats["qwen3.5-397b-a17b"] == {"bf16", "fp8", "nvfp4"}
    assert formats["qwen3.5-35b-a3b"] == {"bf16", "fp8", "int4"}
    assert formats["qwen3-235b-a22b"] == {"bf16", "fp8", "nvfp4", "int4"}
    assert formats["minimax-m2.5"] == {"fp8", "nvfp4"}
    assert "llama-3.1-8b" in formats


def test_names_are_unique() -> None:
    names = [checkpoint.name for model in models() for checkpoint in model.checkpoints]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("model", models(), ids=lambda model: model.name)
def test_every_model_names_its_source_and_is_planned_or_says_why_not(model: ModelFamily) -> None:
    assert model.config_source
    for checkpoint in model.checkpoints:
        spec = find_model(checkpoint.name)
        assert spec.unknown or spec.is_gguf or spec.groups
        if checkpoint.quantization_config is None:
            assert checkpoint.unknown or checkpoint.format in ("bf16", "gguf")


def test_gpus_are_found_by_name_alias_and_node_label() -> None:
    assert find_gpu("H200").name == "h200"
    assert find_gpu("NVIDIA-H100-80GB-HBM3").name == "h100"
    assert find_gpu("h100-sxm").torch_gib == 79.19
    assert find_gpu("h200").torch_gib == 139.80
    assert {gpu.name for gpu in gpus()} >= {"a10g", "l4", "l40s", "a100-80gb", "h100", "h200", "b200", "b300", "gb200"}


def test_a_name_that_is_not_known_is_refused_with_what_is_close() -> None:
    with pytest.raises(NotInCatalogueError, match=r"kimi-k2\.5"):
        find_checkpoint("kimi-k25")
    with pytest.raises(NotInCatalogueError, match="expected one of"):
        find_gpu("a100")


def test_every_instance_has_a_gpu_of_the_catalogue_and_a_dated_price() -> None:
    for instance in instances():
        assert find_gpu(instance.gpu)
        for price in (instance.on_demand, instance.capacity_block):
            assert price is None or re.search(r"20\d\d", price.source)
    p5en = find_instance("p5en.48xlarge")
    assert p5en.on_demand is not None
    assert p5en.on_demand.usd_per_hour == 63.296


def test_every_rule_of_a_release_has_a_source() -> None:
    for rule in release_ranges().values():
        assert rule.source
        assert rule.fails_through
    for engine in EngineName:
        for image in engine_facts(engine).images:
            assert image.source


@pytest.mark.parametrize(
    "fact",
    [
        *(engine_facts(engine) for engine in EngineName),
        *(engine_flags(engine) for engine in EngineName),
        vllm_defaults(),
        *release_ranges().values(),
        overheads(),
        ground_truth(),
        *gpus(),
        *instances(),
        *models(),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_every_value_of_the_data_files_has_its_type(fact: Any) -> None:
    TypeAdapter(type(fact)).validate_json(json.dumps(asdict(fact)), strict=True)


def test_every_driver_has_a_cuda_version() -> None:
    TypeAdapter(dict[int, str]).validate_python(cuda_of_drivers(), strict=True)


def test_the_accuracy_document_is_current() -> None:
    assert DOCUMENT.read_text() == document(), "run make accuracy"


def test_kimis_checkpoint_has_the_published_size() -> None:
    assert find_model("kimi-k2.5").staged_bytes == 595_180_000_000
    assert find_model("unsloth/Kimi-K2.5-GGUF").staged_bytes == 374_764_330_144
