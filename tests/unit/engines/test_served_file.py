"""Which file llama.cpp serves."""

from collections.abc import Sequence

import pytest

from config.engine_name import EngineName
from engines.llama_cpp.served_file import check_served_file, served_file
from engines.request import Deployment, FitRequest
from planner import fit

FIRST = "UD-Q2_K_XL/Kimi-K2.5-UD-Q2_K_XL-00001-of-00008.gguf"
SHARDS = [f"UD-Q2_K_XL/Kimi-K2.5-UD-Q2_K_XL-{number:05}-of-00008.gguf" for number in range(1, 9)]
KIMI = "unsloth/Kimi-K2.5-GGUF"


def stack(
    include: Sequence[str] = (),
    model: str = "somebody/something",
    locked: Sequence[str] | None = None,
    model_file: str | None = None,
    engine: EngineName = EngineName.LLAMA_CPP,
) -> FitRequest:
    files = None if locked is None else tuple(locked)
    deployment = Deployment(nodes=1, locked_files=files, volume_has_size=False)
    return FitRequest(
        model=model, include=tuple(include), model_file=model_file, engine=engine, gpu=None, deployment=deployment
    )


def test_a_single_file_is_served() -> None:
    assert served_file(stack(["README.md", "gemma-3-270m-q4_k_m.gguf"])) == "gemma-3-270m-q4_k_m.gguf"


def test_of_shards_the_first_is_served() -> None:
    assert served_file(stack(SHARDS)) == FIRST


def test_a_lock_says_which_files_there_are() -> None:
    assert served_file(stack(["*.gguf"], locked=["config.json", *SHARDS])) == FIRST


def test_the_stack_may_name_the_file_itself() -> None:
    assert served_file(stack(["*.gguf"], model_file="a.gguf")) == "a.gguf"


def test_the_catalogue_knows_the_first_shard_of_a_quantisation() -> None:
    assert served_file(stack(["UD-Q2_K_XL/*.gguf"], model=KIMI)) == FIRST


@pytest.mark.parametrize("files", [[], ["*.gguf"], ["a.gguf", "b.gguf"], SHARDS[1:]])
def test_a_choice_that_is_not_one_model_rejects_the_plan(files: Sequence[str]) -> None:
    [problem] = [each for each in fit(stack(files)).problems if each.code == "model_file_not_known"]
    assert "Set engine.model_file" in problem.fix


def test_a_quantisation_that_the_catalogue_does_not_know_is_not_guessed() -> None:
    [finding] = check_served_file(stack(["BF16/*.gguf"], model=KIMI))
    assert finding.code == "model_file_not_known"


def test_only_a_stack_has_to_say_which_file_it_serves() -> None:
    asked = FitRequest(model="somebody/something", engine=EngineName.LLAMA_CPP, gpu=None)
    assert list(check_served_file(asked)) == []


def test_vllm_serves_a_directory_and_says_that_a_file_is_ignored() -> None:
    plan = fit(stack(["a.gguf", "b.gguf"], engine=EngineName.VLLM, model_file="a.gguf"))
    assert plan.model_file is None
    assert any("model_file: vllm has no such setting" in warning.message for warning in plan.warnings)
