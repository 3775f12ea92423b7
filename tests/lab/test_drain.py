"""A server that terminates finishes its running requests: llama.cpp's own server on the real node."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lab.hub.client import HubClient
from lab.lifecycle import Lab
from tests.lab.kubectl import Kubectl
from tests.lab.serving import Served, own_stack

NAMESPACE = "drain"
BASE = f"/api/v1/namespaces/{NAMESPACE}/services/dev:8080/proxy"
STREAM_SECONDS = 12
"""Two such streams, one after the other, take longer than the 15 s after which llama.cpp would be told to stop."""
DRAIN_SECONDS = 600
"""Enough on a busy machine."""


@pytest.fixture
def served(
    lab: Lab, hub: HubClient, kubectl: Kubectl, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with own_stack(lab, kubectl, settings, hub.url, tmp_path_factory.mktemp("program"), NAMESPACE) as made:
        made.project.configure(engine={"drain": DRAIN_SECONDS})
        yield made


def stream(kubectl: Kubectl, tokens: int) -> list[str]:
    """Returns the events of a streamed completion of so many tokens."""
    body = {"prompt": "One, two,", "max_tokens": tokens, "stream": True, "ignore_eos": True}
    events = kubectl("create", "--raw", f"{BASE}/v1/completions", "-f", "-", text=json.dumps(body))
    return [line.removeprefix("data: ") for line in events.splitlines() if line.startswith("data: ")]


def running(kubectl: Kubectl) -> int:
    """Returns how many requests the server processes or has queued. It processes one after the other."""
    metrics = kubectl("get", "--raw", f"{BASE}/metrics")
    gauges = ("llamacpp:requests_processing ", "llamacpp:requests_deferred ")
    return sum(int(line.split()[1]) for line in metrics.splitlines() if line.startswith(gauges))


def test_streams_end_whole_while_their_pod_terminates_and_new_requests_go_elsewhere(
    served: Served, kubectl: Kubectl
) -> None:
    up = served.project.up()
    assert up.status == 0, up
    [pod] = (pod["metadata"]["name"] for pod in served.pods("server"))
    assert served.ask(), "the Service has an endpoint"
    began = time.monotonic()
    stream(kubectl, 50)
    tokens = round(50 * STREAM_SECONDS / (time.monotonic() - began))
    with ThreadPoolExecutor() as clients:
        streams = [clients.submit(stream, kubectl, tokens) for _ in range(2)]
        while running(kubectl) < len(streams):
            assert not any(each.done() for each in streams)
        assert takes_requests(kubectl, pod)
        kubectl("delete", "pod", "-n", NAMESPACE, pod, "--wait=false")
        while takes_requests(kubectl, pod):
            assert not any(each.done() for each in streams), "the streams ended, and clients still use the pod"
        for each in streams:
            *chunks, last = each.result()
            assert last == "[DONE]"
            assert json.loads(chunks[-1])["usage"]["completion_tokens"] == tokens
    assert served.ask(), "the next pod answers"


def takes_requests(kubectl: Kubectl, pod: str) -> bool:
    """Whether the Service sends requests to a pod."""
    slices = kubectl.get("endpointslices", "-n", NAMESPACE, "-l", "kubernetes.io/service-name=dev")["items"]
    endpoints = [endpoint for part in slices for endpoint in part["endpoints"] or []]
    return any(each["targetRef"]["name"] == pod and each["conditions"]["ready"] for each in endpoints)
