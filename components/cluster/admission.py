"""Whether the API server would take an object: a dry run before anything is staged, which creates nothing.

This reports pod security, quotas, limit ranges, webhooks, missing classes and names that are taken. Refusals that do
not concern the object are ignored: the credentials may not create it, or the previous server still uses the quota.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.quantity import amount
from components.pods.labels import identity

_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)

_SAYS_NOTHING = ("cannot create resource", "not found", "is being terminated")
"""Phrases of refusals that do not concern the object: permissions, a namespace created or deleted."""

_QUOTA = "exceeded quota"
_QUOTA_PART = re.compile(r"(requested|used|limited): ([^ ]+?)(?=, (?:used|limited): |$)")

_HOST_PATH = (
    "weights of kind host-path need a namespace without this Pod Security level; use another namespace, or "
    "heavylift:weights.kind claim, or local for one node"
)


@dataclass(frozen=True)
class Creation:
    """An object that the stack is about to create."""

    what: str
    """For messages, such as "the server's pod"."""
    collection: str
    """API path of the kind: `api/v1:pods`, `apis/batch/v1:jobs`."""
    body: Mapping[str, Any]


def refusals(api: ClusterApi, namespace: str, creations: Sequence[Creation]) -> list[str]:
    """Returns why the API server would refuse these objects: its messages, without duplicates."""
    said = []
    for creation in creations:
        group, kind = creation.collection.split(":")
        path = f"/{group}/namespaces/{namespace}/{kind}"
        try:
            said += [f"{creation.what}: {reason}" for reason in _reasons(api, path, creation)]
        except ClusterUnreachable:
            continue
    return sorted(set(said))


def _reasons(api: ClusterApi, path: str, creation: Creation) -> Iterator[str]:
    status, text = api.dry_run(path, creation.body)
    message = _message(text)
    if status == HTTPStatus.CONFLICT:
        yield from _taken(api, path, creation.body)
    elif status in _REFUSED and not any(words in message for words in _SAYS_NOTHING):
        if _QUOTA not in message or _never_fits(message):
            yield message
        if "PodSecurity" in message and "hostPath" in message:
            yield _HOST_PATH


def _taken(api: ClusterApi, path: str, body: Mapping[str, Any]) -> Iterator[str]:
    """Yields a fault if another owner has an object of this name."""
    metadata = body["metadata"]
    existing = api.find(f"{path}/{metadata['name']}") or {"metadata": metadata}
    labels = existing["metadata"].get("labels") or {}
    if any(labels.get(label) != metadata["labels"][label] for label in identity("")):
        yield f"{metadata['name']} exists already, and this stack did not make it; delete it, or rename the stack"


def _never_fits(message: str) -> bool:
    """Whether a quota allows less than the object alone requests, so that waiting for others cannot help."""
    parts = {kind: dict(_amounts(listed)) for kind, listed in _QUOTA_PART.findall(message)}
    limits = parts.get("limited", {})
    return any(
        wanted is not None and (limit := limits.get(resource)) is not None and wanted > limit
        for resource, wanted in parts.get("requested", {}).items()
    )


def _amounts(listed: str) -> Iterator[tuple[str, int | None]]:
    """Yields resource and amount of a list such as `limits.cpu=8,pods=1`."""
    for each in listed.split(","):
        resource, _, quantity = each.partition("=")
        yield resource, amount("cpu" if resource.endswith("cpu") else resource, quantity)


def _message(text: str) -> str:
    try:
        return " ".join(str(json.loads(text)["message"]).split())
    except (ValueError, LookupError, TypeError):
        return " ".join(text.split())
