"""Rules for GGUF models: staged files, memory, and needless expert offload."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import ceil

from config.catalogue import Checkpoint, Gguf, Gpu
from config.checkpoint.model_spec import ModelSpec
from config.units import GIB
from engines.finding import Finding, rejected, unknown, warning
from engines.llama_cpp.memory import CACHE_BYTES, GgufRequest, device_need, host_memory_of
from engines.request import FitRequest
from engines.rules.included import stages


def check_gguf_request(request: FitRequest, model: ModelSpec, weights: int | None) -> Iterator[Finding]:
    """Findings that do not depend on memory."""
    yield from _format(model)
    yield from check_node(request)
    dtype = request.kv_cache_dtype
    if dtype is not None and dtype not in CACHE_BYTES:
        expected = ", ".join(CACHE_BYTES)
        yield rejected("cache_type_not_known", f"kv_cache_dtype {dtype!r}: expected {expected}.", "Correct it.")
    if model.checkpoint.gguf and request.include:
        yield from _staged_set(model.checkpoint.gguf, request.include)
    for what in model.unknown:
        message = f"{model.name}: the planner does not know {what}."
        yield unknown("model_not_known", message, "Measure it on the machine.")
    if weights is None:
        yield unknown("weights_not_known", f"The size of {model.name} is not known.", "Name a lock file.")


def check_draft(request: FitRequest) -> Iterator[Finding]:
    """Rejects a draft model: its memory beside the model's is not known."""
    if request.draft is not None:
        text = "The planner supports draft models under vLLM only."
        yield rejected("draft_not_supported", text, "Leave the draft model out, or use vLLM.")


def check_cache(request: FitRequest) -> Iterator[Finding]:
    """Rejects a kept cache: llama.cpp compiles nothing at its start."""
    if request.keep_cache:
        text = "weights.cache keeps what vLLM compiles at its start, and llama.cpp compiles nothing."
        yield rejected("cache_not_supported", text, "Remove it.")


def check_node(request: FitRequest) -> Iterator[Finding]:
    """Rejects a server over several nodes."""
    if request.nodes > 1:
        fix = "Use one node, or vLLM on several."
        yield rejected("one_node_only", "The planner supports llama.cpp on one node only.", fix)


def _format(model: ModelSpec) -> Iterator[Finding]:
    if not model.is_gguf:
        message = f"{model.name} is {model.checkpoint.format}, and llama.cpp reads GGUF files."
        yield rejected("not_gguf", message, "Use vLLM, or a GGUF conversion.")


def _staged_set(gguf: Gguf, include: tuple[str, ...]) -> Iterator[Finding]:
    """Patterns that stage a part of a set of shards (github.com/ggml-org/llama.cpp/issues/15164)."""
    names = _shards(gguf)
    missing = [name for name in names if not stages(include, name)]
    if missing:
        yield rejected(
            "shards_missing",
            f"The include patterns {', '.join(include)} stage {len(names) - len(missing)} of the {len(names)} shards "
            f"of {gguf.quantization}; {missing[0]} is missing.",
            f"Use a pattern for the whole set, such as {gguf.pattern}.",
        )


def unknown_quantization(request: FitRequest, model: ModelSpec) -> Finding | None:
    """Patterns that stage none of the quantisations of a repository that the catalogue has. None: they stage one."""
    gguf, include = model.checkpoint.gguf, request.include
    if not (gguf and include) or any(stages(include, name) for name in _shards(gguf)):
        return None
    others = sorted({other.gguf.pattern for other in _siblings(model) if other.gguf})
    return unknown(
        "nothing_included",
        f"The include patterns {', '.join(include)} stage no quantisation of {model.checkpoint.repository} that the "
        "catalogue knows.",
        f"Use {' or '.join(others)}, or add another one with `python -m config add`.",
    )


def _shards(gguf: Gguf) -> list[str]:
    return [re.sub("-00001-of-", f"-{number:05}-of-", gguf.first_shard) for number in range(1, gguf.shards + 1)]


def _siblings(model: ModelSpec) -> list[Checkpoint]:
    repository = model.checkpoint.repository
    return [checkpoint for checkpoint in model.family.checkpoints if checkpoint.repository == repository]


def check_gguf_memory(resolved: GgufRequest, context: int) -> Iterator[Finding]:
    """Findings about weights, cache and context."""
    if resolved.longest_of_model and context > resolved.longest_of_model:
        yield rejected(
            "context_beyond_model",
            f"max_model_len {context:,} over {resolved.slots} slots is beyond the {resolved.model.shape.max_context:,} "
            f"tokens of {resolved.model.name}.",
            f"Set max_model_len to {resolved.longest_of_model} or less.",
        )
    if context < resolved.slots:
        slots = f"{resolved.slots:,} slots (max_num_seqs)"
        text = f"max_model_len {context:,} is divided among {slots}: less than one token for each."
        yield rejected("context_below_slots", text, "Set max_model_len to the tokens of all slots together.")
    yield from _host_known(resolved, context)
    if resolved.gpu is None:
        yield from _host_holds(resolved, context)
    elif resolved.gpu.memory_bytes is None:
        yield unknown(
            "gpu_memory_not_known", f"The memory of {resolved.gpu.title} is in no public log.", "Name another."
        )
    else:
        yield from _gpus_hold(resolved, resolved.gpu, resolved.gpu.memory_bytes, context)


def _gpus_hold(resolved: GgufRequest, gpu: Gpu, memory: int, context: int) -> Iterator[Finding]:
    need = device_need(resolved, context)
    if need.likely > memory:
        yield rejected(
            "weights_do_not_fit" if need.weights > memory else "context_does_not_fit",
            f"{need.weights / GIB:.1f} GiB of weights and {need.cache / GIB:.1f} of KV cache for {context:,} tokens on "
            f"the fullest of {resolved.devices} GPUs, and {gpu.title} has {memory / GIB:.1f} GiB.",
        )
    if resolved.request.expert_offload and resolved.model.shape.experts is None:
        yield warning("no_experts", f"{resolved.model.name} has no experts: expert_offload does nothing.")
    if not resolved.placement.uses_host:
        return
    whole = device_need(resolved.with_experts_on_gpus(), context)
    if whole.worst <= memory:
        yield warning(
            "expert_offload_not_needed",
            f"The experts go to host memory although they fit on the GPUs: {whole.worst / GIB:.1f} GiB at the worst of "
            f"{gpu.title}'s {memory / GIB:.1f} on each. Every token waits for the processor.",
        )
    else:
        yield warning("expert_offload_slow", "The experts go to host memory: every token waits for the processor.")


def _host_known(resolved: GgufRequest, context: int) -> Iterator[Finding]:
    """Weights in host memory of unknown size. In a stack, the container requests the memory from its node."""
    request = resolved.request
    if request.host_memory_bytes is not None or request.deployment is not None:
        return
    if resolved.gpu is None or resolved.placement.uses_host:
        needed = host_memory_of(resolved, context) / GIB
        yield unknown(
            "host_memory_not_known",
            f"{needed:.1f} GiB of host memory are needed beside the GPUs, and the memory of the node is not stated.",
            "State the memory of the node.",
        )


def _host_holds(resolved: GgufRequest, context: int) -> Iterator[Finding]:
    need, given = device_need(resolved, context), resolved.request.host_memory_bytes
    if given is not None and need.likely > given:
        yield rejected(
            "host_memory_too_small",
            f"Weights, KV cache and buffers take {need.likely / GIB:.1f} GiB of host memory, and {given / GIB:.1f} "
            "are given.",
            f"Set memory to {ceil(need.worst / GIB)}Gi, or lower max_model_len.",
        )
