"""The plan of a model under vLLM: every rule, every stage's memory, and the verdict on both."""

from __future__ import annotations

from collections.abc import Iterator

from planner.attention_backend import Backend
from planner.case import SPARSE_BATCHED_TOKENS, Case
from planner.cost import cost_per_hour
from planner.durations import download_seconds, load_seconds
from planner.engine_arguments import vllm_arguments, vllm_environment
from planner.finding import Finding, Severity, rejected, unknown, warning
from planner.kv_cache import ELEMENT_BYTES, LATENT_ONLY
from planner.memory import GIB, Memory, budget_bytes, memory_of, weights_by_group
from planner.plan import Host, Plan, Problem, Verdict, Warning_
from planner.rules.driver import check_driver, driver_compatibility
from planner.rules.engine import check_engine
from planner.rules.formats import check_formats
from planner.rules.host import check_disk, check_host, disk_bytes, host_memory_bytes, shared_memory_bytes
from planner.rules.layout import check_layout, every_stage_grows

_SPARSE_SCRATCH = "github.com/vllm-project/vllm/issues/53413"


def plan_vllm(case: Case) -> Plan:
    """The plan of a case. Its problems have no fix yet where something else has to be looked for."""
    findings = [*check_engine(case), *check_layout(case), *check_formats(case), *check_driver(case)]
    findings += _known_memory(case)
    memory = _memory(case)
    context = 0
    if memory is not None:
        context = _context(case, memory)
        findings += _memory_findings(case, memory, context)
        if case.request.max_model_len is None:
            findings += _shortened(case, context)
    weights = case.request.weights_bytes or case.subject.staged_bytes
    if weights is not None:
        findings += check_disk(case.request, weights)
        findings += check_host(case.request, _gpus_in_pod(case), load_seconds(case.request, weights))
    return _assemble(case, findings, memory, context, weights)


def judge(findings: list[Finding], *, tight: bool) -> Verdict:
    """The verdict that findings add up to: a reason to reject weighs more than something unknown."""
    severities = {finding.severity for finding in findings}
    if Severity.REJECTED in severities:
        return "rejected"
    if Severity.UNKNOWN in severities:
        return "unknown"
    return "tight" if tight else "fits"


def problems_of(findings: list[Finding]) -> tuple[Problem, ...]:
    """What rejects a plan or leaves it open, the rejections first."""
    ordered = sorted(findings, key=lambda finding: finding.severity is not Severity.REJECTED)
    return tuple(Problem(f.code, f.message, f.fix) for f in ordered if f.severity is not Severity.WARNING)


def warnings_of(findings: list[Finding]) -> tuple[Warning_, ...]:
    """What is deployed all the same."""
    return tuple(Warning_(f.code, f.message) for f in findings if f.severity is Severity.WARNING)


def _known_memory(case: Case) -> Iterator[Finding]:
    """What stands between the request and its memory."""
    for what in case.subject.unknown:
        fix = "Measure it on the machine itself, or serve a model that the planner knows."
        yield unknown("model_not_known", f"{case.subject.name}: the planner does not know {what}.", fix)
    if case.gpu.memory_bytes is None:
        message = (
            f"What torch reports as memory of {case.gpu.title} is in no public log; nvidia-smi shows more than that."
        )
        yield unknown("gpu_memory_not_known", message, "Plan with a GPU whose memory is known.")
    if case.subject.unknown and case.subject.groups and case.gpu.memory_bytes is not None:
        yield from _weights_alone(case, case.gpu.memory_bytes)


def _weights_alone(case: Case, memory_bytes: int) -> Iterator[Finding]:
    """A model of which only the weights are known: what they alone rule out."""
    budget = budget_bytes(memory_bytes, case.utilization)
    stages = range(min(case.layout.pp, case.subject.shape.layers))
    least = max(sum(weights_by_group(case, index).values()) for index in stages)
    if least > budget:
        yield rejected(
            "weights_do_not_fit",
            f"{least / GIB:.1f} GiB of weights per GPU at the least are more than the {budget / GIB:.1f} GiB that "
            f"gpu_memory_utilization {case.utilization:g} allows of {case.gpu.title}, before any cache.",
        )


def _memory(case: Case) -> Memory | None:
    """The memory of the stages, where everything that it needs is known and possible."""
    backend, layout, shape = case.backend, case.layout, case.subject.shape
    if case.subject.unknown or case.gpu.memory_bytes is None or backend is None:
        return None
    if layout.pp > shape.layers or shape.heads % layout.tp or not every_stage_grows(case):
        return None
    if not _countable(case, backend):
        return None
    return memory_of(case, case.gpu.memory_bytes, backend)


