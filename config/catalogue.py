"""What the world is like: models, GPUs, instance types and engines, each fact with its source.

Typed reading of the files in `config/data`. Whoever adds a GPU, an instance type or a model edits one data file. A file
is read when it is first asked for, so that a plan pays for nothing that it does not use. A name that is not known is
refused with the names that are close to it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"

Fields = dict[str, Any]
"""Fields of a published JSON file (`config.json`), as they are."""


_MOST_LISTED = 20
"""Names that a message lists where none is close to what was given."""


class NotInCatalogueError(Exception):
    """A name that the catalogue does not have."""

    def __init__(self, what: str, name: str, known: list[str]) -> None:
        spelled = {each.lower(): each for each in known}
        close = [spelled[each] for each in get_close_matches(name.lower(), spelled, n=3, cutoff=0.5)]
        helpful = close or (known if len(known) <= _MOST_LISTED else [])
        expected = f": expected one of {', '.join(helpful)}" if helpful else ""
        super().__init__(f"{what} {name!r} is not in the catalogue{expected}")
        self.name = name


class VendorName(StrEnum):
    """Who makes GPUs."""

    NVIDIA = "nvidia"
    AMD = "amd"


class CollectiveLibrary(StrEnum):
    """The library through which the ranks of a server talk. RCCL reads the environment variables of NCCL."""

    NCCL = "NCCL"
    RCCL = "RCCL"


@dataclass(frozen=True, slots=True)
class GpuVendor:
    """What the software on a vendor's nodes calls its GPUs."""

    name: VendorName
    title: str
    resource: str
    """Extended resource of its device plugin, such as `nvidia.com/gpu`."""
    product_label: str
    """Node label with the kind of the GPUs."""
    driver_labels: tuple[str, ...]
    """Node labels with the driver's version, the newest spelling first."""
    driver: str
    """Name of the kernel driver."""
    collective_library: CollectiveLibrary


@dataclass(frozen=True, slots=True)
class Gpu:
    """One kind of GPU."""

    name: str
    title: str
    vendor: GpuVendor
    labels: tuple[str, ...]
    """Values of the vendor's product label, as prefixes."""
    smi_mib: int
    """Total memory as `nvidia-smi` prints it, in MiB."""
    torch_gib: float | None
    """Total memory as torch reports it, in GiB: what vLLM multiplies. `None`: no log shows it."""
    compute_capability: tuple[int, int] | None
    """CUDA's; `None`: the GPU has no CUDA."""
    data_center: bool
    """Whether CUDA's forward compatibility is supported."""

    @property
    def memory_bytes(self) -> int | None:
        """Total memory as torch reports it."""
        return None if self.torch_gib is None else round(self.torch_gib * 2**30)


@dataclass(frozen=True, slots=True)
class Gguf:
    """Files of one quantisation in a GGUF repository."""

    quantization: str
    shards: int
    first_shard: str

    @property
    def pattern(self) -> str:
        """The pattern that stages every shard: their folder, their common beginning, or the one file."""
        folder, slash, _ = self.first_shard.rpartition("/")
        if slash:
            return f"{folder}/*.gguf"
        return self.first_shard if self.shards == 1 else self.first_shard.replace("-00001-of-", "-*-of-")


@dataclass(frozen=True, slots=True)
class Serving:
    """How the model's makers and vLLM's recipes say it is served."""

    source: str
    vllm_works_since: str | None = None
    """Oldest vLLM release known to serve it."""
    vllm_recipe_minimum: str | None = None
    """Oldest release that vLLM's recipe names."""
    tool_call_parser: str | None = None
    reasoning_parser: str | None = None
    trust_remote_code: bool = False
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One repository of weights of a model."""

    name: str
    repository: str
    format: str
    """`bf16`, `fp8`, `nvfp4`, `int4`, `mxfp4` or `gguf`."""
    staged_bytes: int | None = None
    """Bytes of its files as published. `None`: only what the tensors add up to is known."""
    staged_bytes_source: str | None = None
    commit: str | None = None
    """A full commit of the repository that public files name; `None`: none is known."""
    quantization_config: Fields | None = None
    kv_cache_dtype: str | None = None
    """What the recipe gives this checkpoint's KV cache."""
    env: tuple[tuple[str, str], ...] = ()
    gguf: Gguf | None = None
    max_context: int | None = None
    """Its own maximum where it differs from the family's configuration."""
    unknown: str | None = None
    """What is not known about it, when a plan cannot be made."""
    tensors: tuple[Fields, ...] = ()
    """Tensor groups as measured from the files' headers; empty: derived from the configuration."""


