"""The plan: the verdict, its reasons, and every number derived from the model and the hardware.

Volumes, time limits, engine arguments and the `plan` output all come from it. Undetermined fields are `None`, never a
guess.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from config.catalogue import CollectiveLibrary
from engines.speed import Speed

Verdict = Literal["fits", "tight", "rejected", "unknown"]
"""`fits`: even at the worst of the range. `tight`: only at the likely end. `rejected`: it cannot work. `unknown`: the
facts do not decide it, and a warning or problem says what is missing."""

Range = tuple[float, float]
"""Two ends of an estimate, in the order that the field's documentation names."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A reason to reject or, in an `unknown` plan, an unknown fact."""

    code: str
    """Stable and machine-readable, such as `weights_do_not_fit`."""
    message: str
    """What is wrong, with the numbers."""
    fix: str
    """What would work instead; each suggestion was itself planned before it was printed."""


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """A warning; the plan is deployed anyway."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Layout:
    """How the model is spread over the GPUs: the sizes of the parallel groups, 1 where a kind is not used."""

    tp: int = 1
    """Tensor parallel."""
    pp: int = 1
    """Pipeline parallel: stages."""
    dp: int = 1
    """Data parallel: replicas of the attention layers."""
    pcp: int = 1
    """Prefill context parallel: ranks that share the tokens of a prompt, each with all attention weights and its own KV
    cache."""
    ep: int = 1
    """Expert parallel: tensor times data times prefill context parallel when switched on, else 1."""
    dcp: int = 1
    """Decode context parallel: ranks of a tensor-parallel group that share the KV cache of a request."""

    @property
    def gpus(self) -> int:
        """GPUs that the layout takes."""
        return self.tp * self.pp * self.dp * self.pcp


@dataclass(frozen=True, slots=True)
class Pods:
    """How one server is divided over pods and nodes."""

    gpus_per_pod: int = 0
    """GPUs that each pod asks for; its shared memory and host memory follow from it."""
    pods_per_server: int = 1
    """More than 1: they start and end together."""
    nodes_per_server: int = 1
    """Equals the number of pods: each has its own node."""


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Memory of one GPU of one pipeline stage, in GiB; ranges as in `PerGpu`."""

    layers: int
    weights_gib: float
    overhead_gib: Range
    kv_gib: Range
    kv_bytes_per_token: int


@dataclass(frozen=True, slots=True)
class PerGpu:
    """Memory of the fullest GPU, in GiB (2^30 bytes)."""

    budget_gib: float | None
    """Memory for the engine: the GPU's memory as the framework sees it, times the utilisation."""
    weights_gib: float | None
    overhead_gib: Range | None
    """Activations, graphs, communication and allocator: [likely, worst]."""
    kv_gib: Range | None
    """Left for the KV cache: [worst, likely]."""
    kv_bytes_per_token: int | None
    """Bytes of one token of context on this GPU, over its layers."""


@dataclass(frozen=True, slots=True)
class CacheBlocks:
    """The KV cache of one data-parallel replica as equal blocks, at the worst end."""

    blocks: int
    tokens: int
    """Tokens of a block, over all ranks that share the cache of a request."""
    growing_groups: int = 1
    """Groups of layers of which each takes blocks for the tokens of a request."""
    fixed: int = 0
    """Blocks of a request of any length."""

    def requests(self, tokens: int) -> int:
        """Requests of so many tokens that the cache holds at once."""
        return self.blocks // (self.growing_groups * -(-tokens // self.tokens) + self.fixed)


@dataclass(frozen=True, slots=True)
class Host:
    """The pods' needs from their node, beside GPUs. Not part of the exported plan."""

    shared_memory_bytes: int = 0
    """Size of the memory-backed `/dev/shm`, part of the memory limit. 0: no processes share tensors."""
    memory_bytes: int | None = None
    """Memory that the server's container needs, `/dev/shm` included."""
    collective_library: CollectiveLibrary | None = None
    """Library for the communication of a server's ranks. `None`: no GPUs."""
    masked_directory: str | None = None
    """A directory of the engine image over which an empty volume must be mounted (CUDA compatibility libraries that
    would win over a newer driver)."""


