"""vLLM's defaults for fields that a request leaves unset, from `config/data/vllm_defaults.json`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from config.catalogue.reading import frozen, read


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilizationDefault:
    """vLLM's default `gpu_memory_utilization`, starting with a release."""

    since: str
    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDefaults:
    """vLLM's defaults for GPUs with at least this much memory."""

    memory_gib: float
    except_label: str = ""
    """GPUs with this text in a label have other defaults; empty: there is no exception."""
    max_num_batched_tokens: int
    max_num_seqs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmDefaults:
    """vLLM's defaults."""

    gpu_memory_utilization: tuple[UtilizationDefault, ...]
    """The newest release first."""
    batch: tuple[BatchDefaults, ...]
    """The largest memory first."""
    batch_source: str
    quantization_names: Mapping[str, tuple[str, ...]]
    """Values of `--quantization` that a checkpoint's own method goes with."""


@cache
def vllm_defaults() -> VllmDefaults:
    """vLLM's defaults."""
    entry = read("vllm_defaults.json")
    return VllmDefaults(
        gpu_memory_utilization=tuple(UtilizationDefault(**row) for row in entry["gpu_memory_utilization"]),
        batch=tuple(BatchDefaults(**row) for row in entry["batch"]),
        batch_source=entry["batch_source"],
        quantization_names=frozen(entry["quantization_names"]),
    )
