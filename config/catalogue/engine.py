"""Engines: pinned versions and images, their flags, and what works from which release on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache

from config.catalogue.gpu import VendorName
from config.catalogue.reading import Fields, frozen, read
from config.engine_name import EngineName


class CudaCompatibility(StrEnum):
    """How an image comes by CUDA's compatibility libraries, which let it run under an older driver."""

    BAKED = "baked"
    """They are always used, and win over a newer driver."""
    SWITCH = "switch"
    """An environment variable turns them on."""
    TOOLKIT = "toolkit"
    """The nodes' container toolkit brings them in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineImage:
    """What the images of a range of releases carry."""

    versions: tuple[str, str]
    """First and last release, both included."""
    cuda: str
    compat: CudaCompatibility
    directory: str | None = None
    """Where the compatibility libraries lie, for `baked`."""
    variable: str | None = None
    """The environment variable, for `switch`."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EfaImage:
    """An image with the libraries that NCCL needs for EFA."""

    image: str
    contents: str
    """The release of the engine in it, as far as known."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """One engine."""

    default_version: str
    image: Mapping[VendorName, str]
    """The image of the default version for each vendor's GPUs."""
    images: tuple[EngineImage, ...]
    efa_images: tuple[EfaImage, ...] = ()
    """Images with EFA; `image` has none of it."""
    first_token_bounds: tuple[float, ...] = ()
    """Bounds of its histogram of the time to the first token, in seconds. Empty: it has none."""
    first_token_source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFlags:
    """Flags of one engine's server."""

    version: str
    """The release that they were read from."""
    complete: bool
    """Whether a flag that is not listed is a mistake."""
    source: str
    flags: tuple[str, ...]
    short_forms: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The values of flags that take one of a few."""
    tool_parsers: tuple[str, ...] = ()
    reasoning_parsers: tuple[str, ...] = ()
    removed: Mapping[str, str] = field(default_factory=dict)
    """Flags of older releases, and what became of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRange:
    """Which releases of vLLM cannot do something, as far as that is known."""

    fails_through: str
    """The newest release known to fail, as do all older ones."""
    works_since: str | None
    """The oldest release known to work; `None`: none is known."""
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Vulnerability:
    """A published vulnerability of an engine."""

    id: str
    """Its number in the CVE list."""
    affected_since: str | None
    """First affected release. None: every older one too."""
    fixed_in: str | None
    """Release with the fix. None: no release is known to have it."""
    what: str
    """What an attacker can do."""
    source: str
    setting: str | None = None
    """Key of `heavylift:engine` without which the engine is not affected. None: it always is."""


@cache
def engine_facts(engine: EngineName) -> EngineFacts:
    """Version and images of an engine."""
    entry = read("engines.json")["engines"][engine]
    return EngineFacts(
        default_version=entry["default_version"],
        image={VendorName(vendor): image for vendor, image in entry["image"].items()},
        images=tuple(_image(image) for image in entry["images"]),
        efa_images=tuple(EfaImage(**image) for image in entry.get("efa_images", ())),
        first_token_bounds=tuple(entry.get("first_token_bounds", ())),
        first_token_source=entry.get("first_token_source", ""),
    )


@cache
def cuda_of_drivers() -> Mapping[int, str]:
    """The CUDA version that each branch of NVIDIA's driver brings."""
    return {int(branch): cuda for branch, cuda in read("engines.json")["drivers"].items()}


@cache
def engine_flags(engine: EngineName) -> EngineFlags:
    """The flags of an engine."""
    return EngineFlags(**frozen(read("engine_flags.json")[engine]))


@cache
def vulnerabilities(engine: EngineName) -> tuple[Vulnerability, ...]:
    """The vulnerabilities of an engine that the catalogue has, oldest fix first."""
    return tuple(Vulnerability(**entry) for entry in read("vulnerabilities.json")[engine])


@cache
def release_ranges() -> Mapping[str, ReleaseRange]:
    """What works from which release of vLLM on, by the name of the rule."""
    return {name: ReleaseRange(**rule) for name, rule in read("rules.json")["rules"].items()}


def _image(entry: Fields) -> EngineImage:
    return EngineImage(**{**frozen(entry), "compat": CudaCompatibility(entry["compat"])})
