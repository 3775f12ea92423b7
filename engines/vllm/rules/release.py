"""The engine's release against the model, and what is asked of it that it does not have."""

from __future__ import annotations

from collections.abc import Iterator

from engines.finding import Finding, rejected, warning
from engines.rules.arguments import check_arguments
from engines.rules.unused import check_unused
from engines.versions import Version
from engines.vllm.resolved_request import Case


def check_engine(case: Case) -> Iterator[Finding]:
    """Findings about the release and its arguments."""
    yield from _release(case)
    yield from _block(case)
    yield from check_unused(case.request)
    yield from check_arguments("vllm", case.request.extra_args)


def _release(case: Case) -> Iterator[Finding]:
    serving, version = case.subject.serving, case.version
    works, recipe = serving.vllm_works_since, serving.vllm_recipe_minimum
    if works and version < Version.parse(works):
        yield rejected(
            "engine_too_old",
            f"vLLM {version} is older than {works}, the first known to serve {case.subject.name} ({serving.source}).",
            f"Use vLLM {recipe or works} or newer.",
        )
    elif recipe and version < Version.parse(recipe):
        yield warning(
            "engine_older_than_recipe",
            f"vLLM {version} is older than {recipe}, which the recipe of {case.subject.name} asks for.",
        )


def _block(case: Case) -> Iterator[Finding]:
    asked = case.request.block_size
    if asked and case.backend and asked != case.block:
        text = f"block_size {asked} is made {case.block}: {case.backend.name} takes multiples of {case.backend.block}."
        yield warning("block_size_rounded", text)
