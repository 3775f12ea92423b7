"""Rules for the vLLM release, its settings and its arguments."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import vllm_releases
from engines.finding import Finding, rejected, unknown, warning
from engines.rules.arguments import check_arguments
from engines.rules.unused import check_unused
from engines.versions import Version
from engines.vllm.arguments import DRAINS_SINCE
from engines.vllm.flags import FLAGS
from engines.vllm.memory.adapters import ADAPTER_RANKS
from engines.vllm.resolved_request import MISSING_SETTINGS, ResolvedRequest, can_adapt


def check_engine(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about the release and its arguments."""
    yield from _release(resolved)
    yield from _drain(resolved)
    if resolved.model.serving.vllm_works_since is None:
        yield from _architecture(resolved)
    yield from _block(resolved)
    yield from _newer_settings(resolved)
    yield from _stretch(resolved)
    yield from _drafts(resolved)
    yield from _adapters(resolved)
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


def _architecture(resolved: ResolvedRequest) -> Iterator[Finding]:
    """The architecture of a model that the catalogue says nothing of, against the lists of the releases that were read
    (`config/data/vllm_releases.json`)."""
    named = [str(each) for each in resolved.model.family.config.get("architectures") or ()]
    serving = [Version.parse(each.release) for each in vllm_releases() if set(named) & set(each.architectures)]
    if not named:
        return
    what = f"{resolved.model.name} is {' or '.join(named)}"
    if not serving:
        text = f"{what}, which no release of vLLM that was read lists."
        yield unknown("architecture_not_known", text, "Try it on the machine.")
    elif resolved.version < serving[0]:
        older = [Version.parse(each.release) for each in vllm_releases() if Version.parse(each.release) < serving[0]]
        if older and resolved.version <= older[-1]:
            text = f"{what}, which vLLM {older[-1]} does not list and {serving[0]} does."
            yield rejected("engine_too_old", text, f"Use vLLM {serving[0]} or newer.")
        else:
            text = f"{what}: whether vLLM {resolved.version} serves it is not known, and {serving[0]} does."
            yield unknown("release_not_known", text, f"Use vLLM {serving[0]} or newer.")


_SETTINGS_READ_IN = Version(0, 33, 0)
"""The release whose code says what the settings below do."""

_NEWER_SETTINGS = (
    *("cpu_offload_gb", "max_loras", "prefill_context_parallel", "redundant_experts", "speculative_tokens"),
    "yarn_factor",
)


def _newer_settings(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Settings whose memory is known of the newest release only."""
    names = [name for name in _NEWER_SETTINGS if getattr(resolved.request, name) is not None]
    if names and resolved.version < _SETTINGS_READ_IN:
        text = f"What {' and '.join(names)} do in vLLM {resolved.version} is not known."
        yield unknown("setting_not_known", text, f"Use vLLM {_SETTINGS_READ_IN}, or leave them out.")


def _drain(resolved: ResolvedRequest) -> Iterator[Finding]:
    deployment = resolved.request.deployment
    if deployment and deployment.drain_seconds and resolved.version < DRAINS_SINCE:
        yield warning(
            "drain_not_supported",
            f"vLLM {resolved.version} aborts running requests when a pod terminates: engine.drain needs "
            f"{DRAINS_SINCE} or newer.",
        )


def _adapters(resolved: ResolvedRequest) -> Iterator[Finding]:
    """LoRA adapters of a rank that vLLM does not take, or of a model that has no formula for them."""
    loras, rank = resolved.request.max_loras, resolved.request.max_lora_rank
    if loras is None and rank is not None:
        yield rejected("rank_without_adapters", "max_lora_rank alone serves no adapter.", "Set max_loras too.")
    if rank is not None and rank not in ADAPTER_RANKS:
        known = ", ".join(map(str, ADAPTER_RANKS))
        yield rejected("rank_not_taken", f"max_lora_rank {rank}: vLLM takes {known}.", "Use the next larger one.")
    if loras is not None and not can_adapt(resolved.model, resolved.layout):
        text = f"What LoRA adapters of {resolved.model.name} take in this layout is not known."
        yield unknown("adapters_not_known", text, "Leave max_loras out, or measure it on the machine.")


def _drafts(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Speculative decoding by layers that the model does not have, or that have no formula."""
    if resolved.request.speculative_tokens is None:
        return
    if not resolved.model.shape.mtp_layers:
        text = f"{resolved.model.name} has no layer for multi-token prediction."
        yield rejected("no_draft_layers", text, "Leave speculative_tokens out.")
    elif not resolved.drafts:
        text = f"What speculative decoding of {resolved.model.name} takes in this layout is not known."
        yield unknown("drafts_not_known", text, "Leave speculative_tokens out, or measure it on the machine.")


def _stretch(resolved: ResolvedRequest) -> Iterator[Finding]:
    """YaRN on a model that it cannot be put on, or without a factor."""
    request = resolved.request
    if request.yarn_factor is None and request.yarn_original_context is not None:
        yield rejected("yarn_without_factor", "yarn_original_context stretches nothing alone.", "Set yarn_factor too.")
    elif request.yarn_factor is not None and not resolved.overrides:
        yield unknown(
            "yarn_not_known",
            f"{resolved.model.name} scales its positions already, its text model is nested, or the base of its "
            "positions (rope_theta) is not known: what YaRN makes of it is not known.",
            "Leave yarn_factor out.",
        )


def _block(resolved: ResolvedRequest) -> Iterator[Finding]:
    asked, backend = resolved.request.block_size, resolved.backend
    if asked and backend and asked != resolved.block:
        text = f"block_size {asked} becomes {resolved.block}: {backend.name} needs multiples of {backend.block}."
        yield warning("block_size_rounded", text)
