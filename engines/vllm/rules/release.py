"""Rules for the vLLM release, its settings and its arguments."""

from __future__ import annotations

from collections.abc import Iterator

from engines.finding import Finding, rejected, unknown, warning
from engines.rules.arguments import check_arguments
from engines.rules.unused import check_unused
from engines.versions import Version
from engines.vllm.arguments import DRAINS_SINCE
from engines.vllm.flags import FLAGS
from engines.vllm.resolved_request import MISSING_SETTINGS, ResolvedRequest


def check_engine(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about the release and its arguments."""
    yield from _release(resolved)
    yield from _drain(resolved)
    yield from _block(resolved)
    yield from _newer_settings(resolved)
    yield from check_unused(resolved.request, MISSING_SETTINGS)
    yield from check_arguments(FLAGS, resolved.request.extra_args)


def _release(resolved: ResolvedRequest) -> Iterator[Finding]:
    serving, version = resolved.model.serving, resolved.version
    works, recipe = serving.vllm_works_since, serving.vllm_recipe_minimum
    if works and version < Version.parse(works):
        yield rejected(
            "engine_too_old",
            f"vLLM {version} is older than {works}, the first known to serve {resolved.model.name} ({serving.source}).",
            f"Use vLLM {recipe or works} or newer.",
        )
    elif recipe and version < Version.parse(recipe):
        yield warning(
            "engine_older_than_recipe",
            f"vLLM {version} is older than {recipe}, which the recipe of {resolved.model.name} requires.",
        )


_SETTINGS_READ_IN = Version(0, 33, 0)
"""The release whose code says what `cpu_offload_gb` and `redundant_experts` hold."""


def _newer_settings(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Settings whose memory is known of the newest release only."""
    names = [name for name in ("cpu_offload_gb", "redundant_experts") if getattr(resolved.request, name) is not None]
    if names and resolved.version < _SETTINGS_READ_IN:
        text = f"What {' and '.join(names)} hold in vLLM {resolved.version} is not known."
        yield unknown("setting_not_known", text, f"Use vLLM {_SETTINGS_READ_IN}, or leave them out.")


def _drain(resolved: ResolvedRequest) -> Iterator[Finding]:
    deployment = resolved.request.deployment
    if deployment and deployment.drain_seconds and resolved.version < DRAINS_SINCE:
        yield warning(
            "drain_not_supported",
            f"vLLM {resolved.version} aborts running requests when a pod terminates: engine.drain needs "
            f"{DRAINS_SINCE} or newer.",
        )


def _block(resolved: ResolvedRequest) -> Iterator[Finding]:
    asked, backend = resolved.request.block_size, resolved.backend
    if asked and backend and asked != resolved.block:
        text = f"block_size {asked} becomes {resolved.block}: {backend.name} needs multiples of {backend.block}."
        yield warning("block_size_rounded", text)
