"""What a release's own sources say (`config/data/sglang_releases.json`), and SGLang's defaults
(`config/data/sglang_defaults.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from config.catalogue.reading import frozen, read
from config.checkpoint.tensors import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangRelease:
    """Tables of one release."""

    release: str
    tool_parsers: tuple[str, ...]
    reasoning_parsers: tuple[str, ...]
    prompts_in_graphs: tuple[str, ...]
    """Architectures with images whose prompts are computed by CUDA graphs, as those of all text models are."""
    architectures: tuple[str, ...]
    """Architectures with a model class."""
    short_forms: Mapping[str, str]
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Defaults for GPUs with at least so much memory."""

    memory_gib: float
    chunked_prefill_size: int
    """Most tokens of prompts in a step."""
    graph_requests: int
    """Most requests that a CUDA graph of a decode step is captured for."""
    graph_requests_from_tp4: int
    """The same with four tensor-parallel ranks or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SglangDefaults:
    """SGLang's defaults, and what logs show that its arithmetic does not count."""

    batch: tuple[Batch, ...]
    """The largest memory first."""
    outside_single: tuple[float, float]
    """GiB of a GPU that are taken before the weights are loaded: [likely, worst]; of a single rank."""
    outside_tensor: tuple[float, float]
    """The same of a rank that communicates with others."""
    outside_source: str
    weights_share: float
    """Share of the weights that the load takes beside them, at the worst."""
    headroom_gib: float
    """Least memory beside weights and cache that is typically sufficient."""
    headroom_source: str
    tool_parsers: Mapping[str, str]
    """SGLang's names of parsers by vLLM's, where they differ."""
    reasoning_parsers: Mapping[str, str]
    stages: Mapping[str, frozenset[Place]]
    """What a class makes on each pipeline stage, by architecture. A class that is not there is not known."""
    caches_all_layers: frozenset[str]
    """Architectures whose stages size their cache for the layers of all stages."""
    cuts_attention_of_encoder: frozenset[str]
    """Architectures of whose encoder tensor parallelism cuts the attention alone."""


@cache
def newest_release() -> SglangRelease:
    """The newest release that was read."""
    return SglangRelease(**frozen(read("sglang_releases.json")["releases"][-1]))


@cache
def sglang_defaults() -> SglangDefaults:
    """SGLang's defaults."""
    entry = read("sglang_defaults.json")
    outside, parsers = entry["outside_gib"], entry["parsers"]
    return SglangDefaults(
        batch=tuple(Batch(**row) for row in entry["batch"]),
        outside_single=(outside["single"][0], outside["single"][1]),
        outside_tensor=(outside["tensor"][0], outside["tensor"][1]),
        outside_source=outside["source"],
        weights_share=entry["weights_share"],
        headroom_gib=entry["headroom_gib"],
        headroom_source=entry["headroom_source"],
        tool_parsers=parsers["tool"],
        reasoning_parsers=parsers["reasoning"],
        stages={name: frozenset(map(Place, places)) for name, places in entry["stages"].items()},
        caches_all_layers=frozenset(entry["caches_all_layers"]),
        cuts_attention_of_encoder=frozenset(entry["cuts_attention_of_encoder"]),
    )
