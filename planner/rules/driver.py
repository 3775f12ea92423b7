"""The nodes' driver against the CUDA version of the engine's image.

An image that bakes CUDA's compatibility libraries in makes them win over a newer driver (error 803); one that keeps
them behind a switch needs it where the driver is older. Nothing is changed for an image or driver that is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from config.catalogue import engines
from planner.case import Case
from planner.finding import Finding, rejected, warning
from planner.versions import Version


@dataclass(frozen=True, slots=True)
class Compatibility:
    """What a deployment must do about the driver."""

    findings: tuple[Finding, ...] = ()
    masked_directory: str | None = None
    """Directory of the image to mount an empty volume over."""
    environment: tuple[tuple[str, str], ...] = ()


def driver_compatibility(case: Case) -> Compatibility:
    """What follows from driver and image."""
    image = _image(case.version)
    driver = case.request.driver
    if image is None:
        text = f"Which CUDA the image of vLLM {case.version} carries is not known: nothing is done about the driver."
        return Compatibility((warning("image_cuda_not_known", text),))
    if driver is None:
        text = f"No driver version is stated: whether it goes with the image's CUDA {image['cuda']} is not checked."
        return Compatibility((warning("driver_not_known", text),))
    cuda = _driver_cuda(driver)
    if cuda is None:
        text = f"The CUDA of driver {driver!r} is not known: nothing is done about it."
        return Compatibility((warning("driver_not_known", text),))
    if image["compat"] == "baked":
        return _baked(image, cuda)
    return _switched(case, image, cuda)


def _baked(image: dict[str, Any], cuda: tuple[int, int]) -> Compatibility:
    newer = cuda >= _pair(image["cuda"])
    return Compatibility(masked_directory=image["directory"] if newer else None)


def _switched(case: Case, image: dict[str, Any], cuda: tuple[int, int]) -> Compatibility:
    if cuda >= _pair(image["cuda"]):
        return Compatibility()
    found = f"{cuda[0]}.{cuda[1]}"
    if case.gpu.data_center:
        return Compatibility(environment=((image["variable"], "1"),))
    finding = rejected(
        "driver_too_old",
        f"Driver {case.request.driver} brings CUDA {found}, the image needs {image['cuda']}, and forward compatibility "
        f"is for data-centre GPUs only, which {case.gpu.title} is not.",
        "Update the driver, or use an image with an older CUDA.",
    )
    return Compatibility((finding,))


def _image(version: Version) -> dict[str, Any] | None:
    for image in engines()["vllm"]["images"]:
        first, last = image["versions"]
        if Version.parse(first) <= version <= Version.parse(last):
            found: dict[str, Any] = image
            return found
    return None


def _driver_cuda(driver: str) -> tuple[int, int] | None:
    """The CUDA version of the newest driver branch that is not newer than a driver."""
    branch = driver.split(".", 1)[0]
    if not branch.isdecimal():
        return None
    known: dict[str, str] = engines()["drivers"]
    older = [int(name) for name in known if int(name) <= int(branch)]
    return _pair(known[str(max(older))]) if older else None


def _pair(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def check_driver(case: Case) -> Iterator[Finding]:
    """Findings about driver and image."""
    yield from driver_compatibility(case).findings