def _countable(case: Case, backend: Backend) -> bool:
    """Whether the cache type has a formula for this attention."""
    latent = "MLA" in backend.name
    return case.kv_cache_dtype in ELEMENT_BYTES or (latent and case.kv_cache_dtype in LATENT_ONLY)


def _context(case: Case, memory: Memory) -> int:
    """The context to serve: as asked for, else the longest that surely fits, else the longest that likely does."""
    if case.request.max_model_len:
        return case.request.max_model_len
    longest = memory.longest(worst=True) or memory.longest(worst=False)
    most = case.subject.shape.max_context or longest
    return min(most, longest) or most


def _memory_findings(case: Case, memory: Memory, context: int) -> Iterator[Finding]:
    most = case.subject.shape.max_context
    if most and context > most:
        yield rejected(
            "context_beyond_model",
            f"max_model_len {context:,} is beyond the {most:,} tokens that {case.subject.name} was made for.",
            f"Ask for {most:,} at most.",
        )
    yield from _weights_fit(case, memory)
    if memory.longest(worst=False) < context:
        yield from _context_fits(memory, context)
    if case.sparse_scratch_missed and case.batched_tokens > SPARSE_BATCHED_TOKENS:
        scratch = 2 * case.batched_tokens * 64 * 512 * 4 / GIB
        yield warning(
            "sparse_decode_scratch",
            f"Sparse decode with an fp8 cache allocates up to {scratch:.1f} GiB at max_num_batched_tokens "
            f"{case.batched_tokens:,} that start-up does not measure ({_SPARSE_SCRATCH}): counted here as reserve. "
            f"{SPARSE_BATCHED_TOKENS:,} needs a quarter or less.",
        )


def _weights_fit(case: Case, memory: Memory) -> Iterator[Finding]:
    """Weights against the GPU and against what the engine may use of it."""
    stage = max(memory.stages, key=lambda stage: stage.weights + stage.overhead.likely)
    total = case.gpu.memory_bytes or 0
    weights, budget = stage.weights / GIB, memory.budget / GIB
    if stage.weights > total:
        yield rejected(
            "weights_do_not_fit",
            f"{weights:.1f} GiB of weights per GPU, and {case.gpu.title} has {total / GIB:.1f} GiB in all, of which "
            f"gpu_memory_utilization {case.utilization:g} allows {budget:.1f}. No flag can help.",
        )
    elif case.request.available_kv_gib is None and stage.weights + stage.overhead.likely >= memory.budget:
        left = f"leave {budget - weights:.1f} of" if weights < budget else "are more than"
        yield rejected(
            "weights_do_not_fit",
            f"{weights:.2f} GiB of weights per GPU {left} the {budget:.2f} GiB that gpu_memory_utilization "
            f"{case.utilization:g} allows of {case.gpu.title}; activations, graphs and communication take "
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


def _shortened(case: Case, context: int) -> Iterator[Finding]:
    most = case.subject.shape.max_context
    if context < most:
        yield warning("context_shortened", f"The context is set to {context:,}; the model's {most:,} do not fit.")


def _gpus_in_pod(case: Case) -> int:
    return min(case.layout.gpus, case.request.gpus_per_node)


def _assemble(case: Case, findings: list[Finding], memory: Memory | None, context: int, weights: int | None) -> Plan:
    request = case.request
    tight = memory is not None and memory.longest(worst=True) < context
    shared = request.shared_memory_bytes
    if shared is None:
        shared = shared_memory_bytes(_gpus_in_pod(case))
    return Plan(
        verdict=judge(findings, tight=tight),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=case.layout,
        per_gpu=memory.per_gpu() if memory else None,
        kv_tokens=memory.reported_tokens(context) if memory else None,
        max_context=_max_context(case, memory),
        weights_bytes=weights,
        disk_bytes=disk_bytes(weights, request.keep_revisions) if weights is not None else None,
        download_seconds=round(download_seconds(request, weights), 1) if weights is not None else None,
        load_seconds=round(load_seconds(request, weights), 1) if weights is not None else None,
        cost_per_hour_usd=cost_per_hour(request),
        engine_args=vllm_arguments(case, context or case.subject.shape.max_context),
        engine_env=vllm_environment(case),
        stages=tuple(stage.rounded() for stage in memory.stages) if memory else (),
        host=Host(shared, host_memory_bytes(_gpus_in_pod(case), shared), driver_compatibility(case).masked_directory),
    )


def _max_context(case: Case, memory: Memory | None) -> int | None:
    if memory is None:
        return None
    return min(case.subject.shape.max_context or memory.longest(worst=True), memory.longest(worst=True))
