"""Releases with published vulnerabilities, by the records that the catalogue names as its sources."""

import pytest

from config.catalogue import engine_facts, vulnerabilities
from config.engine_name import EngineName
from engines.request import FitRequest
from planner import fit

_VLLM = FitRequest(model="kimi-k2.5", gpu="h200")
_LLAMA_CPP = FitRequest(
    model="kimi-k2.5-gguf-ud-q2-k-xl", gpu="h200", engine=EngineName.LLAMA_CPP, max_model_len=98_304
)


def warnings(request: FitRequest, **settings: object) -> dict[str, str]:
    """Returns the warnings about vulnerabilities of a plan, by their code."""
    request = FitRequest(**{field: getattr(request, field) for field in FitRequest.__slots__} | settings)
    return {each.code: each.message for each in fit(request).warnings if "vulnerabilit" in each.code}


@pytest.mark.parametrize(
    ("version", "named", "safe"),
    [
        # Each bound is of the record: ">= 0.10.2, < 0.11.1" for CVE-2025-62164.
        ("0.10.1", {"22807", "22778", "27893", "47155", "105753", "105757"}, "0.30.0"),
        ("0.11.0", {"62164", "22807", "22778", "27893", "47155", "105753", "105757"}, "0.30.0"),
        ("0.11.1", {"22807", "22778", "27893", "47155", "105753", "105757"}, "0.30.0"),
        ("0.17.1", {"27893", "47155", "105753", "105757"}, "0.30.0"),
        ("0.18.0", {"47155", "105753", "105757"}, "0.30.0"),
        ("0.25.1", {"105753", "105757", "105758"}, "0.30.0"),
        ("v0.29.0", {"105757", "105758"}, "0.30.0"),
    ],
)
def test_an_old_vllm_is_warned_of_with_its_vulnerabilities_and_the_release_that_fixes_all(
    version: str, named: set[str], safe: str
) -> None:
    (message,) = warnings(_VLLM, engine_version=version).values()
    assert {each.id.rpartition("-")[2] for each in vulnerabilities(EngineName.VLLM) if each.id in message} == named
    assert message.startswith(f"engine.version {version} has known vulnerabilities: ")
    assert message.endswith(f"Use {safe} or newer.")


@pytest.mark.parametrize("version", [None, "0.30.0", "0.33.0"])
def test_a_release_with_all_fixes_is_not_warned_of(version: str | None) -> None:
    assert warnings(_VLLM, engine_version=version) == {}


@pytest.mark.parametrize(
    ("version", "named"), [("b7000", {"33298", "27940"}), ("b7824", {"27940"}), ("b8146", set()), (None, set())]
)
def test_builds_of_llama_cpp_are_compared_by_their_number(version: str | None, named: set[str]) -> None:
    text = " ".join(warnings(_LLAMA_CPP, engine_version=version).values())
    assert {each.id.rpartition("-")[2] for each in vulnerabilities(EngineName.LLAMA_CPP) if each.id in text} == named


def test_a_setting_that_no_build_makes_safe_is_warned_of_only_where_it_is_set() -> None:
    found = warnings(_LLAMA_CPP, sleep_idle_seconds=600)
    assert list(found) == ["vulnerability_without_fix"]
    assert "engine.sleep_idle_seconds is open to CVE-2026-43631" in found["vulnerability_without_fix"]
    assert warnings(_LLAMA_CPP, engine_version="b7491", sleep_idle_seconds=600).keys() == {
        "engine_with_vulnerabilities"
    }, "the record begins with b7492"


def test_a_build_that_cannot_be_compared_is_said() -> None:
    assert warnings(_LLAMA_CPP, engine_version="00dc8057ab28").keys() == {"vulnerabilities_not_checked"}


def test_every_record_names_a_source_and_the_pinned_releases_have_no_open_one() -> None:
    for engine in EngineName:
        assert engine_facts(engine).default_version
        for each in vulnerabilities(engine):
            assert each.source
            assert each.fixed_in or each.setting, f"{each.id}: a fix, or the setting without which it does not apply"