@dataclass(frozen=True, slots=True)
class Model:
    """A family of checkpoints that share a shape."""

    name: str
    title: str
    quality: str
    """`small`, `good`, `high` or `frontier`; empty: not rated."""
    config: Fields
    """The published `config.json`: the text model's fields, and `vision_config` beside them."""
    config_source: str
    serving: Serving
    checkpoints: tuple[Checkpoint, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Instance:
    """An EC2 instance type."""

    type: str
    gpu: str
    gpus: int
    memory_bytes: int
    efa_interfaces: int
    usd_per_hour: float | None
    """On demand in us-east-1; `None`: no price was found."""
    price_source: str | None


@cache
def gpus() -> tuple[Gpu, ...]:
    """Every GPU of the catalogue."""
    return tuple(_gpu(entry) for entry in _read("gpus.json")["gpus"])


def find_gpu(name: str) -> Gpu:
    """The GPU of that name, alias or node label. Raises NotInCatalogueError."""
    found = _gpus_by_name().get(name.lower())
    if found is None:
        raise NotInCatalogueError("GPU", name, sorted(gpu.name for gpu in gpus()))
    return found


@cache
def models() -> tuple[Model, ...]:
    """Every model of the catalogue, by name."""
    return tuple(_model(_load(path)) for path in sorted((DATA / "models").glob("*.json")))


def _repositories() -> list[str]:
    return sorted({checkpoint.repository for model in models() for checkpoint in model.checkpoints})


def find_checkpoint(name: str, include: tuple[str, ...] = ()) -> tuple[Model, Checkpoint]:
    """The model and checkpoint of a name (`kimi-k2.5`) or repository (`moonshotai/Kimi-K2.5`).

    Where a repository holds several GGUF quantisations, `include` chooses: the one whose name occurs in a pattern.
    Raises NotInCatalogueError.
    """
    wanted = name.lower()
    matches = [
        (model, checkpoint)
        for model in models()
        for checkpoint in model.checkpoints
        if wanted in (checkpoint.name, checkpoint.repository.lower())
    ]
    if not matches:
        raise NotInCatalogueError("model", name, _repositories() if "/" in name else [model.name for model in models()])
    for model, checkpoint in matches:
        if checkpoint.gguf and any(checkpoint.gguf.quantization in pattern for pattern in include):
            return model, checkpoint
    return matches[0]


@cache
def instances() -> tuple[Instance, ...]:
    """Every EC2 GPU instance type of the catalogue."""
    return tuple(
        Instance(
            type=entry["type"],
            gpu=entry["gpu"],
            gpus=entry["gpus"],
            memory_bytes=entry["memory_mib"] * 2**20,
            efa_interfaces=entry["efa_interfaces"],
            usd_per_hour=entry["usd_per_hour"],
            price_source=entry["price_source"],
        )
        for entry in _read("aws_instances.json")["instances"]
    )


def find_instance(name: str) -> Instance:
    """The instance type of that name. Raises NotInCatalogueError."""
    for instance in instances():
        if instance.type == name:
            return instance
    raise NotInCatalogueError("instance type", name, [instance.type for instance in instances()])


@cache
def engine_flags(engine: str) -> Fields:
    """Flags of an engine (`vllm`, `llama.cpp`): version, flags, short forms, values and parser names."""
    flags: Fields = _read("engine_flags.json")[engine]
    return flags


@cache
def engines() -> Fields:
    """Engines by name: pinned versions, defaults and images; and the CUDA version of each driver branch."""
    return _read("engines.json")


@cache
def rules() -> Fields:
    """Rules that hold for a range of vLLM releases."""
    return _read("rules.json")


@cache
def overheads() -> Fields:
    """Constants of vLLM's memory beside weights and KV cache."""
    return _read("overheads.json")


@cache
def ground_truth() -> Fields:
    """What public start-up logs print: `logs`, and memory `profiles` of many small models."""
    return _read("ground_truth.json")


@cache
def _read(name: str) -> Fields:
    return _load(DATA / name)


def _load(path: Path) -> Fields:
    loaded: Fields = json.loads(path.read_text(encoding="utf-8"))
    return loaded


@cache
def _gpus_by_name() -> dict[str, Gpu]:
    names = {}
    for entry, gpu in zip(_read("gpus.json")["gpus"], gpus(), strict=True):
        for name in (gpu.name, *entry["aliases"], *gpu.labels):
            names[name.lower()] = gpu
    return names


@cache
def _vendors() -> dict[str, GpuVendor]:
    return {entry["name"]: _vendor(entry) for entry in _read("gpus.json")["vendors"]}


def _vendor(entry: Fields) -> GpuVendor:
    return GpuVendor(
        name=VendorName(entry["name"]),
        title=entry["title"],
        resource=entry["resource"],
        product_label=entry["product_label"],
        driver_labels=tuple(entry["driver_labels"]),
        driver=entry["driver"],
        collective_library=CollectiveLibrary(entry["collective_library"]),
    )


def _gpu(entry: Fields) -> Gpu:
    return Gpu(
        name=entry["name"],
        title=entry["title"],
        vendor=_vendors()[entry["vendor"]],
        labels=tuple(entry["labels"]),
        smi_mib=entry["smi_mib"],
        torch_gib=entry["torch_gib"],
        compute_capability=_capability(entry["compute_capability"]),
        data_center=entry["data_center"],
    )


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)


def _model(entry: Fields) -> Model:
    return Model(
        name=entry["name"],
        title=entry["title"],
        quality=entry["quality"],
        config=entry["config"],
        config_source=entry["config_source"],
        serving=_serving(entry["serving"]),
        checkpoints=tuple(_checkpoint(checkpoint) for checkpoint in entry["checkpoints"]),
    )


def _serving(entry: Fields) -> Serving:
    return Serving(**{**entry, "args": tuple(entry.get("args", ())), "env": _pairs(entry)})


def _checkpoint(entry: Fields) -> Checkpoint:
    return Checkpoint(
        name=entry["name"],
        repository=entry["repository"],
        format=entry["format"],
        staged_bytes=entry.get("staged_bytes"),
        staged_bytes_source=entry.get("staged_bytes_source"),
        commit=next(iter(entry.get("revisions", {})), None),
        quantization_config=entry.get("quantization_config"),
        kv_cache_dtype=entry.get("kv_cache_dtype"),
        env=_pairs(entry),
        gguf=Gguf(**entry["gguf"]) if "gguf" in entry else None,
        max_context=entry.get("max_context"),
        unknown=entry.get("unknown"),
        tensors=tuple(entry.get("tensors", ())),
    )


def _pairs(entry: Fields) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(entry.get("env", {}).items()))
