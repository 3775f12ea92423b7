"""What was measured of vLLM's memory: constants of the overhead, and what public logs and pages print."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from config.catalogue.reading import Fields, frozen, read
from config.engine_name import EngineName


@dataclass(frozen=True, slots=True, kw_only=True)
class NonTorch:
    """GiB outside torch (communication, context), by what the GPU takes part in."""

    single: float
    pipeline: float
    tensor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Graphs:
    """GiB of CUDA graphs, which grow with the captured batch sizes up to `at_sequences`."""

    low: float
    high: float
    at_sequences: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Widening:
    """Added to the high ratio where no observation is near: of that release, of that GPU, or with that setting."""

    release: float
    gpu: float
    setting: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """Constants of the memory on a GPU beside weights and KV cache; `engines.vllm.memory.overhead` says what for."""

    about: str
    sampler_copies: float
    sampler_source: str
    dense_hidden_copies: float
    dense_width_copies: float
    expert_hidden_copies: float
    layer_source: str
    pipeline_hidden_copies: float
    pipeline_source: str
    vision_gib: float
    vision_source: str
    non_torch_gib: NonTorch
    non_torch_source: str
    graphs_gib: Graphs
    graphs_source: str
    graphs_counted_since: str
    """The first release whose profiling counts the graphs."""
    graphs_counted_source: str
    older_activation_factor: float
    older_activation_before: str
    older_activation_source: str
    weights_share: float
    weights_share_source: str
    margin: float
    """Added to both ends of the range of ratios that was observed."""
    margin_source: str
    low_ratio: float
    high_ratio: float
    widening: Widening
    widening_source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """What one start-up log prints: GiB per GPU, and the settings it shows. `None`: the log does not show it."""

    id: str
    model: str
    checkpoint: str
    source: str
    gpus: str = ""
    gpu: str | None = None
    tp: int | None = None
    pp: tuple[int, ...] = ()
    """Sizes of several runs, each with its own weights."""
    util: float | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None
    max_model_len: int | None = None
    engine: str | None = None
    board_gib: float | None = None
    total_gib: float | None = None
    init_free_gib: float | None = None
    budget_gib: float | None = None
    weights_gib: float | tuple[float, ...] | None = None
    activation_gib: float | None = None
    non_torch_gib: float | None = None
    graph_gib: float | None = None
    kv_gib: float | None = None
    tokens: int | None = None
    tokens_approx: int | None = None
    tokens_fp8_kv: int | None = None
    concurrency: float | None = None
    shards: int | None = None
    load_minutes: float | None = None
    cold_start_minutes: float | None = None
    first_boot_minutes: str | None = None
    not_gated: str | None = None
    """Why the planner is not held to its figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledExperts:
    """Experts per token and their width."""

    active: int
    width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Memory of one GPU while vLLM profiles a small model: the peak of torch's, and the growth outside torch."""

    model: str
    tp: int
    pp: int
    last_stage: bool
    """Whether the rank that printed it holds the output head."""
    hidden: int
    dense_width: int
    vocabulary: int
    vision: bool
    activation_gib: float
    non_torch_gib: float
    experts: ProfiledExperts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedSize:
    """The size of a checkpoint as published."""

    checkpoint: str
    what: str
    size: float
    unit: Literal["bytes", "GB", "GiB"]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedCache:
    """Tokens that a log prints for so many GiB of KV cache per GPU."""

    id: str
    checkpoint: str
    what: str
    gpu: str
    tp: int
    dcp: int | None = None
    max_model_len: int | None = None
    kv_cache_dtype: str | None = None
    block_size: int | None = None
    engine_version: str | None = None
    """Set where the log does not state it and its figure is that of earlier releases."""
    kv_gib: float
    tokens: int
    source: str
    engine: EngineName | None = None
    """The engine of the log. None: the default one."""
    rounding_gib: float = 0.005
    """Most by which the printed GiB differ from the cache: more where a log prints keys and values apart."""
    not_gated: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPool:
    """Tokens that a log of SGLang prints for its static share of the memory, on one tensor-parallel group."""

    id: str
    checkpoint: str
    what: str
    gpu: str
    tp: int
    fraction: float
    """`--mem-fraction-static`."""
    max_num_batched_tokens: int | None = None
    tokens: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunExperts:
    """Experts of a run: per token, their width, and those on a GPU whose rows its kernels align. 0: none."""

    active: int
    width: int
    aligned: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShape:
    """What the overhead depends on in a model."""

    hidden: int
    dense_width: int
    vocabulary: int
    experts: RunExperts | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """GiB that a run leaves for the KV cache on a GPU, with all its settings; negative: it did not start."""

    id: str
    model: str
    gpu: str
    engine: str
    tp: int
    expert_parallel: bool = False
    util: float
    max_num_seqs: int
    max_num_batched_tokens: int
    weights_gib: float
    kv_gib: float
    shape: RunShape
    source: str
    note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A published case that is not compared."""

    case: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundTruth:
    """What public start-up logs and pages print."""

    about: str
    profiles_source: str
    profiles_engine: str
    """The release of vLLM that the profiles are of."""
    profiles_batched_tokens: int
    profiles_sequences: int
    logs: tuple[Log, ...]
    profiles: tuple[Profile, ...]
    sizes: tuple[PublishedSize, ...]
    caches: tuple[PublishedCache, ...]
    pools: tuple[PublishedPool, ...]
    left_out: tuple[LeftOut, ...]
    runs: tuple[Run, ...]


@cache
def overheads() -> Overheads:
    """Constants of vLLM's memory beside weights and KV cache."""
    entry = read("overheads.json")
    parts = {
        "non_torch_gib": NonTorch(**entry["non_torch_gib"]),
        "graphs_gib": Graphs(**entry["graphs_gib"]),
        "widening": Widening(**entry["widening"]),
    }
    return Overheads(**{**entry, **parts})


@cache
def ground_truth() -> GroundTruth:
    """What public start-up logs and pages print."""
    entry = read("ground_truth.json")
    rows = {
        "logs": tuple(Log(**frozen(row)) for row in entry["logs"]),
        "profiles": tuple(_profile(row) for row in entry["profiles"]),
        "sizes": tuple(PublishedSize(**row) for row in entry["sizes"]),
        "caches": tuple(_cache(row) for row in entry["caches"]),
        "pools": tuple(PublishedPool(**row) for row in entry["pools"]),
        "left_out": tuple(LeftOut(**row) for row in entry["left_out"]),
        "runs": tuple(_run(row) for row in entry["runs"]),
    }
    return GroundTruth(**{**entry, **rows})


def _cache(entry: Fields) -> PublishedCache:
    engine = EngineName(entry["engine"]) if "engine" in entry else None
    return PublishedCache(**{**entry, "engine": engine})


def _profile(entry: Fields) -> Profile:
    experts = ProfiledExperts(**entry["experts"]) if "experts" in entry else None
    return Profile(**{**entry, "experts": experts})


def _run(entry: Fields) -> Run:
    shape = entry["shape"]
    experts = RunExperts(**shape["experts"]) if "experts" in shape else None
    return Run(**{**entry, "shape": RunShape(**{**shape, "experts": experts})})
