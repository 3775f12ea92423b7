"""Whether the API server would take a pod, asked before anything is staged for it: a dry run, which makes nothing.

Pod security, quotas' rules, limit ranges, webhooks and missing classes are all heard so. Somebody who may not make pods
by himself, and a quota that the server before still uses up, say nothing of the pod.
"""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable

_REFUSED = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY)

_SAYS_NOTHING = ("cannot create resource", "exceeded quota", "not found", "is being terminated")
"""Words of refusals that are not about the pod: rights, a quota in use, a namespace that comes or goes."""


def refusals(api: ClusterApi, namespace: str, pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why the API server would not take these pods, in its own words, each reason once."""
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
