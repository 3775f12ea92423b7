"""Rules for the server's image, as far as its name says what it contains."""

from __future__ import annotations

import re
from collections.abc import Iterator

from config.catalogue import EngineFacts, VendorName, described_gpu, engine_facts
from engines.finding import Finding, rejected, warning
from engines.request import FitRequest


def check_image(request: FitRequest, nodes_per_server: int) -> Iterator[Finding]:
    """Rejects an image for another vendor's GPUs or without EFA, and warns of one of another release than the stack."""
    image = request.deployment.image if request.deployment else None
    if not image or not request.gpu:
        return
    facts = engine_facts(request.engine)
    vendor, release = _contents(image, facts)
    needed = described_gpu(request.gpu).vendor.name
    if vendor not in (None, needed):
        yield rejected(
            "image_of_another_vendor",
            f"engine.image {image} does not run on nodes.gpu {request.gpu}: it is built for another vendor's GPUs.",
            f"Expected an image like {facts.image[needed]}."
            if needed in facts.image
            else "Expected one for those GPUs.",
        )
    if request.fabric == "efa" and nodes_per_server > 1 and vendor is not None:
        known = ", ".join(f"{each.image} ({each.contents})" for each in facts.efa_images)
        yield rejected(
            "image_without_efa",
            f"engine.image {image} has no EFA libraries (libfabric, aws-ofi-nccl): NCCL would use TCP between the "
            "nodes, which is 10 to 100 times slower, without an error.",
            f"Set engine.image to one that has them: {known}, or one of your own.",
        )
    version = (request.engine_version or facts.default_version).removeprefix("v")
    if release and not release.startswith(version):
        yield warning(
            "image_of_another_release",
            f"engine.image {image} contains {release}, and the plan is for engine.version {version}.",
        )


def _contents(image: str, facts: EngineFacts) -> tuple[VendorName | None, str | None]:
    """The vendor and the release of an image, if its name is like one that the catalogue knows."""
    repository, tag = _split(image)
    known = {vendor: _split(each) for vendor, each in facts.image.items()}
    for vendor, (its_repository, its_tag) in known.items():
        prefix = its_tag.removesuffix(facts.default_version)
        if repository == its_repository and tag.startswith(prefix):
            release = tag.removeprefix(prefix)
            return vendor, release if re.match(r"b?\d", release) else None
    vendors = [vendor for vendor, (its_repository, _) in known.items() if repository == its_repository]
    return vendors[0] if len(vendors) == 1 else None, None


def _split(image: str) -> tuple[str, str]:
    """Repository and tag, without a digest and without the registry that an image has by default."""
    name = image.partition("@")[0].removeprefix("index.").removeprefix("docker.io/")
    repository, _, tag = name.rpartition(":")
    return (repository, tag) if repository and "/" not in tag else (name, "")
