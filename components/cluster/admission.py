"""Whether the API server would admit a pod: a dry run before anything is staged, which creates nothing.

This reports pod security, quota rules, limit ranges, webhooks and missing classes. Refusals that do not concern the pod
are ignored: the credentials may not create pods, or the previous server still uses the quota.
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable

_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)

_SAYS_NOTHING = ("cannot create resource", "exceeded quota", "not found", "is being terminated")
"""Phrases of refusals that do not concern the pod: permissions, a quota in use, a namespace created or deleted."""


def refusals(api: ClusterApi, namespace: str, pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns why the API server would refuse these pods: its messages, without duplicates."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    said = []
    for pod in pods:
        try:
            status, text = api.dry_run(path, {"apiVersion": "v1", "kind": "Pod", **pod})
        except ClusterUnreachable:
            continue
        if status in _REFUSED and not any(words in text for words in _SAYS_NOTHING):
            said.append(_message(text))
    return sorted(set(said))


def _message(text: str) -> str:
    try:
        return " ".join(str(json.loads(text)["message"]).split())
    except (ValueError, LookupError, TypeError):
        return " ".join(text.split())
