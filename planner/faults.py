"""Values of a request that mean nothing, all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from config.catalogue import NotInCatalogueError, find_gpu, find_instance
from planner.plan import Problem
from planner.request import FitRequest
from planner.versions import Version

_COUNTS = (
    "nodes",
    "gpus_per_node",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "decode_context_parallel",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "block_size",
    "keep_revisions",
)
_POSITIVE = ("available_kv_gib", "staging_bytes_per_second", "read_bytes_per_second")
_ENGINES = ("vllm", "llama.cpp")


def faults(request: FitRequest) -> tuple[Problem, ...]:
    """One problem for each value that cannot be planned with."""
    return tuple(_faults(request))


def _faults(request: FitRequest) -> Iterator[Problem]:
    yield from _known("gpu", request.gpu, find_gpu)
    yield from _known("instance_type", request.instance_type, find_instance)
    if request.engine not in _ENGINES:
        yield _fault("engine", request.engine, f"one of {', '.join(_ENGINES)}")
    elif request.engine == "vllm" and request.engine_version is not None:
        try:
            Version.parse(request.engine_version)
        except ValueError:
            yield _fault("engine_version", request.engine_version, "a release such as 0.33.0")
    for name in _COUNTS:
        value = getattr(request, name)
        # A stack without GPUs says 0 of them.
        if value is not None and value < 1 and (name != "gpus_per_node" or request.gpu is not None):
            yield _fault(name, value, "a whole number of at least 1")
    for name in _POSITIVE:
        value = getattr(request, name)
        if value is not None and value <= 0:
            yield _fault(name, value, "a number above 0")
    utilization = request.gpu_memory_utilization
    if utilization is not None and not 0 < utilization <= 1:
        yield _fault("gpu_memory_utilization", utilization, "a share above 0 and at most 1")
    if request.mm_encoder_tp_mode not in (None, "data", "weights"):
        yield _fault("mm_encoder_tp_mode", request.mm_encoder_tp_mode, "data or weights")


def _known(name: str, value: str | None, find: Callable[[str], object]) -> Iterator[Problem]:
    if value is None:
        return
    try:
        find(value)
    except NotInCatalogueError as error:
        yield Problem("value_not_valid", f"{name}: {error}", "Correct it, or add it to the catalogue's data.")


def _fault(name: str, value: object, expected: str) -> Problem:
    return Problem("value_not_valid", f"{name}: {value!r} is not valid: expected {expected}", "Correct it.")
