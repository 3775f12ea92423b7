"""The plan of one request: who plans it, and what is said when nobody can."""

from __future__ import annotations

from dataclasses import replace

from config.catalogue import NotInCatalogueError, find_gpu
from config.checkpoint.directory import DirectoryError
from config.checkpoint.model_spec import ModelSpec, find_model
from engines.llama_cpp.plan import plan_llama_cpp, requested_llama_arguments
from engines.logistics import with_logistics
from engines.plan import Host, PerGpu, Plan, Problem
from engines.request import FitRequest
from engines.rules.host import host_memory_bytes, shared_memory_bytes
from engines.vllm.arguments import requested_arguments
from engines.vllm.plan import plan_vllm
from engines.vllm.resolved_request import resolve, resolve_layout
from planner.faults import faults, problems_of_faults
from planner.suggestions import suggest


def fit(request: FitRequest) -> Plan:
    """The plan of a request. A fault of the request is a problem of the plan, never an exception.

    Where the plan is rejected without a way out of its own, everything that would work instead is looked for, and each
    suggestion is planned before it is printed.
    """
    plan = plan_only(request)
    if plan.verdict != "rejected" or all(problem.fix for problem in plan.problems):
        return plan
    found = suggest(request, plan, plan_only)
    fix = "What fits instead: " + "; ".join(suggestion.text for suggestion in found) + "."
    if not found:
        fix = "No checkpoint of this model, layout or number of these GPUs up to 32 was found to fit."
    if not found and any(problem.fix for problem in plan.problems):
        fix = "Nothing fits as long as the other problems stand: correct them first."
    return replace(
        plan, problems=tuple(problem if problem.fix else replace(problem, fix=fix) for problem in plan.problems)
    )


def plan_only(request: FitRequest) -> Plan:
    """The plan of a request, without suggestions."""
    if found := faults(request):
        return Plan(verdict="rejected", problems=problems_of_faults(found))
    try:
        model = find_model(request.model, request.include)
    except NotInCatalogueError as error:
        fix = "Add it with `python -m config add`, give its directory, or correct the name."
        return _not_planned(request, Problem("model_not_in_catalogue", str(error), fix))
    except DirectoryError as error:
        return _not_planned(request, Problem("directory_not_readable", str(error), "Correct the directory."))
    return _planned(request, model)


def _planned(request: FitRequest, model: ModelSpec) -> Plan:
    if request.engine == "llama.cpp" or model.is_gguf:
        return plan_llama_cpp(request, model)
    if request.gpu is None:
        problem = Problem("gpu_needed", f"{request.engine} serves from GPUs: none is given.", "Name a GPU.")
        return replace(_not_planned(request, problem), verdict="rejected")
    return plan_vllm(resolve(request, model, find_gpu(request.gpu)))


def _not_planned(request: FitRequest, problem: Problem) -> Plan:
    """A plan of what the request itself says: bytes, durations and arguments, and no verdict on memory."""
    layout = resolve_layout(request)
    gpus = min(layout.gpus, request.gpus_per_node) if request.gpu else 0
    shared = shared_memory_bytes(gpus) if request.shared_memory_bytes is None else request.shared_memory_bytes
    plan = Plan(
        verdict="unknown",
        problems=(problem,),
        layout=layout,
        per_gpu=PerGpu(None, None, None, None, None) if request.gpu else None,
        engine_args=(
            requested_arguments(request, layout) if request.engine == "vllm" else requested_llama_arguments(request)
        ),
        host=Host(shared, host_memory_bytes(gpus, shared) if gpus else None),
    )
    return with_logistics(plan, request, request.weights_bytes)
