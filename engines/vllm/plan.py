"""The plan of a model under vLLM: every rule, every stage's memory, and the verdict on both."""

from __future__ import annotations

from engines.finding import Finding
from engines.logistics import load_seconds, with_logistics
from engines.plan import Host, PerGpu, Plan, Problem, Verdict
from engines.request import FitRequest
from engines.rules.host import check_disk, check_host, host_memory_bytes, shared_memory_bytes
from engines.rules.included import check_included
from engines.verdict import judge, problems_of, warnings_of
from engines.vllm.arguments import requested_arguments, vllm_arguments, vllm_environment
from engines.vllm.kv_cache import ELEMENT_BYTES, LATENT_ONLY
from engines.vllm.memory import Memory, memory_of
from engines.vllm.resolved_request import ResolvedRequest, resolve_layout
from engines.vllm.rules.formats import check_formats
from engines.vllm.rules.layout import check_layout, every_stage_grows
from engines.vllm.rules.memory import check_known, check_memory
from engines.vllm.rules.release import check_engine
from engines.vllm.rules.widths import check_widths

_START_SECONDS = 234.0
"""From weights read to the first answer: compilation, profiling, graphs, warm-up. A public log of Kimi-K2.6 on 8 B300
takes 8.3 minutes from cold, 4.4 of them loading."""


def plan_vllm(resolved: ResolvedRequest) -> Plan:
    """The plan of a resolved. A problem has no fix yet where something that works has to be looked for."""
    request, memory = resolved.request, _memory(resolved)
    context = _context(resolved, memory)
    weights = request.weights_bytes or resolved.model.staged_bytes
    findings = [
        *check_engine(resolved),
        *check_layout(resolved),
        *check_formats(resolved),
        *check_widths(resolved),
        *resolved.compatibility.findings,
        *check_known(resolved),
        *check_included(request.include),
    ]
    if memory is not None:
        findings += check_memory(resolved, memory, context)
    if weights is not None:
        findings += check_disk(request, weights)
        findings += check_host(request, _gpus_in_pod(resolved), load_seconds(request, weights, _START_SECONDS))
    return with_logistics(_plan(resolved, findings, memory, context), request, weights, _START_SECONDS)


def _memory(resolved: ResolvedRequest) -> Memory | None:
    """The memory of the stages, where everything that it needs is known and possible."""
    backend, layout, shape = resolved.backend, resolved.layout, resolved.model.shape
    if resolved.model.unknown or resolved.gpu.memory_bytes is None or backend is None:
        return None
    if layout.pp > shape.layers or shape.heads % layout.tp or not every_stage_grows(resolved):
        return None
    latent = "MLA" in backend.name
    if resolved.kv_cache_dtype not in ELEMENT_BYTES and not (latent and resolved.kv_cache_dtype in LATENT_ONLY):
        return None
    return memory_of(resolved, resolved.gpu.memory_bytes, backend)


def _context(resolved: ResolvedRequest, memory: Memory | None) -> int:
    """The context to serve: as asked for, else the longest that surely fits, else the longest that likely does."""
    most = resolved.model.shape.max_context
    if resolved.request.max_model_len or memory is None:
        return resolved.request.max_model_len or most
    longest = memory.longest(worst=True) or memory.longest(worst=False)
    return min(most or longest, longest) or most


def _plan(resolved: ResolvedRequest, findings: list[Finding], memory: Memory | None, context: int) -> Plan:
    tight = memory is not None and memory.longest(worst=True) < context
    return Plan(
        verdict=judge(findings, tight=tight),
        problems=problems_of(findings),
        warnings=warnings_of(findings),
        layout=resolved.layout,
        per_gpu=memory.per_gpu() if memory else None,
        kv_tokens=memory.reported_tokens(context) if memory else None,
        max_context=_max_context(resolved, memory),
        engine_args=vllm_arguments(resolved, context),
        engine_env=vllm_environment(resolved),
        stages=tuple(stage.rounded() for stage in memory.stages) if memory else (),
        host=_host(resolved),
        attention_backend=resolved.backend.name if resolved.backend else None,
        kv_block_tokens=memory.fullest.pool.block_tokens if memory else None,
    )


def _max_context(resolved: ResolvedRequest, memory: Memory | None) -> int | None:
    if memory is None:
        return None
    longest = memory.longest(worst=True)
    return min(resolved.model.shape.max_context or longest, longest)


def plan_unknown_model(request: FitRequest, problem: Problem, *, verdict: Verdict = "unknown") -> Plan:
    """The plan of a model that the planner does not know, or that vLLM cannot serve: what the request says, and nothing
    of its memory."""
    layout = resolve_layout(request)
    gpus = min(layout.gpus, request.gpus_per_node) if request.gpu else 0
    shared = shared_memory_bytes(gpus) if request.shared_memory_bytes is None else request.shared_memory_bytes
    plan = Plan(
        verdict=verdict,
        problems=(problem,),
        layout=layout,
        per_gpu=PerGpu(None, None, None, None, None) if request.gpu else None,
        engine_args=requested_arguments(request, layout),
        host=Host(shared, host_memory_bytes(gpus, shared) if gpus else None),
    )
    return with_logistics(plan, request, request.weights_bytes, _START_SECONDS)


def _host(resolved: ResolvedRequest) -> Host:
    gpus, shared = _gpus_in_pod(resolved), resolved.request.shared_memory_bytes
    if shared is None:
        shared = shared_memory_bytes(gpus)
    return Host(shared, host_memory_bytes(gpus, shared), resolved.compatibility.masked_directory)


def _gpus_in_pod(resolved: ResolvedRequest) -> int:
    return min(resolved.layout.gpus, resolved.request.gpus_per_node)
