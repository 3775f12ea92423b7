"""Rules for the vLLM release, its settings and its arguments."""

from __future__ import annotations

from collections.abc import Iterator

from config.catalogue import VendorName, vllm_releases
from config.load_format import LoadFormat
from engines.finding import Finding, rejected, unknown, warning
from engines.rules.arguments import check_arguments
from engines.rules.unused import check_unused
from engines.versions import Version
from engines.vllm.arguments import DRAINS_SINCE
from engines.vllm.flags import FLAGS
from engines.vllm.memory.adapters import ADAPTER_RANKS, can_adapt, refuses_adapters
from engines.vllm.resolved_request import MISSING_SETTINGS, ResolvedRequest


def check_engine(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about the release and its arguments."""
    yield from _release(resolved)
    yield from _drain(resolved)
    yield from _kept_cache(resolved)
    yield from _queue(resolved)
    yield from _offload(resolved)
    yield from _reader(resolved)
    if resolved.model.serving.vllm_works_since is None:
        yield from _architecture(resolved)
    yield from _block(resolved)
    yield from _newer_settings(resolved)
    yield from _stretch(resolved)
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
    *("cpu_offload_gb", "draft", "kv_offload", "load_format", "max_loras", "max_num_queued_reqs"),
    *("prefill_context_parallel", "redundant_experts", "speculative_tokens", "yarn_factor"),
)


def _newer_settings(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Settings whose memory is known of the newest release only."""
    names = [name for name in _NEWER_SETTINGS if getattr(resolved.request, name) is not None]
    if names and resolved.version < _SETTINGS_READ_IN:
        text = f"What {' and '.join(names)} do in vLLM {resolved.version} is not known."
        yield unknown("setting_not_known", text, f"Use vLLM {_SETTINGS_READ_IN}, or leave them out.")


def _queue(resolved: ResolvedRequest) -> Iterator[Finding]:
    """A limit of the queue that counts running requests too (vllm/config/scheduler.py, 0.33.0)."""
    limit, running = resolved.request.max_num_queued_reqs, resolved.layout.dp * resolved.sequences
    if limit is not None and limit < running:
        yield warning(
            "queue_below_sequences",
            f"max_num_queued_reqs {limit} counts running requests too: {running} could run, and the server refuses "
            f"requests beyond {limit}.",
        )


def _reader(resolved: ResolvedRequest) -> Iterator[Finding]:
    """A reader of weights from a package of its own (vllm/model_executor/model_loader/weight_utils.py, 0.33.0)."""
    reader = resolved.request.load_format
    if reader == LoadFormat.INSTANTTENSOR and resolved.gpu.vendor.name is not VendorName.NVIDIA:
        yield rejected("reader_needs_nvidia", "load_format instanttensor needs NVIDIA GPUs.", "Leave it out.")
    elif reader is not None:
        yield warning(
            "reader_not_checked",
            f"load_format {reader}: vLLM does not start unless its image has the package {reader}, which is not "
            "checked. The times of the plan are those of vLLM's own reader.",
        )
    if reader == LoadFormat.RUNAI_STREAMER and resolved.request.host_memory_bytes is None:
        text = "How much host memory the buffers of load_format runai_streamer take is not known."
        yield unknown("reader_memory_not_known", text, "State the pod's memory (in a stack: engine.memory).")


_ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"


def _offload(resolved: ResolvedRequest) -> Iterator[Finding]:
    """A setting of PyTorch's allocator beside which vLLM moves no KV cache (vllm/config/vllm.py, 0.33.0)."""
    deployment = resolved.request.deployment
    if resolved.request.kv_offload and deployment and _ALLOCATOR in deployment.environment:
        yield warning(
            "allocator_not_checked",
            f"With kv_offload, vLLM does not start if {_ALLOCATOR} has expandable_segments:True.",
        )


def _drain(resolved: ResolvedRequest) -> Iterator[Finding]:
    deployment = resolved.request.deployment
    if deployment and deployment.drain_seconds and resolved.version < DRAINS_SINCE:
        yield warning(
            "drain_not_supported",
            f"vLLM {resolved.version} aborts running requests when a pod terminates: engine.drain needs "
            f"{DRAINS_SINCE} or newer.",
        )


_KEEPS_CACHE_SINCE = Version(0, 32, 0)


def _kept_cache(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Ranks of which only some find FlashInfer's tuning wait for one another.

    github.com/vllm-project/vllm/issues/57423; 0.32.0 reads the tuning only if every rank finds its own.
    """
    if resolved.request.keep_cache and resolved.layout.gpus > 1 and resolved.version < _KEEPS_CACHE_SINCE:
        yield warning(
            "kept_cache_may_hang",
            f"weights.cache: with several GPUs, some releases before vLLM {_KEEPS_CACHE_SINCE} hang when a server "
            f"starts a second time and FlashInfer tunes its kernels; {resolved.version} may be one of them.",
        )


def _adapters(resolved: ResolvedRequest) -> Iterator[Finding]:
    """LoRA adapters of a rank that vLLM does not take, or of a model that has no formula for them."""
    loras, rank = resolved.request.max_loras, resolved.request.max_lora_rank
    if loras is None and rank is not None:
        yield rejected("rank_without_adapters", "max_lora_rank alone serves no adapter.", "Set max_loras too.")
    if rank is not None and rank not in ADAPTER_RANKS:
        known = ", ".join(map(str, ADAPTER_RANKS))
        yield rejected("rank_not_taken", f"max_lora_rank {rank}: vLLM takes {known}.", "Use the next larger one.")
    if loras is None:
        return
    if refuses_adapters(resolved):
        text = f"vLLM {resolved.version} serves no LoRA adapters of {resolved.model.name}."
        yield rejected("adapters_not_served", text, "Leave max_loras out, or merge the adapter into the weights.")
    elif not can_adapt(resolved):
        text = f"What LoRA adapters of {resolved.model.name} take in this layout is not known."
        yield unknown("adapters_not_known", text, "Leave max_loras out, or measure it on the machine.")


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
