"""Plans a request with its engine, and adds suggestions to a rejected plan."""

from __future__ import annotations

from dataclasses import replace

from config.catalogue import NotInCatalogueError, described_gpu, find_gpu
from config.checkpoint.directory import DirectoryError
from config.checkpoint.model_spec import ModelSpec, find_model
from engines.finding import Finding, unknown
from engines.plan import Plan
from engines.registry import engine_of
from engines.request import FitRequest
from engines.speed import Workload
from planner.faults import faults, problems_of_faults
from planner.speed import with_speed
from planner.suggestions import suggest


def fit(request: FitRequest) -> Plan:
    """The plan of a request, with its speed. Invalid values become problems of the plan; nothing is raised.

    A rejected plan gets suggestions for each problem that has no fix of its own.
    """
    plan, model = _planned(request)
    if plan.verdict != "rejected":
        return plan if model is None else with_speed(plan, request, model)
    if all(problem.fix for problem in plan.problems):
        return plan
    found = suggest(request, plan, plan_only)
    fix = "What fits instead: " + "; ".join(suggestion.text for suggestion in found) + "."
    if not found:
        fix = "No other checkpoint of this model, layout or number of these GPUs up to 32 fits."
    if not found and any(problem.fix for problem in plan.problems):
        fix = "Nothing fits until the other problems are corrected."
    return replace(
        plan, problems=tuple(problem if problem.fix else replace(problem, fix=fix) for problem in plan.problems)
    )


def plan_only(request: FitRequest) -> Plan:
    """The plan of a request, without suggestions and speed."""
    return _planned(request)[0]


def _planned(request: FitRequest) -> tuple[Plan, ModelSpec | None]:
    """The plan of a request, and the model where its engine planned it."""
    if found := faults(request):
        return Plan(verdict="rejected", problems=problems_of_faults(found)), None
    try:
        model = find_model(request.model, request.include)
    except NotInCatalogueError as error:
        fix = "Add it with `python -m config add`, give its directory, or correct the name."
        why = unknown("model_not_in_catalogue", f"{error}.", fix)
        return engine_of(request.engine).plan_unknown_model(request, why), None
    except DirectoryError as error:
        why = unknown("directory_not_readable", f"{error}.", "Correct the directory.")
        return engine_of(request.engine).plan_unknown_model(request, why), None
    if (no_draft := _unknown_draft(request)) is not None:
        return engine_of(request.engine).plan_unknown_model(request, no_draft), None
    if (unlisted := _unlisted_gpu(request)) is not None:
        known = replace(request, weights_bytes=request.weights_bytes or model.staged_bytes)
        return engine_of(request.engine).plan_unknown_model(known, unlisted), None
    return engine_of(request.engine).plan(request, model), model


def with_workload(plan: Plan, request: FitRequest, workload: Workload | None) -> Plan:
    """The plan with the speed of other requests. None: those that it has."""
    if workload is None or plan.speed is None:
        return plan
    return with_speed(replace(plan, speed=None), request, find_model(request.model, request.include), workload)


def _unknown_draft(request: FitRequest) -> Finding | None:
    """The finding about a draft model that the planner does not know. None: it knows it, or there is none."""
    try:
        if request.draft is not None:
            find_model(request.draft, request.draft_include)
    except NotInCatalogueError as error:
        fix = "Add the draft model with `python -m config add`, or correct its name."
        return unknown("draft_not_in_catalogue", f"The draft model: {error}.", fix)
    except DirectoryError as error:
        return unknown("directory_not_readable", f"The draft model: {error}.", "Correct the directory.")
    return None


def _unlisted_gpu(request: FitRequest) -> Finding | None:
    """The finding about a GPU that the catalogue does not list. None: it lists the GPU, or there is none."""
    if request.gpu is None:
        return None
    try:
        find_gpu(request.gpu)
    except NotInCatalogueError as error:
        resource = described_gpu(request.gpu).vendor.resource
        text = f"{error}. Its memory is not known, and the pods ask for {resource}."
        return unknown("gpu_not_in_catalogue", text, "Correct the name, or add a row to config/data/gpus.json.")
    return None
