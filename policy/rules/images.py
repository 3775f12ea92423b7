"""Rules about images: which one runs is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from policy.resources import Container, Resource, containers
from policy.rules.rule import Rule, Violation

_DIGEST = re.compile(r".+@sha256:[0-9a-f]{64}")


def _images(resources: Sequence[Resource]) -> Iterator[tuple[str, Container]]:
    return ((str(container.fields.get("image")), container) for container in containers(resources))


def _no_latest(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for image, container in _images(resources):
        tag = image.rsplit("/", 1)[-1].partition(":")[2]
        if "@" not in image and tag in ("", "latest"):
            yield Violation(
                f"The image {image} names no version: it changes with each release. Name a version, or a digest.",
                container.pod.owner,
            )


def _by_digest(resources: Sequence[Resource], _: Mapping[str, Any]) -> Iterator[Violation]:
    for image, container in _images(resources):
        if not _DIGEST.fullmatch(image):
            yield Violation(
                f"The image {image} names a tag, which may become another image. Name it with @sha256:DIGEST.",
                container.pod.owner,
            )


RULES = (
    Rule("no-latest-image", "Each image names a version.", _no_latest),
    Rule("images-by-digest", "Each image is named by its digest.", _by_digest, is_mandatory=False),
)
