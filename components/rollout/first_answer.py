"""Requests a completion of one token from a server that reports itself healthy.

`/health` is not enough: an engine can start cleanly and crash on its first request, for example when the quantisation
does not divide by the number of ranks (vllm-project/vllm, issue 17604). The request goes to the pod through the API
server's proxy, so the stack's kubeconfig is the only credential needed. If the credentials do not allow proxying, or
the API server cannot reach pods, the result is inconclusive and not treated as a failure.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from components.cluster.api import ClusterApi, ClusterUnreachable

_SECONDS = 60
"""Allows for kernels that compile on the first request, and for requests that are already queued."""

_MAX_SHOWN = 500
"""Characters of an engine's response that an error message shows."""


class ProbeFailed(Exception):
    """The probe request failed; the message is the engine's error."""


class ProbeInconclusive(Exception):
    """The probe request was not delivered, was refused, or timed out; the message is the reason."""


@dataclass(frozen=True)
class ProbeRequest:
    """The request for one token."""

    port: int
    model: str
    """Name of the model in clients' requests."""
    path: str = "/v1/completions"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The API key, if the path needs one."""
    takes_prompt: bool = True
    """False: a GET of the path computes a token, and its answer is its status."""


def first_answer(api: ClusterApi, namespace: str, pod: str, request: ProbeRequest) -> float:
    """Returns the seconds that the server in a pod takes for one token. Raises ProbeFailed or ProbeInconclusive."""
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}:{request.port}/proxy{request.path}"
    asked = {"model": request.model, "prompt": "1 + 1 =", "max_tokens": 1, "temperature": 0}
    began = time.monotonic()
    text = _answer(api, path, asked if request.takes_prompt else None, request.headers)
    seconds = time.monotonic() - began
    if not request.takes_prompt:
        return seconds
    try:
        json.loads(text)["choices"][0]
    except (ValueError, LookupError, TypeError):
        raise ProbeInconclusive("its answer is no completion") from None
    return seconds


def _answer(api: ClusterApi, path: str, body: object, headers: Mapping[str, str]) -> str:
    try:
        method = "GET" if body is None else "POST"
        status, text = api.proxy(method, path, body, headers=headers, seconds=_SECONDS)
    except ClusterUnreachable as reason:
        raise ProbeInconclusive(str(reason)) from None
    if status == HTTPStatus.OK:
        return text
    said = f"HTTP {status}: {' '.join(text.split())[:_MAX_SHOWN]}".removesuffix(": ")
    if refusal := _refusal_of_the_cluster(text):
        # The connection was closed before a response: the engine has crashed.
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR and refusal.endswith(("EOF", "connection reset by peer")):
            raise ProbeFailed(f"it ended while it was asked ({refusal})")
        raise ProbeInconclusive(refusal)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ProbeFailed(said)
    raise ProbeInconclusive(said)


def _refusal_of_the_cluster(text: str) -> str | None:
    """Why the API server did not proxy the request. None: the response is the engine's."""
    try:
        answer = json.loads(text)
    except ValueError:
        return None
    if not isinstance(answer, dict) or answer.get("kind") != "Status":
        return None
    return str(answer.get("message", "no reason given"))
