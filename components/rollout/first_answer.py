"""One real completion, of one token, from a server that says it is healthy.

`/health` is no proof: an engine may start cleanly and die of its first request, as with a quantisation that does not
divide by the ranks (vllm-project/vllm, issue 17604). The question goes to the pod through the API server's proxy, so
that the stack's own kubeconfig is all that it takes. Where nobody may do that, or the API server does not reach pods,
nothing is known of the server, and that is no fault of it.
"""

import json
import time
from http import HTTPStatus

from components.cluster.api import ClusterApi, ClusterUnreachable

_SECONDS = 60
"""A first request may compile kernels, and a busy server has others before it."""

_MOST_SHOWN = 500
"""Characters of an engine's own words."""


class NoAnswer(Exception):
    """The server failed at it; the text says how, in the engine's words."""


class NotAsked(Exception):
    """The question did not get through, was refused, or had to wait for too long; the text says why."""


def first_answer(api: ClusterApi, namespace: str, pod: str, port: int) -> float:
    """Seconds that the server in a pod took for one token. Raises NoAnswer and NotAsked."""
    door = f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/v1"
    model = _model(_asked(api, "GET", f"{door}/models"))
    began = time.monotonic()
    _asked(api, "POST", f"{door}/completions", {"model": model, "prompt": "1 + 1 =", "max_tokens": 1, "temperature": 0})
    return time.monotonic() - began


def _asked(api: ClusterApi, method: str, path: str, body: object = None) -> str:
    try:
        status, text = api.pass_on(method, path, body, seconds=_SECONDS)
    except ClusterUnreachable as reason:
        raise NotAsked(str(reason)) from None
    if status == HTTPStatus.OK:
        return text
    said = f"HTTP {status}: {' '.join(text.split())[:_MOST_SHOWN]}".removesuffix(": ")
    if refusal := _refusal_of_the_cluster(text):
        # The connection was made, and ended without an answer: the engine is gone.
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and refusal.endswith(("EOF", "connection reset by peer")):
            raise NoAnswer(f"it ended while it was asked ({refusal})")
        raise NotAsked(refusal)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise NoAnswer(said)
    raise NotAsked(said)


def _refusal_of_the_cluster(text: str) -> str | None:
    """Why the API server itself did not pass a question on; None: the words are the engine's."""
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return None
    return str(answer.get("message", "no reason given"))


def _model(text: str) -> str:
    """The first of the names by which the server knows its model."""
    try:
        return str(json.loads(text)["data"][0]["id"])
    except (ValueError, LookupError, TypeError):
        raise NotAsked("it has no list of models") from None
