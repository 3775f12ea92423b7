"""The nodes' driver against the CUDA version of the engine's image.

In an image that always loads CUDA's compatibility libraries, they override a newer driver (error 803). An image that
loads them by a switch needs the switch for an older driver. With NVIDIA's own base images, the container toolkit
decides. An unknown image or driver changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from config.catalogue import CudaCompatibility, EngineImage, Gpu, VendorName, cuda_of_drivers, engine_facts
from config.engine_name import EngineName
from engines.finding import Finding, rejected, warning
from engines.versions import Version


@dataclass(frozen=True, slots=True)
class Compatibility:
    """The settings of a deployment that the driver requires."""

    findings: tuple[Finding, ...] = ()
    masked_directory: str | None = None
    """Directory of the image to mount an empty volume over."""
    environment: tuple[tuple[str, str], ...] = ()


def driver_compatibility(image: EngineImage | None, engine: str, driver: str | None, gpu: Gpu) -> Compatibility:
    """Settings and findings for the nodes' driver and a release's image; `engine`: such as `vLLM 0.33.0`."""
    match gpu.vendor.name:
        case VendorName.NVIDIA:
            return _cuda_compatibility(image, engine, driver, gpu)
        case VendorName.AMD:
            text = (
                f"Whether the image of {engine} works with the driver {gpu.vendor.driver} of the nodes is not checked."
            )
            return Compatibility((warning("driver_not_checked", text),))
        case _:
            assert_never(gpu.vendor.name)


def _cuda_compatibility(image: EngineImage | None, engine: str, driver: str | None, gpu: Gpu) -> Compatibility:
    if image is None:
        text = f"Which CUDA the image of {engine} contains is not known, so the driver is not checked."
        return Compatibility((warning("image_cuda_not_known", text),))
    if driver is None:
        text = (
            f"nodes.driver is not stated, so whether the driver supports the image's CUDA {image.cuda} is not checked."
        )
        return Compatibility((warning("driver_not_known", text),))
    cuda = _driver_cuda(driver)
    if cuda is None:
        text = f"The CUDA version of driver {driver!r} is not known, so the driver is not checked."
        return Compatibility((warning("driver_not_known", text),))
    if cuda >= _pair(image.cuda):
        return Compatibility(masked_directory=image.directory if image.compat is CudaCompatibility.BAKED else None)
    if image.compat is CudaCompatibility.BAKED:
        return Compatibility()
    if gpu.data_center:
        return _forward(image, driver, cuda)
    finding = rejected(
        "driver_too_old",
        f"Driver {driver} brings CUDA {cuda[0]}.{cuda[1]}, the image needs {image.cuda}, and forward compatibility "
        f"is for data-centre GPUs only, which {gpu.title} is not.",
        "Update the driver, or use an image with an older CUDA.",
    )
    return Compatibility((finding,))


def _forward(image: EngineImage, driver: str, cuda: tuple[int, int]) -> Compatibility:
    """Forward compatibility: by a switch of the image, or by the container toolkit."""
    if image.variable is not None:
        return Compatibility(environment=((image.variable, "1"),))
    text = (
        f"Driver {driver} brings CUDA {cuda[0]}.{cuda[1]}, the image needs {image.cuda}: the nodes' NVIDIA "
        "container toolkit must support forward compatibility."
    )
    return Compatibility((warning("driver_older_than_image", text),))


def image_of(engine: EngineName, version: str, read: Callable[[str], Version]) -> EngineImage | None:
    """The catalogue's entry for the image of a release; `read` parses a version, or raises ValueError."""
    for image in engine_facts(engine).images:
        first, last = image.versions
        try:
            is_of_it = read(first) <= read(version) <= read(last)
        except ValueError:
            return None
        if is_of_it:
            return image
    return None


def _driver_cuda(driver: str) -> tuple[int, int] | None:
    """The CUDA version of the newest driver branch that is not newer than a driver."""
    branch = driver.split(".", 1)[0]
    if not branch.isdecimal():
        return None
    known = cuda_of_drivers()
    older = [each for each in known if each <= int(branch)]
    return _pair(known[max(older)]) if older else None


def _pair(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)
