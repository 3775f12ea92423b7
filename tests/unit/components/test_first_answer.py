"""One token from a server, asked through an API server's proxy over real HTTP."""

import json
import socket
from email.message import Message

import pytest

from components.cluster.api import ClusterApi
from components.rollout.first_answer import ProbeFailed, ProbeInconclusive, ProbeRequest, first_answer
from tests.unit.components.api_server import Answer, api_server, kubeconfig

PROXY = "/api/v1/namespaces/serving/pods/server-0:8000/proxy"
REQUEST = ProbeRequest(8000, "acme/model")
ANSWER: Answer = {"choices": [{"text": " 2"}]}


def asked(completions: Answer) -> float:
    """The first answer of a server with this answer."""
    with api_server({f"{PROXY}/v1/completions": completions}) as api:
        return first_answer(api, "serving", "server-0", REQUEST)


def refused(message: str, status: int) -> Answer:
    """The API server's own words, as it says them of a pod behind its proxy."""
    return status, json.dumps({"kind": "Status", "apiVersion": "v1", "message": message, "code": status})


def test_a_server_that_answers_took_some_time() -> None:
    assert 0 < asked(ANSWER) < 60


def test_an_engines_error_is_told_in_its_own_words() -> None:
    with pytest.raises(ProbeFailed, match=r"HTTP 500: \{.*size_k must be divisible"):
        asked((500, '{"object": "error",\n "message": "size_k must be divisible"}'))


def test_an_engine_that_ends_while_it_is_asked_has_failed() -> None:
    with pytest.raises(ProbeFailed, match="it ended while it was asked"):
        asked(refused("error trying to reach service: EOF", 503))
    with pytest.raises(ProbeFailed, match="it ended while it was asked"):
        asked(refused("error trying to reach service: read tcp 10.0.0.1:8000: read: connection reset by peer", 503))


@pytest.mark.parametrize(
    "completions",
    [
        refused("error trying to reach service: dial tcp 10.0.0.1:8000: network is unreachable", 503),
        refused("pods is forbidden: cannot get resource pods/proxy", 403),
        (401, '{"error": "Unauthorized"}'),
        (200, "<html>a page of something else</html>"),
        {"choices": []},
        (404, "no such door"),
        (400, "no text from this model"),
    ],
    ids=["not reached", "not allowed", "needs a key", "other server", "no choices", "no completions", "other task"],
)
def test_where_the_question_does_not_get_through_nothing_is_held_against_the_server(completions: Answer) -> None:
    with pytest.raises(ProbeInconclusive):
        asked(completions)


def test_a_server_with_a_key_is_asked_with_the_header_that_the_proxy_lets_through() -> None:
    request = ProbeRequest(8000, "acme/model", "/v1/completions", {"X-Api-Key": "sample-key"})
    heads: list[Message] = []
    with api_server({f"{PROXY}/v1/completions": ANSWER}, heads=heads) as api:
        first_answer(api, "serving", "server-0", request)
    assert [head["X-Api-Key"] for head in heads] == ["sample-key"]
    assert "sample-key" not in repr(request)


@pytest.mark.parametrize(("status", "fails"), [(200, False), (503, True)])
def test_a_path_that_takes_no_prompt_answers_by_its_status(status: int, fails: bool) -> None:
    request = ProbeRequest(8000, "acme/model", "/health_generate", takes_prompt=False)
    with api_server({f"{PROXY}/health_generate": (status, "")}) as api:
        if fails:
            with pytest.raises(ProbeFailed, match="HTTP 503"):
                first_answer(api, "serving", "server-0", request)
        else:
            assert first_answer(api, "serving", "server-0", request) < 60


def test_a_cluster_that_is_gone_meanwhile_is_no_fault_of_the_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ProbeInconclusive, match="Connection refused"):
        first_answer(ClusterApi(kubeconfig(port)), "serving", "server-0", REQUEST)
