"""Prometheus itself: its promtool reads and tests the alerts, and the real server scrapes the real model's pod."""

import base64
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from components.metrics.rules import rule_groups
from config.engine_name import EngineName
from lab.build.cache import ensure
from lab.build.pieces import PROMETHEUS_OPERATOR_PIECE, PROMETHEUS_PIECE
from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.site import Site
from tests.dashboard_picture import SERIES
from tests.lab.kubectl import Kubectl
from tests.lab.serving import Served, own_stack
from tests.metric_queries import CASES, RECORDED, queries_of

NAMESPACE = "monitored"
KEY = "metrics-key-of-32-characters-001"
RELEASE = {"release": "lab"}
RECORDED_SECONDS = 240
WITH_OPERATOR = pytest.mark.xdist_group("prometheus operator")
"""Tests that make the operator's definitions and one namespace."""


def promtool(*words: str, folder: Path) -> str:
    """Runs promtool in a folder, and returns its output. Raises an error with it."""
    command = [str(ensure(PROMETHEUS_PIECE) / "promtool"), *words]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def write_rules(engine: EngineName, folder: Path, *, annotated: bool) -> list[dict[str, Any]]:
    """Writes a stack's rules, and returns them. promtool compares annotations too, of which its cases have none."""
    groups = rule_groups("h200", queries_of(engine))
    rules: list[dict[str, Any]] = groups[0]["rules"]
    if not annotated:
        groups[0]["rules"] = [{key: value for key, value in rule.items() if key != "annotations"} for rule in rules]
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": groups}))
    return rules


@pytest.mark.parametrize("engine", EngineName)
def test_prometheus_takes_every_rule_with_its_templates(engine: EngineName, tmp_path: Path) -> None:
    rules = write_rules(engine, tmp_path, annotated=True)
    assert f"SUCCESS: {len(rules)} rules found" in promtool("check", "rules", "rules.yml", folder=tmp_path)


@pytest.mark.parametrize("engine", EngineName)
def test_each_alert_fires_when_it_should_and_only_then(engine: EngineName, tmp_path: Path) -> None:
    write_rules(engine, tmp_path, annotated=False)
    (tmp_path / "cases.yml").write_text((RECORDED / CASES[engine]).read_text())
    assert "SUCCESS" in promtool("test", "rules", "cases.yml", folder=tmp_path)


