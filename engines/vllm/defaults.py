"""What vLLM uses where a request is silent: `config/data/vllm_defaults.json`, typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from config.catalogue.reading import frozen, read


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilizationDefault:
    """vLLM's default for `gpu_memory_utilization`, from a release on."""

    since: str
    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDefaults:
    """vLLM's defaults for GPUs of at least so much memory."""

    memory_gib: float
    except_label: str = ""
    """GPUs with this text in a label have other defaults; empty: there is no exception."""
    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmDefaults:
    """What vLLM uses where a request is silent."""

    gpu_memory_utilization: tuple[UtilizationDefault, ...]
    """The newest release first."""
    batch: tuple[BatchDefaults, ...]
    """The largest memory first."""
    batch_source: str
    quantization_names: Mapping[str, tuple[str, ...]]
    """Values of `--quantization` that a checkpoint's own method goes with."""


@cache
def vllm_defaults() -> VllmDefaults:
    """What vLLM uses where a request is silent."""
    entry = read("vllm_defaults.json")
    return VllmDefaults(
        gpu_memory_utilization=tuple(UtilizationDefault(**row) for row in entry["gpu_memory_utilization"]),
        batch=tuple(BatchDefaults(**row) for row in entry["batch"]),
        batch_source=entry["batch_source"],
        quantization_names=frozen(entry["quantization_names"]),
    )
