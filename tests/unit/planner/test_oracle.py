"""The planner against vLLM's own code (`make oracle`): weights within 0.5%, cache to the byte and the token."""

import json
import re
from typing import Any

import pytest

from config.catalogue import engine_facts
from config.engine_name import EngineName
from planner.report.oracle import DATA, Judgement, allowed, judgements, read_results

RELEASE = engine_facts(EngineName.VLLM).default_version


def _known() -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((DATA / "known_differences.json").read_text())["differences"]
    return loaded


@pytest.fixture(scope="module")
def judged() -> list[Judgement]:
    return list(judgements(read_results(RELEASE)))


def _covers(entry: dict[str, Any], judgement: Judgement) -> bool:
    return bool(re.search(entry["pairs"], judgement.pair) and re.match(entry["figures"], judgement.figure))


def test_the_planner_agrees_with_vllm_wherever_no_difference_is_listed(judged: list[Judgement]) -> None:
    wrong = [each for each in judged if not allowed(each) and not any(_covers(entry, each) for entry in _known())]
    assert wrong == []


def test_every_listed_difference_is_still_there(judged: list[Judgement]) -> None:
    wrong = [each for each in judged if not allowed(each)]
    assert [entry for entry in _known() if not any(_covers(entry, each) for each in wrong)] == []


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
