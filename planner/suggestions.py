"""What would work instead of a rejected plan. Every suggestion is planned itself before it is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from config.catalogue import NotInCatalogueError, find_checkpoint, find_gpu, gpus
from engines.plan import Layout, Plan
from engines.request import FitRequest
from engines.vllm.resolved_request import resolve_layout

Planner = Callable[[FitRequest], Plan]

_MACHINES = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 8), (4, 8))
"""Nodes and GPUs of each, smallest first: what is bought and rented."""

_FEWER_SEQUENCES = 256


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A change that works, in words and as a request."""

    text: str
    request: FitRequest


def suggest(request: FitRequest, plan: Plan, planner: Planner) -> tuple[Suggestion, ...]:
    """Every suggestion that the planner accepts, the smallest changes first.

    Where another layout does, more or other GPUs are not suggested.
    """
    settings = tuple(_accepted(_settings(request, plan), planner))
    layouts = tuple(_accepted(_layouts(request, plan.layout), planner))
    more = () if layouts else tuple(_accepted(_more_gpus(request), planner))
    checkpoints = tuple(_accepted(_other_checkpoints(request), planner))
    other = () if layouts else tuple(_accepted(_other_gpus(request), planner))
    return (*settings, *layouts, *more, *checkpoints, *other)


@dataclass(frozen=True, slots=True)
class _Idea:
    """A change to try."""

    text: str
    request: FitRequest
    alternatives: str = ""
    """Of the ideas with the same word here only the first that works is suggested."""


def _accepted(ideas: Iterator[_Idea], planner: Planner) -> Iterator[Suggestion]:
    taken: set[str] = set()
    for idea in ideas:
        if idea.alternatives and idea.alternatives in taken:
            continue
        plan = planner(idea.request)
        if plan.verdict in ("fits", "tight"):
            taken.add(idea.alternatives)
            tight = ", which is tight" if plan.verdict == "tight" else ""
            yield Suggestion(idea.text + tight, idea.request)


def _changed(request: FitRequest, alternatives: str = "", **changes: int | str) -> _Idea:
    """An idea in the notation of a stack file, such as `max_model_len 131072`; what stays as it is goes unsaid."""
    made = {name: value for name, value in changes.items() if value != getattr(request, name)}
    words = [f"{name} {value}".lower() for name, value in made.items()]
    return _Idea(" and ".join(words), replace(request, **changes), alternatives)  # type: ignore[arg-type]


def _settings(request: FitRequest, plan: Plan) -> Iterator[_Idea]:
    """Other settings of the same engine on the same machine."""
    if plan.max_context and request.max_model_len:
        yield _changed(request, "context", max_model_len=plan.max_context)
    elif request.max_model_len and plan.kv_tokens and plan.kv_tokens[1] > 0:
        yield _changed(request, "context", max_model_len=min(plan.kv_tokens[1], request.max_model_len))
    if request.engine == "vllm" and request.kv_cache_dtype in (None, "auto", "bfloat16"):
        yield _changed(request, kv_cache_dtype="fp8")
    if request.engine == "vllm" and (request.max_num_seqs or 1024) > _FEWER_SEQUENCES:
        yield _changed(request, max_num_seqs=_FEWER_SEQUENCES)


def _layouts(request: FitRequest, layout: Layout) -> Iterator[_Idea]:
    """Other layouts on the same GPUs: whole experts, and every power of two that a node holds, the widest first."""
    if request.engine != "vllm":
        return
    if not request.expert_parallel:
        yield _changed(request, expert_parallel=True)
    stated = {"pipeline_parallel": request.nodes, "data_parallel": 1, "decode_context_parallel": 1}
    others = {name: size for name, size in stated.items() if getattr(request, name) is not None}
    for tp in (64, 32, 16, 8, 4, 2, 1):
        idea = _changed(request, "tensor", tensor_parallel=tp, **others)
        if tp <= request.gpus_per_node and resolve_layout(idea.request) != layout:
            yield idea


def _more_gpus(request: FitRequest) -> Iterator[_Idea]:
    """More GPUs of the same kind."""
    if request.gpu is None:
        return
    title, present = find_gpu(request.gpu).title, request.nodes * request.gpus_per_node
    for nodes, each in _MACHINES:
        if nodes * each > present:
            text = f"{nodes * each} {title}" if nodes == 1 else f"{nodes} nodes of {each} {title}"
            yield _Idea(text, _on_machine(request, nodes, each), "gpus")


def _other_checkpoints(request: FitRequest) -> Iterator[_Idea]:
    """Other formats of the same model on the same machine."""
    try:
        model, current = find_checkpoint(request.model, request.include)
    except NotInCatalogueError:
        return
    for checkpoint in model.checkpoints:
        same_engine = (checkpoint.format == "gguf") == (current.format == "gguf")
        if checkpoint.name != current.name and same_engine and checkpoint.max_context == current.max_context:
            other = replace(request, model=checkpoint.name, weights_bytes=None, include=(), quantization=None)
            yield _Idea(f"{checkpoint.repository} ({checkpoint.format})", replace(other, volume_bytes=None))


def _other_gpus(request: FitRequest) -> Iterator[_Idea]:
    """As many GPUs of a kind with more memory, the smallest that does."""
    if request.gpu is None:
        return
    current = find_gpu(request.gpu)
    larger = [gpu for gpu in gpus() if (gpu.torch_gib or 0) > (current.torch_gib or 0)]
    for gpu in sorted(larger, key=lambda gpu: gpu.torch_gib or 0):
        count = f"{request.nodes} x {request.gpus_per_node}" if request.nodes > 1 else f"{request.gpus_per_node}"
        yield _Idea(f"{count} {gpu.title}", replace(request, gpu=gpu.name, instance_type=None), "gpu")


def _on_machine(request: FitRequest, nodes: int, each: int) -> FitRequest:
    """The same request on other nodes, with the layout that follows from them."""
    return replace(
        request,
        nodes=nodes,
        gpus_per_node=each,
        tensor_parallel=None,
        pipeline_parallel=None,
        data_parallel=None,
        instance_type=None,
    )
