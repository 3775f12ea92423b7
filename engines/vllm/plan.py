"""The plan of a model under vLLM: every rule, every stage's memory, and the verdict on both."""

from __future__ import annotations

from engines.finding import Finding
from engines.logistics import load_seconds, with_logistics
from engines.plan import Host, Plan
from engines.rules.host import check_disk, check_host, host_memory_bytes, shared_memory_bytes
from engines.rules.included import check_included
from engines.verdict import judge, problems_of, warnings_of
from engines.vllm.arguments import vllm_arguments, vllm_environment
from engines.vllm.kv_cache import ELEMENT_BYTES, LATENT_ONLY
from engines.vllm.memory import Memory, memory_of
from engines.vllm.resolved_request import Case
from engines.vllm.rules.formats import check_formats
from engines.vllm.rules.layout import check_layout, every_stage_grows
from engines.vllm.rules.memory import check_known, check_memory
from engines.vllm.rules.release import check_engine
from engines.vllm.rules.widths import check_widths


def plan_vllm(case: Case) -> Plan:
    """The plan of a case. A problem has no fix yet where something that works has to be looked for."""
    request, memory = case.request, _memory(case)
    context = _context(case, memory)
    weights = request.weights_bytes or case.subject.staged_bytes
    findings = [
        *check_engine(case),
        *check_layout(case),
        *check_formats(case),
        *check_widths(case),
        *case.compatibility.findings,
        *check_known(case),
        *check_included(request.include),
    ]
    if memory is not None:
        findings += check_memory(case, memory, context)
    if weights is not None:
        findings += check_disk(request, weights)
        findings += check_host(request, _gpus_in_pod(case), load_seconds(request, weights))
    return with_logistics(_plan(case, findings, memory, context), request, weights)


def _memory(case: Case) -> Memory | None:
    """The memory of the stages, where everything that it needs is known and possible."""
    backend, layout, shape = case.backend, case.layout, case.subject.shape
    if case.subject.unknown or case.gpu.memory_bytes is None or backend is None:
        return None
    if layout.pp > shape.layers or shape.heads % layout.tp or not every_stage_grows(case):
        return None
    latent = "MLA" in backend.name
    if case.kv_cache_dtype not in ELEMENT_BYTES and not (latent and case.kv_cache_dtype in LATENT_ONLY):
        return None
    return memory_of(case, case.gpu.memory_bytes, backend)


def _context(case: Case, memory: Memory | None) -> int:
    """The context to serve: as asked for, else the longest that surely fits, else the longest that likely does."""
    most = case.subject.shape.max_context
    if case.request.max_model_len or memory is None:
        return case.request.max_model_len or most
    longest = memory.longest(worst=True) or memory.longest(worst=False)
    return min(most or longest, longest) or most


def _plan(case: Case, findings: list[Finding], memory: Memory | None, context: int) -> Plan:
    tight = memory is not None and memory.longest(worst=True) < context
    return Plan(
        verdict=judge(findings, tight=tight),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=case.layout,
        per_gpu=memory.per_gpu() if memory else None,
        kv_tokens=memory.reported_tokens(context) if memory else None,
        max_context=_max_context(case, memory),
        engine_args=vllm_arguments(case, context),
        engine_env=vllm_environment(case),
        stages=tuple(stage.rounded() for stage in memory.stages) if memory else (),
        host=_host(case),
        attention_backend=case.backend.name if case.backend else None,
        kv_block_tokens=memory.fullest.pool.block_tokens if memory else None,
    )


def _max_context(case: Case, memory: Memory | None) -> int | None:
    if memory is None:
        return None
    longest = memory.longest(worst=True)
    return min(case.subject.shape.max_context or longest, longest)


def _host(case: Case) -> Host:
    gpus, shared = _gpus_in_pod(case), case.request.shared_memory_bytes
    if shared is None:
        shared = shared_memory_bytes(gpus)
    return Host(shared, host_memory_bytes(gpus, shared), case.compatibility.masked_directory)


def _gpus_in_pod(case: Case) -> int:
    return min(case.layout.gpus, case.request.gpus_per_node)
