"""The catalogue's hand-copied facts about vLLM against the tables in its releases' own sources."""

import re

import pytest

from config.catalogue import engine_facts, engine_flags, models, vllm_releases
from config.checkpoint.model_spec import find_model
from config.engine_name import EngineName
from engines.versions import Version
from engines.vllm.defaults import vllm_defaults
from engines.vllm.memory.attention_backend import attention_backend
from tests.unit.planner.asking import resolved_request

RELEASES = {found.release: found for found in vllm_releases()}
DEFAULT = RELEASES[engine_facts(EngineName.VLLM).default_version]
FLAGS = engine_flags(EngineName.VLLM)
REWRITTEN = {"-O": "--optimization-level"}
"""What vLLM's parser rewrites before it reads options, so that no option has it
(vllm/utils/argparse_utils.py, FlexibleArgumentParser.parse_args)."""


def test_flags_and_their_short_forms_are_those_of_the_release() -> None:
    assert sorted(FLAGS.flags) == list(DEFAULT.flags)
    assert FLAGS.short_forms == {**DEFAULT.short_forms, **REWRITTEN}


def test_parsers_are_those_of_the_release() -> None:
    assert sorted(FLAGS.tool_parsers) == list(DEFAULT.tool_parsers)
    assert sorted(FLAGS.reasoning_parsers) == list(DEFAULT.reasoning_parsers)


def test_cache_types_are_those_of_the_release() -> None:
    assert FLAGS.values["--kv-cache-dtype"] == DEFAULT.cache_types


@pytest.mark.parametrize("release", sorted(RELEASES))
def test_the_default_utilisation_is_that_of_each_release(release: str) -> None:
    defaults = vllm_defaults().gpu_memory_utilization
    own = next(entry.value for entry in defaults if Version.parse(release) >= Version.parse(entry.since))
    assert own == RELEASES[release].gpu_memory_utilization


def test_quantisation_methods_exist_in_the_release() -> None:
    names = {name for names in vllm_defaults().quantization_names.values() for name in names}
    assert names <= DEFAULT.quantization.keys()


def test_parsers_of_the_catalogues_models_exist_in_the_release() -> None:
    for model in models():
        assert model.serving.tool_call_parser in (None, *DEFAULT.tool_parsers), model.name
        assert model.serving.reasoning_parser in (None, *DEFAULT.reasoning_parsers), model.name


def test_architectures_are_in_every_release_from_which_a_model_works() -> None:
    for model in models():
        if find_model(model.checkpoints[0].name).unknown:
            continue  # A model that is only listed, with what is not known of it.
        architecture, since = model.config["architectures"][0], model.serving.vllm_works_since
        assert architecture in DEFAULT.architectures, model.name
        later = [found for found in RELEASES.values() if since and Version.parse(found.release) >= Version.parse(since)]
        assert [found.release for found in later if architecture not in found.architectures] == [], model.name


@pytest.mark.parametrize("gpu", ["l40s", "h200", "b200"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "kimi-k2.5", "glm-5-fp8"])
@pytest.mark.parametrize("dtype", ["auto", "fp8"])
def test_a_backend_takes_the_gpu_and_the_block_that_are_planned(gpu: str, model: str, dtype: str) -> None:
    resolved = resolved_request(model, gpu, kv_cache_dtype=dtype)
    backend = attention_backend(resolved.model.shape, resolved.capability, fp8=dtype == "fp8", dcp=1)
    if backend is None:
        return
    found = DEFAULT.attention_backends[backend.name]
    assert resolved.capability is not None
    major, minor = resolved.capability
    assert f"{major}.{minor}" in (found.capabilities or (f"{major}.{minor}",))
    assert found.blocks is None or any(_takes(block, backend.block) for block in found.blocks)


def _takes(said: str, block: int) -> bool:
    """Whether a kernel that says `64` or `MultipleOf(16)` takes blocks of so many tokens."""
    multiple = re.fullmatch(r"MultipleOf\((\d+)\)", said)
    return block % int(multiple[1]) == 0 if multiple else block == int(said)