@pytest.fixture
def operator(kubectl: Kubectl) -> Iterator[None]:
    """The definitions of the operator's objects, and a Prometheus object. No operator runs."""
    with kubectl.definitions(ensure(PROMETHEUS_OPERATOR_PIECE)):
        chosen = {"matchLabels": RELEASE}
        spec = {"podMonitorSelector": chosen, "podMonitorNamespaceSelector": {}, "ruleSelector": chosen}
        metadata = {"name": "lab", "namespace": "default"}
        prometheus = {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": metadata}
        kubectl.apply({**prometheus, "spec": {**spec, "ruleNamespaceSelector": {}}})
        yield


@pytest.fixture
def served(
    operator: None,
    lab: Lab,
    hub: HubClient,
    kubectl: Kubectl,
    settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    with own_stack(lab, kubectl, settings, hub.url, tmp_path_factory.mktemp("program"), NAMESPACE) as made:
        stored = made.project.pulumi("config", "set", "--secret", "heavylift:api_key", KEY, "--stack", "dev")
        assert stored.status == 0, stored
        yield made


def as_the_operator_would(monitor: Mapping[str, Any], kubectl: Kubectl, site: Site) -> dict[str, Any]:
    """A double of the Prometheus Operator: the scrape configuration that it derives from a PodMonitor."""
    spec, (endpoint,) = monitor["spec"], monitor["spec"]["podMetricsEndpoints"]
    of_pod = "__meta_kubernetes_pod"
    kept = [
        {"source_labels": [f"{of_pod}_label_{plain(label)}"], "regex": value, "action": "keep"}
        for label, value in spec["selector"]["matchLabels"].items()
    ]
    kept.append({"source_labels": [f"{of_pod}_container_port_name"], "regex": endpoint["port"], "action": "keep"})
    copied = {"__meta_kubernetes_namespace": "namespace", f"{of_pod}_name": "pod"}
    copied |= {f"{of_pod}_label_{plain(label)}": plain(label) for label in spec["podTargetLabels"]}
    name = endpoint["authorization"]["credentials"]
    secret = kubectl.get("secret", "-n", NAMESPACE, name["name"])["data"][name["key"]]
    authorization = {"type": endpoint["authorization"]["type"], "credentials": base64.b64decode(secret).decode()}
    discovery = {"role": "pod", "kubeconfig_file": str(site.kubeconfig), "namespaces": {"names": [NAMESPACE]}}
    return {
        "job_name": "server",
        "metrics_path": endpoint["path"],
        "authorization": authorization,
        "kubernetes_sd_configs": [discovery],
        "relabel_configs": [*kept, *({"source_labels": [a], "target_label": b} for a, b in copied.items())],
    }


def plain(label: str) -> str:
    """A label's name as Prometheus writes it."""
    return "".join(each if each.isalnum() else "_" for each in label)


@contextmanager
def prometheus(scrape: Mapping[str, Any], rules: list[dict[str, Any]], folder: Path) -> Iterator[httpx2.Client]:
    """The real Prometheus on a free port, with a scrape configuration and rules."""
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": rules}))
    fast = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    whole = {"global": fast, "rule_files": ["rules.yml"], "scrape_configs": [scrape]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(whole))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address={address}"]
    with (folder / "log").open("wb") as log:
        command = [str(ensure(PROMETHEUS_PIECE) / "prometheus"), *words]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
        try:
            with httpx2.Client(base_url=f"http://{address}/api/v1") as client:
                yield client
        finally:
            process.terminate()
            process.wait()


def series(client: httpx2.Client, expression: str) -> list[Any]:
    """Returns what Prometheus answers to an expression. Raises an error if it does not take it."""
    answer = client.get("/query", params={"query": expression})
    assert answer.status_code == 200, answer.text
    found: list[Any] = answer.json()["data"]["result"]
    return found


def wait_for_series(client: httpx2.Client, expressions: list[str], log: Path, seconds: float = 120) -> None:
    """Waits until every expression has a series."""
    deadline, empty = time.monotonic() + seconds, expressions
    while empty and time.monotonic() < deadline:
        with suppress(httpx2.ConnectError):
            empty = [expression for expression in empty if not series(client, expression)]
        time.sleep(1)
    assert empty == [], log.read_text()[-2000:]


def complete(served: Served, tokens: int) -> None:
    """Asks the server for tokens, from its node and with the key."""
    [pod] = [pod for pod in served.pods("server") if "deletionTimestamp" not in pod["metadata"]]
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": tokens})
    address = f"http://{pod['status']['podIP']}:8080/v1/completions"
    served.lab.on_node(
        "real-0", "curl", "--fail", "--silent", "--header", f"Authorization: Bearer {KEY}", "--json", body, address
    )


def serve_in_waves(served: Served, seconds: float) -> None:
    """Asks the server for tokens, by one to eight clients at once, as users come and go."""
    deadline = time.monotonic() + seconds
    for users in cycle((1, 4, 8, 4)):
        if time.monotonic() >= deadline:
            return
        with ThreadPoolExecutor(users) as clients:
            list(clients.map(lambda _: complete(served, 64), range(4 * users)))


def recorded(client: httpx2.Client, expressions: list[str], began: float, seconds: float) -> dict[str, list[Any]]:
    """Returns the series of each expression since a time, with a value each 5 s."""
    window = {"start": str(began), "end": str(began + seconds), "step": "5"}
    found = {}
    for expression in expressions:
        answer = client.get("/query_range", params={"query": expression, **window})
        assert answer.status_code == 200, answer.text
        found[expression] = answer.json()["data"]["result"]
    return found


@WITH_OPERATOR
def test_the_real_server_is_scraped_as_the_pod_monitor_says_and_every_panel_has_series(
    served: Served, kubectl: Kubectl, site: Site, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """With `--regenerate-golden` it also records the series that `make dashboard-picture` draws, in four minutes."""
    served.project.configure(metrics={"kind": "pod-monitor"})
    preview = served.project.preview()
    assert "will not select the PodMonitor: it wants the label release: lab" in preview.output, preview
    assert "set heavylift:metrics.labels to {release: lab}" in preview.output, preview
    served.project.configure(metrics={"labels": RELEASE})
    up = served.project.up()
    assert up.status == 0, up
    assert "Prometheus default/lab selects the PodMonitor" in up.output, up
    (monitor,), (rule,) = served.get("podmonitors"), served.get("prometheusrules")
    (board,) = [each for each in served.get("configmaps") if "grafana_dashboard" in each["metadata"].get("labels", {})]
    (text,) = board["data"].values()
    panels = [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    alerts = [each["expr"] for each in rule["spec"]["groups"][0]["rules"]]
    scrape = as_the_operator_would(monitor, kubectl, site)
    with prometheus(scrape, rule["spec"]["groups"], tmp_path) as client:
        wait_for_series(client, ["up == 1"], tmp_path / "log")
        complete(served, 16)
        wait_for_series(client, panels, tmp_path / "log")
        for expression in alerts:
            series(client, expression)
        loaded = client.get("/rules").json()["data"]["groups"][0]["rules"]
        assert [(each["name"], each["health"]) for each in loaded] == [
            (each["alert"], "ok") for each in rule["spec"]["groups"][0]["rules"]
        ]
        assert series(client, "up")[0]["metric"]["app_kubernetes_io_instance"] == "dev"
        if pytestconfig.getoption("--regenerate-golden"):
            began = time.time()
            serve_in_waves(served, RECORDED_SECONDS)
            drawn = {"dashboard": json.loads(text), "series": recorded(client, panels, began, RECORDED_SECONDS)}
            SERIES.write_text(json.dumps(drawn, indent=1) + "\n")


@WITH_OPERATOR
def test_the_status_reads_the_real_server_with_its_key(served: Served, lab: Lab) -> None:
    up = served.project.up()
    assert up.status == 0, up
    complete(served, 8)
    command = [sys.executable, "-m", "review", "status", "--stack", "dev", "--every", "1"]
    ended = subprocess.run(
        [*command, "--format", "json"],
        cwd=served.project.directory,
        env=dict(served.project.environment),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    status = json.loads(ended.stdout)
    ((pod,), (staged,)) = status["pods"], status["staged"]
    assert (pod["state"], pod["unread"], staged["state"]) == ("ready", "", "staged")
    assert pod["load"]["running"] == 0
    assert status["release"]["repository"] == staged["repository"] == "acme/model"
