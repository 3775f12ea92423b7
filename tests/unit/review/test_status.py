"""`review status` against pods as a cluster described them, and pages of metrics as real servers answered them."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from config.engine_name import EngineName
from config.stack.file import read_sections, stack_file
from config.stack.sections import StackConfig
from engines.registry import engine_of
from review.checkout import ReviewError
from review.status import show
from review.status.page import load_of, read_page
from review.status.reading import Status, StatusReader
from tests.metric_queries import PAGES
from tests.program import PROGRAM
from tests.unit.components.api_server import Answer, api_server
from tests.unit.components.recorded_pods import recorded_pod

VLLM, LLAMA_CPP = (PAGES[engine].read_text() for engine in (EngineName.VLLM, EngineName.LLAMA_CPP))
REVISION = "4d01dfe0332d63057c186e0b262165819efb6611"
WEIGHTS = {"repository": "moonshotai/Kimi-K2.5", "revision": REVISION, "digest": "0" * 16, "bytes": 595_200_000_000}
RELEASE = {**WEIGHTS, "engine": "vllm", "version": "0.33.0", "image": "vllm/vllm-openai:v0.33.0"}
PLAN = {
    "verdict": "fits",
    "gpu": "h200",
    "layout": {"tp": 8},
    "nodes_per_server": 1,
    "gpus_per_pod": 8,
    "replicas": 1,
    "context": 262144,
    "kv_tokens": [1, 2],
    "load_seconds": 530.0,
    "cost_per_hour_usd": 25.6,
}
NAMESPACE = "/namespaces/heavylift"
PODS, PROXY = f"/api/v1{NAMESPACE}/pods", f"/api/v1{NAMESPACE}/pods/server-0:8000/proxy/metrics"


def server_pod(*, port: int = 8000, secret: str | None = None) -> dict[str, Any]:
    """A pod that serves, with what a server's pod has of port and key."""
    pod = recorded_pod("serves")
    engine: dict[str, Any] = {"name": "engine", "ports": [{"name": "http", "containerPort": port}]}
    if secret:
        engine["env"] = [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": secret, "key": "api-key"}}}]
    pod["spec"]["containers"] = [engine]
    return pod


def cluster(
    pod: dict[str, Any], release: Mapping[str, Any] = RELEASE, annotations: Mapping[str, str] = MappingProxyType({})
) -> dict[str, Answer]:
    written = {
        "server.heavylift/release": json.dumps(release),
        "server.heavylift/plan": json.dumps(PLAN),
        **annotations,
    }
    job = {
        "metadata": {"name": "stage", "annotations": {"stage.heavylift/staged": json.dumps(WEIGHTS)}},
        "spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "h200-0"}}}},
        "status": {"succeeded": 1},
    }
    made = {"creationTimestamp": (datetime.now(UTC) - timedelta(hours=3)).isoformat(), "annotations": written}
    return {
        f"/apis/apps/v1{NAMESPACE}/deployments": {"items": [{"metadata": made}]},
        f"/apis/batch/v1{NAMESPACE}/jobs": {"items": [job]},
        PODS: {"items": [pod]},
    }


def stack_config(stack: str = "h200") -> StackConfig:
    return StackConfig.parse(read_sections(stack_file(stack, PROGRAM)))


def read(answers: Mapping[str, Answer], stack: str = "h200") -> Status:
    with api_server(answers) as api:
        return StatusReader(stack, stack_config(stack), api).read()


def test_everything_of_a_server_is_on_one_screen() -> None:
    ends = (datetime.now(UTC) + timedelta(hours=5, minutes=12)).isoformat()
    status = read({**cluster(server_pod(), annotations={"server.heavylift/capacity-ends": ends}), PROXY: (200, VLLM)})
    text = show.terminal(status)
    assert status.serves
    first, *rows = text.splitlines()
    assert first.startswith(
        "h200 in namespace heavylift: serves moonshotai/Kimi-K2.5 at 4d01dfe0332d, vLLM 0.33.0; made 3.0 h ago"
    )
    said = "\n".join(rows)
    for words in (
        "fits, 8 H200",
        "TP8, context 262,144, 25.60 $/h",
        "server-0 on",
        ": ready,",
        "0 running, 0 waiting",
        "KV cache",
        "595.2 GB: staged on h200-0",
        "ends in 5.2 h (",
    ):
        assert words in said
    assert json.loads(show.as_json(status))["release"] == RELEASE


def test_the_time_to_the_first_token_is_that_of_the_recorded_page() -> None:
    load = load_of(engine_of(EngineName.VLLM).metrics, read_page(VLLM, 0.0), None)
    figures = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in VLLM.splitlines() if line[0] != "#"}
    name = "vllm:time_to_first_token_seconds"
    assert load.first_token_requests == figures[f"{name}_count"] > 0
    assert load.first_token_seconds == pytest.approx(figures[f"{name}_sum"] / figures[f"{name}_count"])
    assert load.kv_usage == figures["vllm:kv_cache_usage_perc"]
    assert load.generated_per_second is None


