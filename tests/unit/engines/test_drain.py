"""What happens to running requests when a pod terminates."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from socket import create_server

import pytest

from engines.llama_cpp import process as llama_cpp
from engines.process import ProcessStart, Role, termination_grace_seconds
from engines.request import Deployment, FitRequest
from engines.vllm.process import WAIT_FOR_LEADER, vllm_process
from planner import fit

START = ProcessStart(
    directory="/weights/0",
    served_name="acme/model",
    host="0.0.0.0",
    model_file="model.gguf",
    arguments=(),
    nodes=1,
    ready_seconds=600,
    drain_seconds=60,
)
METRICS = """# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing {}
# HELP llamacpp:requests_deferred Number of requests deferred.
# TYPE llamacpp:requests_deferred gauge
llamacpp:requests_deferred {}
"""
"""As llama.cpp's own server prints them."""


@contextmanager
def llama_metrics(*pages: str, key: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """A server that answers `/metrics` with one page after the other, then always with the last one; with `key`, only
    requests that have it."""
    left, asked = list(pages), list[str]()

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            page = left.pop(0) if len(left) > 1 else left[0]
            self.send_response(200 if self.headers["X-Api-Key"] == key else 401)
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Metrics) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port, asked
        server.shutdown()
        thread.join()


def drain(port: int, seconds: int, key: str | None = None) -> None:
    environment = {"PATH": os.environ["PATH"]} | ({"LLAMA_API_KEY": key} if key else {})
    subprocess.run(["sh", llama_cpp.DRAIN, "0", str(port), str(seconds)], check=True, env=environment)


@pytest.mark.parametrize("busy", [(1, 0), (0, 2), (12, 3)], ids=str)
def test_llama_cpp_is_stopped_when_no_request_is_processed_or_deferred(busy: tuple[int, int]) -> None:
    with llama_metrics(METRICS.format(*busy), METRICS.format(0, 0)) as (port, asked):
        drain(port, seconds=60)
    assert asked == ["/metrics", "/metrics"]


@pytest.mark.parametrize("key", [None, "sample-key-of-32-characters-0001"])
def test_llama_cpp_is_polled_with_its_key(key: str | None) -> None:
    with llama_metrics(METRICS.format(1, 0), METRICS.format(0, 0), key=key) as (port, asked):
        drain(port, 60, key)
    assert len(asked) == 2, "without the key, the first answer would have ended the drain"


def test_llama_cpp_is_stopped_after_the_drain_at_the_latest() -> None:
    with llama_metrics(METRICS.format(1, 0)) as (port, asked):
        drain(port, seconds=2)
    assert len(asked) == 2


def test_a_llama_cpp_that_does_not_answer_is_stopped_at_once() -> None:
    with create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    drain(port, seconds=3600)


def test_a_worker_waits_until_its_leader_has_ended() -> None:
    with create_server(("127.0.0.1", 0)) as leader:
        port = leader.getsockname()[1]
        worker = wait_for_leader(port, seconds=3600)
        leader.accept()[0].close()
        assert worker.poll() is None
    assert worker.wait() == 0


def test_a_worker_waits_for_the_drain_at_the_most() -> None:
    with create_server(("127.0.0.1", 0)) as leader:
        worker = wait_for_leader(leader.getsockname()[1], seconds=1)
        assert worker.wait() == 0


def wait_for_leader(port: int, seconds: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, WAIT_FOR_LEADER, str(port), str(seconds)], env={"LWS_LEADER_ADDRESS": "127.0.0.1"}
    )


@pytest.mark.parametrize(
    ("role", "command"),
    [
        (Role.ALONE, ("sleep", "15")),
        (Role.LEADER, ("sleep", "15")),
        (Role.WORKER, ("python3", "-c", WAIT_FOR_LEADER.read_text(), "8000", "75")),
    ],
)
def test_a_pod_of_vllm_terminates_after_clients_know_and_after_its_leader(role: Role, command: tuple[str, ...]) -> None:
    assert tuple(vllm_process(START, role).pre_stop) == command
    assert termination_grace_seconds(START.drain_seconds) == 15 + 60 + 30


def test_llama_cpp_drains_before_it_is_stopped() -> None:
    script = Path(llama_cpp.DRAIN).read_text()
    command = ("sh", "-c", script, "drain", "15", "8080", "60")
    assert tuple(llama_cpp.llama_cpp_process(START, Role.ALONE).pre_stop) == command


@pytest.mark.parametrize(
    ("version", "arguments", "warned"),
    [("0.33.0", ["--shutdown-timeout", "90"], False), ("0.17.1", [], True)],
)
def test_vllm_drains_from_the_first_release_that_can(version: str, arguments: list[str], warned: bool) -> None:
    request = FitRequest(
        model="llama-3.1-8b",
        gpu="h100",
        gpus_per_node=1,
        engine_version=version,
        deployment=Deployment(nodes=1, drain_seconds=90),
    )
    plan = fit(request)
    given = [word for word in plan.engine_args if word in ("--shutdown-timeout", "90")]
    assert given == arguments
    assert ("drain_not_supported" in {warning.code for warning in plan.warnings}) is warned
