"""GPUs and their vendors."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from config.catalogue.reading import Fields, NotInCatalogueError, read
from config.units import GIB


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
    whole_gpu_labels: tuple[tuple[str, tuple[str, ...]], ...]
    """Node labels that tell shared or virtual GPUs, and the values that whole GPUs have."""
    driver: str
    """Name of the kernel driver."""
    collective_library: CollectiveLibrary


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """What a GPU cannot exceed. None: it has no such operations."""

    memory_bytes_per_second: float
    bf16_flops: float
    """Peak of dense matrix products of 16-bit operands, in operations per second."""
    fp8_flops: float | None
    fp4_flops: float | None
    link_bytes_per_second: float
    """Bytes that it sends to the other GPUs of its node, in one direction."""


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
    """Total memory as torch reports it, in GiB: what vLLM multiplies. None: not known."""
    derived: str | None
    """How `torch_gib` was derived if no log shows it."""
    compute_capability: tuple[int, int] | None
    """CUDA's; `None`: the GPU has no CUDA."""
    gfx: str | None
    """Architecture of an AMD GPU, such as `gfx942`."""
    data_center: bool
    """Whether CUDA's forward compatibility is supported."""
    speed: GpuSpeed | None
    """None: not known."""

    @property
    def memory_bytes(self) -> int | None:
        """Total memory as torch reports it."""
        return None if self.torch_gib is None else round(self.torch_gib * GIB)


@cache
def gpus() -> tuple[Gpu, ...]:
    """Every GPU of the catalogue."""
    return tuple(_gpu(entry) for entry in read("gpus.json")["gpus"])


def find_gpu(name: str) -> Gpu:
    """The GPU of that name, alias or node label. Raises NotInCatalogueError."""
    found = _gpus_by_name().get(name.lower())
    if found is None:
        raise NotInCatalogueError("GPU", name, sorted(gpu.name for gpu in gpus()))
    return found


def described_gpu(name: str) -> Gpu:
    """The GPU of that name, or what its name tells of one that the catalogue does not list.

    Such a GPU has no labels and no known memory. Its vendor is AMD if the name begins with `amd` or `mi`, as AMD's
    products do, and NVIDIA otherwise.
    """
    try:
        return find_gpu(name)
    except NotInCatalogueError:
        vendor = VendorName.AMD if name.lower().startswith(("amd", "mi")) else VendorName.NVIDIA
    return Gpu(
        name=name,
        title=name,
        vendor=_vendors()[vendor],
        labels=(),
        smi_mib=0,
        torch_gib=None,
        derived=None,
        compute_capability=None,
        gfx=None,
        data_center=True,  # nothing is refused for what is not known
        speed=None,
    )


@cache
def _gpus_by_name() -> dict[str, Gpu]:
    names = {}
    for entry, gpu in zip(read("gpus.json")["gpus"], gpus(), strict=True):
        for name in (gpu.name, *entry["aliases"], *gpu.labels):
            names[name.lower()] = gpu
    return names


@cache
def _vendors() -> dict[str, GpuVendor]:
    return {entry["name"]: _vendor(entry) for entry in read("gpus.json")["vendors"]}


def _vendor(entry: Fields) -> GpuVendor:
    return GpuVendor(
        name=VendorName(entry["name"]),
        title=entry["title"],
        resource=entry["resource"],
        product_label=entry["product_label"],
        driver_labels=tuple(entry["driver_labels"]),
        whole_gpu_labels=tuple((label, tuple(values)) for label, values in entry["whole_gpu_labels"].items()),
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
        derived=entry.get("derived"),
        compute_capability=_capability(entry["compute_capability"]),
        gfx=entry.get("gfx"),
        data_center=entry["data_center"],
        speed=_speed(entry["bandwidth_tb_per_second"], entry["speed"]),
    )


def _speed(bandwidth: float, entry: Fields) -> GpuSpeed:
    fp8, fp4 = entry["fp8_tflops"], entry["fp4_tflops"]
    return GpuSpeed(
        memory_bytes_per_second=bandwidth * 1e12,
        bf16_flops=entry["bf16_tflops"] * 1e12,
        fp8_flops=None if fp8 is None else fp8 * 1e12,
        fp4_flops=None if fp4 is None else fp4 * 1e12,
        link_bytes_per_second=entry["link_gb_per_second"] * 1e9,
    )


def _capability(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    major, minor = text.split(".")
    return int(major), int(minor)
