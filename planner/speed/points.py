"""Published speeds as observations: each with the bound of its model, GPU and layout."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from config.catalogue import find_gpu
from config.catalogue.speeds import PublishedSpeed, published_speeds
from config.checkpoint.model_spec import ModelSpec, find_model
from config.checkpoint.tensors import Place
from engines.plan import Layout
from engines.registry import engine_of
from engines.request import FitRequest
from engines.speed import Workload
from planner.speed.calibration import Observation
from planner.speed.nearness import Conditions, attention_of, generation_of
from planner.speed.plan_speed import features_of
from planner.speed.work import work_of

_GPUS_PER_NODE = 8
_UNKNOWN_ANSWER = 500
"""Tokens of an answer whose length is not published: the middle of the answer hardly counts at one user."""


@cache
def observations() -> tuple[Observation, ...]:
    """Those that the likely range is fitted to."""
    return _of(published_speeds().points)


@cache
def kept_back() -> tuple[Observation, ...]:
    """Those that nothing is fitted to."""
    return _of(published_speeds().kept_back)


def _of(points: tuple[PublishedSpeed, ...]) -> tuple[Observation, ...]:
    return tuple(found for each in points if each.left_out is None and (found := observation(each)) is not None)


def observation(point: PublishedSpeed) -> Observation | None:
    """The observation of a point. None: its model, GPU, layout or number of users is not known."""
    if point.checkpoint is None or point.gpu is None or point.users is None or point.gpus != point.tp * point.pp:
        return None
    gpu, model = find_gpu(point.gpu), _model(point)
    layout = Layout(tp=point.tp, pp=point.pp, ep=point.tp if point.expert_parallel else 1)
    work = None if gpu.speed is None else work_of(model, gpu.speed, layout, _cache_bytes(point, layout))
    if work is None or gpu.speed is None:
        return None
    workload = Workload(round(point.prompt_tokens or 0), round(point.answer_tokens or _UNKNOWN_ANSWER))
    return Observation(
        point=point,
        features=features_of(model, work, gpu, gpu.speed, workload, point.users),
        conditions=Conditions(
            engine=point.engine or "an unknown engine",
            generation=generation_of(gpu),
            attention=attention_of(model.shape),
            prompt_tokens=point.prompt_tokens or 0,
            link_bytes_per_second=gpu.speed.link_bytes_per_second,
            layout=layout,
        ),
        tpot=None if point.tpot_ms is None else point.tpot_ms / 1000,
        ttft=None if point.ttft_ms is None else point.ttft_ms / 1000,
    )


def _model(point: PublishedSpeed) -> ModelSpec:
    """The model as it was served: of other bytes per weight where the file says so."""
    model = find_model(point.checkpoint or "")
    if point.quantization is not None:
        return model.quantized_online()
    if point.file_bytes is None:
        return model
    share = point.file_bytes / sum(group.bytes for group in model.groups if group.place is not Place.MTP)
    groups = (replace(group, bytes=round(group.bytes * share), dtype="gguf") for group in model.groups)
    return replace(model, groups=tuple(groups))


def _cache_bytes(point: PublishedSpeed, layout: Layout) -> int:
    """Bytes of a token of context on the fullest GPU, as the default engine keeps it."""
    request = FitRequest(
        model=point.checkpoint or "",
        gpu=point.gpu,
        nodes=max(1, layout.gpus // _GPUS_PER_NODE),
        gpus_per_node=min(_GPUS_PER_NODE, layout.gpus),
        tensor_parallel=layout.tp,
        pipeline_parallel=layout.pp,
        quantization=point.quantization,
    )
    plan = engine_of(request.engine).plan(request, find_model(request.model))
    return (plan.per_gpu.kv_bytes_per_token if plan.per_gpu else None) or 0
