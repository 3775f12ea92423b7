"""The planner against vLLM's own code (`make oracle`): weights within 0.5%, cache to the byte and the token."""

import json

import pytest

from config.catalogue import engine_facts
from config.engine_name import EngineName
from planner.fit import plan_only
from planner.report.oracle import (
    DATA,
    Judgement,
    allowed,
    covers,
    judgements,
    read_known_differences,
    read_results,
    requests_of,
)

RELEASE = engine_facts(EngineName.VLLM).default_version


@pytest.fixture(scope="module")
def judged() -> list[Judgement]:
    return list(judgements(read_results(RELEASE)))


def test_the_planner_agrees_with_vllm_wherever_no_difference_is_listed(judged: list[Judgement]) -> None:
    wrong = [
        each
        for each in judged
        if not allowed(each) and not any(covers(entry, each) for entry in read_known_differences())
    ]
    assert wrong == []


def test_every_listed_difference_is_still_there(judged: list[Judgement]) -> None:
    wrong = [each for each in judged if not allowed(each)]
    assert [entry for entry in read_known_differences() if not any(covers(entry, each) for each in wrong)] == []


def test_every_pair_has_an_answer() -> None:
    asked = json.loads((DATA / "pairs.json").read_text())["pairs"]
    answered = [{name: result[name] for name in ("model", "gpu", "arguments")} for result in read_results(RELEASE)]
    assert [
        pair for pair in asked if {name: pair[name] for name in ("model", "gpu", "arguments")} not in answered
    ] == []


def test_vllm_builds_enough_models_layouts_and_quantisations() -> None:
    built = [result for result in read_results(RELEASE) if "error" not in result]
    loaded = [result for result in built if all(stage["loaded"] for stage in result["stages"])]
    methods = {kernel.split()[1] for result in loaded for stage in result["stages"] for kernel in stage["kernels"]} - {
        "UnquantizedEmbeddingMethod"
    }
    assert len(loaded) >= 60
    assert len({result["model"] for result in loaded}) >= 30
    assert len(methods) >= 8


_REFUSALS = ("LoRA is not supported", "must be divisible", "num_groups must equal", "Unknown quantization")
"""What vLLM's own errors say where it refuses a pair, and not what the oracle or its environment lacks."""


def test_what_vllm_refuses_the_planner_does_not_accept() -> None:
    refused = [result for result in read_results(RELEASE) if any(each in result.get("error", "") for each in _REFUSALS)]
    assert len(refused) >= 6
    verdicts = {result["key"]: plan_only(request).verdict for result, request in requests_of(refused)}
    assert set(verdicts.values()) <= {"rejected", "unknown"}, verdicts
