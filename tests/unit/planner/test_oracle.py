"""The planner against the engines' own code (`make oracle`, `make oracle-sglang`): weights within 0.5%, cache to the
byte and the token."""

from functools import cache

import pytest

from config.catalogue import engine_facts
from config.engine_name import EngineName
from planner.fit import plan_only
from planner.report.oracle import (
    Judgement,
    Results,
    all_results,
    allowed,
    covers,
    judgements,
    read_known_differences,
    requests_of,
)
from tests.oracle.judges import JUDGES
from tests.oracle.pairs import read_pairs

RESULTS = {results.engine: results for results in all_results()}

each_engine = pytest.mark.parametrize("results", RESULTS.values(), ids=list(RESULTS))


@cache
def judged(engine: EngineName) -> tuple[Judgement, ...]:
    return tuple(judgements(RESULTS[engine]))


@each_engine
def test_the_release_that_judges_is_that_of_the_catalogue(results: Results) -> None:
    assert results.release == engine_facts(results.engine).default_version == JUDGES[results.engine].release


@each_engine
def test_the_planner_agrees_with_the_engine_wherever_no_difference_is_listed(results: Results) -> None:
    wrong = [
        each
        for each in judged(results.engine)
        if not allowed(each) and not any(covers(entry, each) for entry in read_known_differences())
    ]
    assert wrong == []


def test_every_listed_difference_is_still_there() -> None:
    wrong = [each for engine in RESULTS for each in judged(engine) if not allowed(each)]
    assert [entry for entry in read_known_differences() if not any(covers(entry, each) for each in wrong)] == []


@each_engine
def test_every_pair_has_an_answer(results: Results) -> None:
    assert [pair.key for pair in read_pairs(JUDGES[results.engine].pairs)] == [pair["key"] for pair in results.pairs]


@pytest.mark.parametrize(
    ("engine", "pairs", "models", "methods"), [(EngineName.VLLM, 60, 30, 8), (EngineName.SGLANG, 60, 25, 8)]
)
def test_each_engine_builds_enough_models_layouts_and_quantisations(
    engine: EngineName, pairs: int, models: int, methods: int
) -> None:
    loaded = [pair for pair in RESULTS[engine].built if all(stage["loaded"] for stage in pair["stages"])]
    found = {kernel.split()[1] for pair in loaded for stage in pair["stages"] for kernel in stage["kernels"]} - {
        "UnquantizedEmbeddingMethod"
    }
    assert len(loaded) >= pairs
    assert len({pair["model"] for pair in loaded}) >= models
    assert len(found) >= methods


_REFUSALS = ("LoRA is not supported", "must be divisible", "num_groups must equal", "Unknown quantization")
"""What vLLM's own errors say where it refuses a pair, and not what the oracle or its environment lacks."""


def test_what_vllm_refuses_the_planner_does_not_accept() -> None:
    results = RESULTS[EngineName.VLLM]
    refused = [pair for pair in results.pairs if any(each in pair.get("error", "") for each in _REFUSALS)]
    assert len(refused) >= 6
    verdicts = {pair["key"]: plan_only(request).verdict for pair, request in requests_of(results.engine, refused)}
    assert set(verdicts.values()) <= {"rejected", "unknown"}, verdicts
