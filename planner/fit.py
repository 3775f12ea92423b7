"""The plan of one request."""

from __future__ import annotations

from config.catalogue import NotInCatalogueError, find_checkpoint, find_gpu
from planner.plan import Layout, PerGpu, Plan, Problem, Warning_
from planner.request import FitRequest

DISK_MARGIN = 0.1
"""Share of one revision that the volume has beside the kept ones: headers, tokenizer, file system."""

ENGINE_START_SECONDS = 234.0
"""From weights read to the first answer: compilation, profiling, graphs. A public log of Kimi-K2.6 on 8 B300 has 8.3
minutes from cold, 4.4 of them loading."""


def fit(request: FitRequest) -> Plan:
    """The plan of a request. A fault of the request is a problem of the plan, never an exception."""
    try:
        _, checkpoint = find_checkpoint(request.model, request.include)
        gpu = find_gpu(request.gpu) if request.gpu else None
    except NotInCatalogueError as error:
        problem = Problem("not_in_catalogue", str(error), "Add it with `python -m config add`, or correct the name.")
        return Plan(verdict="unknown", problems=(problem,))
    weights = request.weights_bytes if request.weights_bytes is not None else checkpoint.staged_bytes
    layout = Layout(
        tp=request.tensor_parallel or (request.gpus_per_node if gpu else 1),
        pp=request.pipeline_parallel or (request.nodes if gpu else 1),
        dp=request.data_parallel or 1,
    )
    per_gpu = None
    if gpu and weights is not None:
        per_gpu = PerGpu(gpu.torch_gib, round(weights / layout.gpus / 2**30, 2), None, None, None)
    return Plan(
        verdict="unknown",
        warnings=(Warning_("not_judged", "weights per GPU are by division only; nothing else is judged yet"),),
        layout=layout,
        per_gpu=per_gpu,
        weights_bytes=weights,
        disk_bytes=None if weights is None else round(weights * (request.keep_revisions + DISK_MARGIN)),
        download_seconds=None if weights is None else weights / request.staging_bytes_per_second,
        load_seconds=None if weights is None else weights / request.read_bytes_per_second + ENGINE_START_SECONDS,
    )