@dataclass(frozen=True, slots=True)
class CostPart:
    """A part of the cost of a stack."""

    name: str
    usd_per_hour: float | None
    """US dollars per hour. None: not known."""
    source: str
    """Where the price was read, and when."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The verdict on a request and everything derived from it."""

    verdict: Verdict
    problems: tuple[Problem, ...] = ()
    warnings: tuple[PlanWarning, ...] = ()
    layout: Layout = Layout()
    pods: Pods = Pods()
    per_gpu: PerGpu | None = None
    """`None`: served from host memory."""
    kv_tokens: tuple[int, int] | None = None
    """Tokens that the engine would report for its KV cache: [worst, likely]; those of one data-parallel replica."""
    context: int | None = None
    """Longest request, in tokens: as requested, else the longest that fits."""
    max_concurrency: Range | None = None
    """Requests of that many tokens that the KV cache holds at once: [worst, likely]. vLLM prints it as 'Maximum
    concurrency'; llama.cpp has a slot for each."""
    max_context: int | None = None
    """Longest request with the verdict `fits`, in tokens; 0 when there is none."""
    weights_bytes: int | None = None
    """Bytes of the checkpoint as staged."""
    disk_bytes: int | None = None
    """Bytes that the weights volume needs: the kept revisions and a margin."""
    volume_bytes: int | None = None
    """Bytes to request for the weights volume. `None`: it has no size. Not part of the exported plan."""
    download_seconds: float | None = None
    """Seconds to stage the weights at the stated bandwidth."""
    load_seconds: float | None = None
    """Seconds from the server's start to its first answer: reading the weights and starting the engine."""
    cost_per_hour_usd: float | None = None
    """US dollars per hour of all nodes of the stack, including other replicas and spares. On AWS with the cluster, if
    the stack makes it."""
    cost_parts: tuple[CostPart, ...] = ()
    """The parts of that cost."""
    engine_args: tuple[str, ...] = ()
    """Arguments derived from the model and the plan. The server adds the model's path, its served name, host, port
    and the ranks of a group."""
    engine_env: tuple[tuple[str, str], ...] = ()
    """Environment derived from the model and the plan, sorted by name."""
    stages: tuple[StageMemory, ...] = ()
    """One per pipeline stage, in order. Not part of the exported plan."""
    host: Host = Host()
    model_file: str | None = None
    """File to serve, for an engine that serves one file. Not part of the exported plan."""
    overhead_widened_by: tuple[str, ...] = ()
    """Why the worst end of the overhead is further away: what no public log is of. Not part of the exported plan."""
    attention_backend: str | None = None
    """As vLLM names it. `None`: none, or not known. Not part of the exported plan."""
    kv_block_tokens: int | None = None
    """Tokens of a block of the KV cache. Not part of the exported plan."""
    cache_blocks: CacheBlocks | None = None
    """`None`: every token takes the same, so that `kv_tokens` says all. Not part of the exported plan."""
    sequences: int | None = None
    """Requests that a data-parallel replica computes at a time. `None`: not known. Not part of the exported plan."""
    speed: Speed | None = None
    """`None`: the plan is rejected, or what a token costs is not known."""

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values, with the keys that `python -m planner fit --json` documents."""
        return {
            "verdict": self.verdict,
            "problems": [asdict(problem) for problem in self.problems],
            "warnings": [asdict(warning) for warning in self.warnings],
            "layout": asdict(self.layout),
            "pods": asdict(self.pods),
            "per_gpu": None if self.per_gpu is None else _lists(asdict(self.per_gpu)),
            "kv_tokens": None if self.kv_tokens is None else list(self.kv_tokens),
            "context": self.context,
            "max_concurrency": None if self.max_concurrency is None else list(self.max_concurrency),
            "max_context": self.max_context,
            "weights_bytes": self.weights_bytes,
            "disk_bytes": self.disk_bytes,
            "download_seconds": self.download_seconds,
            "load_seconds": self.load_seconds,
            "cost_per_hour_usd": self.cost_per_hour_usd,
            "cost_parts": [asdict(part) for part in self.cost_parts],
            "speed": None if self.speed is None else self.speed.as_dict(),
            "engine_args": list(self.engine_args),
            "engine_env": dict(self.engine_env),
        }


def _lists(fields: dict[str, Any]) -> dict[str, Any]:
    """The same fields with tuples as lists, as JSON has them."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
