"""Request validation: reports every invalid value at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from config.catalogue import NotInCatalogueError, find_gpu, find_instance
from config.load_format import LoadFormat
from engines.plan import Problem
from engines.registry import engine_of
from engines.request import FitRequest

_COUNTS = (
    "nodes",
    "gpus_per_node",
    "tensor_parallel",
    "pipeline_parallel",
    "data_parallel",
    "prefill_context_parallel",
    "decode_context_parallel",
    "max_model_len",
    "max_num_seqs",
    "yarn_original_context",
    "speculative_tokens",
    "max_loras",
    "max_lora_rank",
    "max_num_batched_tokens",
    "max_num_queued_reqs",
    "sleep_idle_seconds",
    "block_size",
    "keep_revisions",
)
_READERS = [each.value for each in LoadFormat]

_MAX = 1e15
"""Upper bound of every number that is not a count."""

_MOST_STRETCH = 1000
"""Upper bound of a factor that stretches a context."""

_BLOCK_TOKENS = 16
"""vLLM's attention kernels take KV blocks of this many tokens and multiples of it; some want multiples of 32, 64 or 128
(get_supported_kernel_block_sizes of vllm/v1/attention/backends, 0.33.0)."""


def _is_positive(value: float) -> bool:
    return 0 < value <= _MAX


def _is_rate(value: float) -> bool:
    return 1 <= value <= _MAX


_VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "available_kv_gib": (_is_positive, "a number above 0"),
    "staging_bytes_per_second": (_is_rate, "at least 1 byte per second"),
    "node_bytes_per_second": (_is_rate, "at least 1 byte per second"),
    "read_bytes_per_second": (_is_rate, "at least 1 byte per second"),
    "usd_per_gpu_hour": (lambda value: 0 <= value <= _MAX, "dollars, 0 or more"),
    "yarn_factor": (lambda value: 1 < value <= _MOST_STRETCH, f"a factor above 1 and at most {_MOST_STRETCH}"),
    "redundant_experts": (lambda value: value >= 0, "a whole number of at least 0"),
    "cpu_offload_gb": (_is_positive, "GiB above 0"),
    "kv_offload": (_is_positive, "a size above 0"),
    "gpu_memory_utilization": (lambda value: 0 < value <= 1, "a share above 0 and at most 1"),
    "block_size": (
        lambda value: value < 1 or value % _BLOCK_TOKENS == 0,
        f"a multiple of {_BLOCK_TOKENS}, as vLLM's kernels take",
    ),
    "driver": (lambda value: re.fullmatch(r"\d+(\.\d+){0,2}", value) is not None, "a version such as 580.95.05 or 580"),
    "load_format": (
        lambda value: value in _READERS,
        f"{', '.join(_READERS[:-1])} or {_READERS[-1]}",
    ),
    "mm_encoder_tp_mode": (lambda value: value in ("data", "weights"), "data or weights"),
}
"""By field: a check for values that are set, and what the message says was expected."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One invalid value."""

    name: str
    """The request's field."""
    text: str
    """The value, and what was expected."""
    fix: str = "Correct it."


def faults(request: FitRequest) -> tuple[Fault, ...]:
    """Every invalid value of a request."""
    return tuple(_faults(request))


def unlisted_gpu(request: FitRequest) -> Iterator[Fault]:
    """A fault for a GPU that the catalogue does not list, for a command line. In a stack, it is unknown."""
    yield from _known("gpu", request.gpu, find_gpu)


def problems_of_faults(found: tuple[Fault, ...]) -> tuple[Problem, ...]:
    """The same faults as problems of a plan."""
    return tuple(Problem("value_not_valid", f"{fault.name}: {fault.text}", fault.fix) for fault in found)


def _faults(request: FitRequest) -> Iterator[Fault]:
    yield from _known("instance_type", request.instance_type, find_instance)
    yield from _other_instance(request)
    yield from _engine(request)
    for name in _COUNTS:
        value = getattr(request, name)
        # A stack without GPUs sets gpus_per_node to 0.
        if value is not None and value < 1 and (name != "gpus_per_node" or request.gpu is not None):
            yield _fault(name, value, "a whole number of at least 1")
    for name, (is_valid, expected) in _VALUES.items():
        value = getattr(request, name)
        if value is not None and not is_valid(value):
            yield _fault(name, value, expected)


def _engine(request: FitRequest) -> Iterator[Fault]:
    version = request.engine_version
    if version is not None and (expected := engine_of(request.engine).expected_version(version)):
        yield _fault("engine_version", version, expected)


def _other_instance(request: FitRequest) -> Iterator[Fault]:
    """An instance type whose GPUs differ from those requested, or are fewer."""
    try:
        instance = find_instance(request.instance_type or "")
        same = request.gpu is not None and find_gpu(request.gpu) == find_gpu(instance.gpu)
    except NotInCatalogueError:
        return
    if not same or request.gpus_per_node > instance.gpus:
        asked = f"{request.gpus_per_node} x {request.gpu or 'no GPU'}"
        expected = f"one with {asked}: it has {instance.gpus} x {instance.gpu}"
        yield _fault("instance_type", request.instance_type, expected)


def _known(name: str, value: str | None, find: Callable[[str], object]) -> Iterator[Fault]:
    if value is None:
        return
    try:
        find(value)
    except NotInCatalogueError as error:
        yield Fault(name, str(error), "Correct it, or add it to the catalogue's data.")


def _fault(name: str, value: object, expected: str) -> Fault:
    return Fault(name, f"{value!r} is not valid: expected {expected}")
