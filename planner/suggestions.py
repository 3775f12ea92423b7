"""Suggestions for a rejected plan. Each one is planned, and only suggested if it fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from config.catalogue import Gpu, Instance, NotInCatalogueError, find_checkpoint, find_gpu, gpus
from engines.engine import Alternative
from engines.plan import Plan
from engines.registry import engine_of
from engines.request import Deployment, FitRequest
from planner.machines import sold_as

Planner = Callable[[FitRequest], Plan]

_MACHINES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8))
"""Nodes and GPUs per node, smallest first: common machine sizes."""

_NODES = (2, 4)
"""Numbers of instances that are tried beside one."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that makes the request fit: as text and as a request."""

    text: str
    request: FitRequest


def suggest(request: FitRequest, plan: Plan, planner: Planner) -> tuple[Suggestion, ...]:
    """Every suggestion that fits, smallest change first.

    More or different GPUs are suggested only if no other layout fits.
    """
    settings = tuple(_accepted(_settings(request, plan), planner))
    layouts = tuple(_accepted(_layouts(request, plan), planner))
    more = () if layouts else tuple(_accepted(_more_gpus(request), planner))
    checkpoints = tuple(_accepted(_other_checkpoints(request), planner))
    other = () if layouts else tuple(_accepted(_other_gpus(request), planner))
    return (*settings, *layouts, *more, *checkpoints, *other)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A change to try."""

    text: str
    request: FitRequest
    alternatives: str = ""
    """Group name: only the first candidate of a group that fits is suggested. Empty: no group."""


def _accepted(candidates: Iterator[_Candidate], planner: Planner) -> Iterator[Suggestion]:
    taken: set[str] = set()
    for candidate in candidates:
        if candidate.alternatives and candidate.alternatives in taken:
            continue
        plan = planner(candidate.request)
        if plan.verdict in ("fits", "tight"):
            taken.add(candidate.alternatives)
            tight = ", which is tight" if plan.verdict == "tight" else ""
            yield Suggestion(candidate.text + tight, candidate.request)


def _changed(request: FitRequest, other: Alternative) -> _Candidate:
    """A candidate in the notation of a stack file, such as `max_model_len 131072`. Unchanged fields are left out."""
    made = {name: value for name, value in other.changes.items() if value != getattr(request, name)}
    words = [f"{name} {value}".lower() for name, value in made.items()]
    return _Candidate(" and ".join(words), other.applied(request), other.group)


def _settings(request: FitRequest, plan: Plan) -> Iterator[_Candidate]:
    """Other settings of the same engine on the same machine."""
    for other in engine_of(request.engine).settings_to_try(request, plan):
        yield _changed(request, other)


def _layouts(request: FitRequest, plan: Plan) -> Iterator[_Candidate]:
    """Other layouts on the same GPUs."""
    for other in engine_of(request.engine).layouts_to_try(request, plan):
        yield _changed(request, other)


def _more_gpus(request: FitRequest) -> Iterator[_Candidate]:
    """More GPUs of the same kind."""
    if request.gpu is None:
        return
    if request.instance_type is not None:
        yield from _more_instances(request, request.nodes * request.gpus_per_node)
        return
    title, present = find_gpu(request.gpu).title, request.nodes * request.gpus_per_node
    for nodes, each in _MACHINES:
        if nodes * each > present:
            text = f"{nodes * each} {title}" if nodes == 1 else f"{nodes} nodes of {each} {title}"
            yield _Candidate(text, _on_machine(request, nodes, each), "gpus")


def _other_checkpoints(request: FitRequest) -> Iterator[_Candidate]:
    """Other formats of the same model on the same machine."""
    try:
        model, current = find_checkpoint(request.model, request.include)
    except NotInCatalogueError:
        return
    engine = engine_of(request.engine)
    for checkpoint in model.checkpoints:
        other = checkpoint.name != current.name and checkpoint.max_context == current.max_context
        if other and engine.reads(checkpoint.format):
            yield _Candidate(f"{checkpoint.repository} ({checkpoint.format})", _of_checkpoint(request, checkpoint.name))


def _other_gpus(request: FitRequest) -> Iterator[_Candidate]:
    """The same number of GPUs with more memory, smallest memory first."""
    if request.gpu is None:
        return
    current = find_gpu(request.gpu)
    if request.instance_type is not None:
        yield from _other_instances(request, current)
        return
    larger = [gpu for gpu in gpus() if (gpu.torch_gib or 0) > (current.torch_gib or 0)]
    for gpu in sorted(larger, key=lambda gpu: gpu.torch_gib or 0):
        count = f"{request.nodes} x {request.gpus_per_node}" if request.nodes > 1 else f"{request.gpus_per_node}"
        other = replace(request, gpu=gpu.name, instance_type=None, deployment=_without_image(request))
        yield _Candidate(f"{count} {gpu.title}", other, "gpu")


def _more_instances(request: FitRequest, present: int) -> Iterator[_Candidate]:
    """Instances with more GPUs of the same kind, or more of them, fewest GPUs first."""
    same = sorted((each for each in sold_as(request.capacity) if each.gpu == request.gpu), key=lambda each: each.gpus)
    found = [(1, each) for each in same]
    found += [(nodes, each) for nodes in _NODES for each in same if each.gpus == max(each.gpus for each in same)]
    for nodes, instance in found:
        if nodes * instance.gpus > present:
            yield _on_instances(request, nodes, instance, "gpus")


def _other_instances(request: FitRequest, current: Gpu) -> Iterator[_Candidate]:
    """The same number of instances with as many GPUs, each with more memory, smallest memory first."""
    larger = [
        (find_gpu(each.gpu).torch_gib or 0, each)
        for each in sold_as(request.capacity)
        if each.gpus == request.gpus_per_node and (find_gpu(each.gpu).torch_gib or 0) > (current.torch_gib or 0)
    ]
    for _, instance in sorted(larger, key=lambda each: each[0]):
        yield _on_instances(request, request.nodes, instance, "gpu")


def _on_instances(request: FitRequest, nodes: int, instance: Instance, alternatives: str) -> _Candidate:
    """The request on instances of a type. Between several, it needs an image with EFA, which is judged later."""
    text = f"{nodes} x {instance.type} ({nodes * instance.gpus} {find_gpu(instance.gpu).title})"
    if nodes > 1 and request.nodes == 1 and request.deployment and request.deployment.image:
        text += ", with an image that has EFA libraries"
    other = replace(
        _on_machine(request, nodes, instance.gpus),
        gpu=instance.gpu,
        instance_type=instance.type,
        fabric="efa" if nodes > 1 and instance.efa_interfaces else "none",
    )
    return _Candidate(text, replace(other, deployment=_without_image(other)), alternatives)


def _without_image(request: FitRequest) -> Deployment | None:
    """The deployment without its image, which may be for one vendor's GPUs."""
    return replace(request.deployment, image=None) if request.deployment else None


def _of_checkpoint(request: FitRequest, name: str) -> FitRequest:
    """The request for another checkpoint, without settings that describe the files of the first."""
    deployment = request.deployment
    return replace(
        request,
        model=name,
        weights_bytes=None,
        include=(),
        quantization=None,
        volume_bytes=None,
        model_file=None,
        deployment=replace(deployment, locked_files=None) if deployment else None,
    )


def _on_machine(request: FitRequest, nodes: int, each: int) -> FitRequest:
    """The request on other nodes, with the default layout for them."""
    deployment = request.deployment
    if deployment is not None:
        deployment = replace(deployment, nodes=nodes * deployment.replicas)
    return replace(
        request,
        nodes=nodes,
        gpus_per_node=each,
        deployment=deployment,
        tensor_parallel=None,
        pipeline_parallel=None,
        data_parallel=None,
        prefill_context_parallel=None,
        instance_type=None,
    )
