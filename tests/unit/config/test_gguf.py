"""Which file llama.cpp serves."""

from collections.abc import Sequence

import pytest

from config.errors import StackError
from config.gguf import served_file
from config.stack import Engine, EngineName

LLAMA = Engine(name=EngineName.LLAMA_CPP, version="b1", image="server")
SHARDS = [f"UD-Q2_K_XL/Kimi-K2.5-UD-Q2_K_XL-{number:05}-of-00008.gguf" for number in range(1, 9)]


def test_a_single_file_is_served() -> None:
    assert served_file(LLAMA, ["README.md", "gemma-3-270m-q4_k_m.gguf"]) == "gemma-3-270m-q4_k_m.gguf"


def test_of_shards_the_first_is_served() -> None:
    assert served_file(LLAMA, SHARDS) == "UD-Q2_K_XL/Kimi-K2.5-UD-Q2_K_XL-00001-of-00008.gguf"


def test_the_stack_may_name_the_file_itself() -> None:
    assert served_file(LLAMA.model_copy(update={"model_file": "a.gguf"}), ["*.gguf"]) == "a.gguf"


@pytest.mark.parametrize("files", [[], ["*.gguf"], ["a.gguf", "b.gguf"], SHARDS[1:]])
def test_a_choice_that_is_not_one_model_is_refused(files: Sequence[str]) -> None:
    with pytest.raises(StackError, match=r"heavylift:engine\.model_file: is missing"):
        served_file(LLAMA, files)


def test_vllm_serves_a_directory() -> None:
    assert served_file(Engine(name=EngineName.VLLM, version="0.33.0", image="vllm"), ["a.gguf", "b.gguf"]) is None
