"""The digest of a container image, asked of its registry.

Speaks the registry protocol of the OCI distribution specification (github.com/opencontainers/distribution-spec),
without a login: for images that everybody may pull.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

import httpx2

from config.errors import StackError

_DEFAULT_REGISTRY = "registry-1.docker.io"
"""Of a name without a registry, as Docker and Kubernetes read it."""

_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_REFERENCE = re.compile(r"(?P<name>[^@:]+(:\d+/[^@:]+)?)(:(?P<tag>[\w.-]+))?", re.ASCII)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')
_LOCAL = ("localhost", "127.0.0.1")
_TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class _Image:
    base: str
    """Address of the registry."""
    repository: str
    tag: str


def with_digest(image: str) -> str:
    """The image with the digest that its tag names now, as `name:tag@sha256:DIGEST`; unchanged if it has one.

    Raises StackError if the registry does not say.
    """
    if "@" in image:
        return image
    parsed = _parsed(image)
    try:
        with httpx2.Client(timeout=_TIMEOUT_SECONDS, follow_redirects=True) as client:
            answer = _manifest(client, parsed)
    except httpx2.HTTPError as error:
        raise StackError([f"image {image}: {parsed.base} cannot be reached: {error}"]) from None
    if answer.status_code in (401, 403):
        raise StackError(
            [f"image {image}: {parsed.base} asks for a login: write name@sha256:DIGEST into the stack file by hand"]
        )
    if not answer.is_success:
        raise StackError([f"image {image}: {parsed.base} answers {answer.status_code}: correct the name or the tag"])
    digest = f"sha256:{hashlib.sha256(answer.content).hexdigest()}"
    stated = answer.headers.get("Docker-Content-Digest", digest)
    if stated != digest:
        raise StackError([f"image {image}: {parsed.base} says {stated}, and its manifest has {digest}: try again"])
    return f"{image}@{digest}"


def _manifest(client: httpx2.Client, image: _Image) -> httpx2.Response:
    """The manifest, with a token if the registry names where everybody gets one."""
    address = f"{image.base}/v2/{image.repository}/manifests/{image.tag}"
    answer = client.get(address, headers={"Accept": _MANIFESTS})
    challenge = answer.headers.get("WWW-Authenticate", "")
    if answer.status_code != 401 or not challenge.lower().startswith("bearer "):
        return answer
    fields = dict(_CHALLENGE.findall(challenge))
    realm = fields.pop("realm", "")
    if not realm.startswith("https://") and not image.base.startswith("http://"):
        return answer
    granted = client.get(realm, params=fields)
    if not granted.is_success:
        return answer
    body = granted.json()
    token = body.get("token") or body.get("access_token")
    return client.get(address, headers={"Accept": _MANIFESTS, "Authorization": f"Bearer {token}"})


def _parsed(image: str) -> _Image:
    found = _REFERENCE.fullmatch(image)
    if not found:
        raise StackError([f"image {image}: is no image's name: expected name:tag"])
    first, slash, rest = found["name"].partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    host, repository = (first, rest) if is_host else (_DEFAULT_REGISTRY, found["name"])
    if not is_host and not slash:
        repository = f"library/{repository}"
    scheme = "http" if host.partition(":")[0] in _LOCAL else "https"
    return _Image(f"{scheme}://{host}", repository, found["tag"] or "latest")
