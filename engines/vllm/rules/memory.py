"""Rules for weights and context against GPU memory, and for facts that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from config.checkpoint.model_spec import ModelSpec
from config.checkpoint.rotary import yarn_reach
from config.checkpoint.safetensors import UNKNOWN_ROLE
from config.units import GIB
from engines.finding import Finding, rejected, unknown, warning
from engines.versions import Version
from engines.vllm.memory.stages import Memory, budget_bytes, sparse_scratch_bytes, weights_by_group
from engines.vllm.resolved_request import SPARSE_BATCHED_TOKENS, ResolvedRequest, can_stretch

_SPARSE_SCRATCH = "github.com/vllm-project/vllm/issues/53413"


def check_known(resolved: ResolvedRequest) -> Iterator[Finding]:
    """What the planner does not know of the model or the GPU."""
    for what in resolved.model.unknown:
        fix = "Measure it on the machine, or serve a model that the planner knows."
        yield unknown("model_not_known", f"{resolved.model.name}: the planner does not know {what}.", fix)
    if not resolved.model.unknown and not resolved.model.shape.checked:
        yield warning(
            "model_type_not_checked",
            f"Model type {resolved.model.family.config.get('model_type')!r} has not been compared with the engine: "
            "its cache follows from the fields of its config.json.",
        )
    if resolved.model.checkpoint.unread:
        yield warning("quantization_file_not_read", f"{resolved.model.name}: {resolved.model.checkpoint.unread}.")
    if resolved.gpu.derived:
        yield warning("gpu_memory_derived", f"The memory of {resolved.gpu.title} is derived {resolved.gpu.derived}.")
    if resolved.gpu.gfx:
        yield warning(
            "gpu_hardly_measured",
            f"What vLLM takes beside weights and cache on {resolved.gpu.title} is counted as on NVIDIA's GPUs: three "
            "public logs of AMD GPUs agree (docs/accuracy.md).",
        )
    if resolved.gpu.memory_bytes is None:
        title = resolved.gpu.title
        message = f"No public log shows the memory that torch reports for {title}; nvidia-smi shows more."
        yield unknown("gpu_memory_not_known", message, "Plan with a GPU whose memory is known.")
    if resolved.model.unknown and resolved.model.groups and resolved.gpu.memory_bytes is not None:
        yield from _weights_alone(resolved, resolved.gpu.memory_bytes)


def _weights_alone(resolved: ResolvedRequest, memory_bytes: int) -> Iterator[Finding]:
    """Rejections that follow from the weights alone, for a model of which nothing else is known."""
    budget = budget_bytes(memory_bytes, resolved.utilization)
    stages = range(min(resolved.layout.pp, resolved.model.shape.layers))
    # Tensors of unknown sharding may be cut into any number of parts.
    by_stage = [weights_by_group(resolved, index) for index in stages]
    least = max(sum(size for group, size in sizes.items() if group != UNKNOWN_ROLE) for sizes in by_stage)
    if least > budget:
        yield rejected(
            "weights_do_not_fit",
            f"{least / GIB:.1f} GiB of weights per GPU, at least, exceed the {budget / GIB:.1f} GiB that "
            f"gpu_memory_utilization {resolved.utilization:g} allows of {resolved.gpu.title}, before any cache.",
        )


_MOST_USED = 0.98
_LEAST_BESIDE = 1 * GIB
"""Our own choice: a CUDA context alone takes about half of it."""

_YARN_READ_IN = Version(0, 33, 0)
"""From here on max_position_embeddings is known to bound a context that YaRN scales (vllm/config/model.py)."""


def _reach_in_older_releases(resolved: ResolvedRequest) -> int:
    """Tokens that the YaRN of a checkpoint reaches, in a release that may count them; else 0."""
    config = resolved.model.family.config
    if resolved.version >= _YARN_READ_IN:
        return 0
    return yarn_reach({**config, **(config.get("text_config") or {})})


def check_memory(resolved: ResolvedRequest, memory: Memory, context: int) -> Iterator[Finding]:
    """Findings about weights, cache and context of a request whose memory is known."""
    most = resolved.max_context
    if most < context <= _reach_in_older_releases(resolved):
        text = f"Whether vLLM {resolved.version} serves the {context:,} tokens that YaRN reaches is not known."
        yield unknown("yarn_context_not_known", text, f"Set max_model_len to {most}, or use vLLM {_YARN_READ_IN}.")
    elif most and context > most:
        yield rejected(
            "context_beyond_model",
            f"max_model_len {context:,} exceeds the {most:,} tokens that {_shortest(resolved).name} supports.",
            f"Set max_model_len to {most} or less{', or yarn_factor' if can_stretch(_shortest(resolved)) else ''}.",
        )
    yield from _weights_fit(resolved, memory)
    yield from _free_at_start(resolved, memory)
    if memory.longest(worst=False) < context:
        yield from _context_fits(memory, context)
    if resolved.sparse_scratch_missed and resolved.batched_tokens > SPARSE_BATCHED_TOKENS:
        scratch = sparse_scratch_bytes(resolved.batched_tokens) / GIB
        yield warning(
            "sparse_decode_scratch",
            f"Sparse decode with an fp8 cache allocates up to {scratch:.1f} GiB at max_num_batched_tokens "
            f"{resolved.batched_tokens:,} that the engine does not measure at its start ({_SPARSE_SCRATCH}); the "
            f"plan reserves it. {SPARSE_BATCHED_TOKENS:,} needs a quarter or less.",
        )
    if resolved.request.max_model_len is None and context < most:
        yield warning("context_shortened", f"The context is shortened to {context:,}; the model's {most:,} do not fit.")


def _shortest(resolved: ResolvedRequest) -> ModelSpec:
    """The model that bounds the context: the served one, or its draft model."""
    drafts = resolved.draft is not None and resolved.max_context < resolved.model.shape.max_context
    return resolved.draft.model if drafts and resolved.draft else resolved.model


def _free_at_start(resolved: ResolvedRequest, memory: Memory) -> Iterator[Finding]:
    """What the budget leaves for the CUDA context and the collective library, which are on the GPU before vLLM compares
    its budget with the free memory and stops if that is less (vllm/v1/worker/utils.py request_memory, 0.33.0)."""
    beside = (resolved.gpu.memory_bytes or 0) - memory.budget
    share = f"gpu_memory_utilization {resolved.utilization:g} leaves {beside / GIB:.2f} GiB of {resolved.gpu.title}"
    why = "vLLM does not start if the CUDA context and the collective library take more"
    if beside <= 0:
        yield rejected("no_memory_beside_budget", f"{share}: {why}.", f"Set it to {_MOST_USED} or less.")
    elif beside < _LEAST_BESIDE:
        yield warning("little_memory_beside_budget", f"{share}: {why}.")


def _weights_fit(resolved: ResolvedRequest, memory: Memory) -> Iterator[Finding]:
    """Weights against the GPU and against what the engine may use of it."""
    stage = max(memory.stages, key=lambda stage: stage.weights + stage.overhead.likely)
    total = resolved.gpu.memory_bytes or 0
    weights, budget = stage.weights / GIB, memory.budget / GIB
    if stage.weights > total:
        yield rejected(
            "weights_do_not_fit",
            f"{weights:.1f} GiB of weights per GPU, and {resolved.gpu.title} has {total / GIB:.1f} GiB in all, of "
            f"which gpu_memory_utilization {resolved.utilization:g} allows {budget:.1f}."
            + (" No flag can help." if resolved.layout.gpus >= resolved.gpus_present else ""),
        )
    elif resolved.request.available_kv_gib is None and stage.weights + stage.overhead.likely >= memory.budget:
        left = f"leave {budget - weights:.1f} of" if weights < budget else "are more than"
        yield rejected(
            "weights_do_not_fit",
            f"{weights:.2f} GiB of weights per GPU {left} the {budget:.2f} GiB that gpu_memory_utilization "
            f"{resolved.utilization:g} allows of {resolved.gpu.title}; activations, graphs and communication take "
            f"{stage.overhead.likely / GIB:.1f} to {stage.overhead.worst / GIB:.1f}.",
        )


def _context_fits(memory: Memory, context: int) -> Iterator[Finding]:
    """One request of the whole context against the cache that is left."""
    stage = memory.fullest
    if stage.kv_likely <= 0:
        return
    needed = stage.pool.bytes_of_request(context) / GIB
    yield rejected(
        "context_does_not_fit",
        f"One request of {context:,} tokens takes {needed:.2f} GiB of KV cache per GPU "
        f"({stage.pool.bytes_per_token:,} B per token); {stage.kv_worst / GIB:.2f} to {stage.kv_likely / GIB:.2f} GiB "
        f"are left. The longest that likely fits is {memory.longest(worst=False):,} tokens, and surely "
        f"{memory.longest(worst=True):,}.",
    )
