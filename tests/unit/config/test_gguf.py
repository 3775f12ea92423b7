"""Which file llama.cpp serves."""

from collections.abc import Sequence

import pytest

from config.errors import StackError
from config.stack.sections import StackConfig
from config.stack.served_file import served_file

FIRST = "UD-Q2_K_XL/Kimi-K2.5-UD-Q2_K_XL-00001-of-00008.gguf"
SHARDS = [f"UD-Q2_K_XL/Kimi-K2.5-UD-Q2_K_XL-{number:05}-of-00008.gguf" for number in range(1, 9)]


def stack(include: Sequence[str] = (), repository: str = "somebody/something", **engine: object) -> StackConfig:
    return StackConfig.parse(
        {
            "model": {"repository": repository, "allow_unpinned": True, "revision": "main", "include": list(include)},
            "weights": {"kind": "claim"},
            "stage": {"image": "python:3.12-slim"},
            "engine": {"name": "llama.cpp", "version": "b1", "image": "server", **engine},
        }
    )


def test_a_single_file_is_served() -> None:
    assert served_file(stack(["README.md", "gemma-3-270m-q4_k_m.gguf"]), None) == "gemma-3-270m-q4_k_m.gguf"


def test_of_shards_the_first_is_served() -> None:
    assert served_file(stack(SHARDS), None) == FIRST


def test_a_lock_says_which_files_there_are() -> None:
    assert served_file(stack(["*.gguf"]), ["config.json", *SHARDS]) == FIRST


def test_the_stack_may_name_the_file_itself() -> None:
    assert served_file(stack(["*.gguf"], model_file="a.gguf"), None) == "a.gguf"


def test_the_catalogue_knows_the_first_shard_of_a_quantisation() -> None:
    assert served_file(stack(["UD-Q2_K_XL/*.gguf"], repository="unsloth/Kimi-K2.5-GGUF"), None) == FIRST


@pytest.mark.parametrize("files", [[], ["*.gguf"], ["a.gguf", "b.gguf"], SHARDS[1:]])
def test_a_choice_that_is_not_one_model_is_refused(files: Sequence[str]) -> None:
    with pytest.raises(StackError, match=r"heavylift:engine\.model_file: is missing"):
        served_file(stack(files), None)


def test_a_quantisation_that_the_catalogue_does_not_know_is_not_guessed() -> None:
    with pytest.raises(StackError, match=r"heavylift:engine\.model_file: is missing"):
        served_file(stack(["BF16/*.gguf"], repository="unsloth/Kimi-K2.5-GGUF"), None)


def test_vllm_serves_a_directory() -> None:
    vllm = stack(["a.gguf", "b.gguf"]).model_copy(
        update={"engine": stack().engine.model_copy(update={"name": "vllm", "version": "0.33.0"})}
    )
    assert served_file(vllm, None) is None