def later(page: str, **values: float) -> str:
    """The page with other values of some series, which are named without their prefix."""
    for name, value in values.items():
        page, found = re.subn(rf"^(\w+:{name}(?:{{.*}})?) .*$", rf"\g<1> {value}", page, flags=re.M)
        assert found == 1
    return page


def test_rates_are_over_the_time_between_two_pages() -> None:
    metrics = engine_of(EngineName.VLLM).metrics
    before = read_page(later(VLLM, generation_tokens_total=1000, prompt_tokens_total=0), 10.0)
    now = read_page(later(VLLM, generation_tokens_total=1600, prompt_tokens_total=300), 15.0)
    load = load_of(metrics, now, before)
    assert (load.generated_per_second, load.prompt_per_second, load.seconds) == (120.0, 60.0, 5.0)
    assert load.first_token_now is False
    restarted = load_of(metrics, read_page(later(VLLM, generation_tokens_total=3), 20.0), now)
    assert restarted.generated_per_second is None


def test_llama_cpp_counts_steps_since_it_counts_an_answers_tokens_when_it_ends() -> None:
    metrics = engine_of(EngineName.LLAMA_CPP).metrics
    before = read_page(later(LLAMA_CPP, n_decode_total=24), 0.0)
    now = read_page(later(LLAMA_CPP, n_decode_total=64, requests_processing=2), 5.0)
    load = load_of(metrics, now, before)
    assert load.generated_per_second == 16.0
    assert (load.running, load.waiting, load.kv_usage, load.first_token_seconds) == (2, 1, None, None)


GGUF = {**RELEASE, "engine": "llama.cpp", "version": "b10920"}
SECRET = f"/api/v1{NAMESPACE}/secrets/server-api-key"
OF_LLAMA_CPP = f"/api/v1{NAMESPACE}/pods/server-0:8080/proxy/metrics"


def test_the_key_of_llama_cpp_is_read_from_its_secret() -> None:
    secret = {"data": {"api-key": base64.b64encode(b"the-key").decode()}}
    answers = {
        **cluster(server_pod(port=8080, secret="server-api-key"), GGUF),
        SECRET: secret,
        OF_LLAMA_CPP: (200, LLAMA_CPP),
    }
    (pod,) = read(answers, "h200-gguf").pods
    assert pod.load is not None
    assert pod.unread == ""


def test_a_secret_that_may_not_be_read_is_said_and_the_rest_is_shown() -> None:
    answers = {
        **cluster(server_pod(port=8080, secret="server-api-key"), GGUF),
        SECRET: (403, json.dumps({"message": "forbidden to you"})),
        OF_LLAMA_CPP: (200, LLAMA_CPP),
    }
    status = read(answers, "h200-gguf")
    (pod,) = status.pods
    assert pod.load is None
    assert "need the API key, in Secret server-api-key: status 403, forbidden to you" in pod.unread
    assert pod.unread in show.terminal(status)
    assert status.serves


@pytest.mark.parametrize("answer", [(503, "no endpoints"), (200, "<html>not metrics")])
def test_metrics_that_cannot_be_read_are_no_failure(answer: tuple[int, str]) -> None:
    (pod,) = read({**cluster(server_pod()), PROXY: answer}).pods
    assert pod.load is None
    assert pod.unread.startswith("its metrics cannot be read: ")


def test_a_pod_that_loads_is_asked_nothing() -> None:
    pod = server_pod()
    for condition in pod["status"]["conditions"]:
        if condition["type"] == "Ready":
            condition["status"] = "False"
    status = read(cluster(pod))
    assert status.pods[0].unread == ""
    assert not status.serves
    assert "does not serve" in show.terminal(status)


def test_a_stack_that_is_not_there_has_no_server() -> None:
    status = read({})
    assert show.terminal(status) == "h200 in namespace heavylift: no server"
    assert not status.serves


def test_a_server_of_an_older_version_has_nothing_written_on_it() -> None:
    answers = cluster(server_pod())
    made = {"creationTimestamp": datetime.now(UTC).isoformat()}
    answers[f"/apis/apps/v1{NAMESPACE}/deployments"] = {"items": [{"metadata": made}]}
    assert "by a version that wrote no release on it" in show.terminal(read({**answers, PROXY: (200, VLLM)}))


def test_a_cluster_that_refuses_is_one_clear_error() -> None:
    with api_server({}, status=403) as api, pytest.raises(ReviewError, match="the cluster cannot be read: status 403"):
        StatusReader("h200", stack_config(), api).read()


def test_a_stack_without_a_kubeconfig_says_where_to_name_one(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "review", "status", "--stack", "aws-l4"],
        cwd=PROGRAM,
        env={"PATH": "/usr/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert run.stderr.startswith("review status: the stack cannot be read:")
    assert "HEAVYLIFT_KUBECONFIG" in run.stderr
    assert "Traceback" not in run.stderr
