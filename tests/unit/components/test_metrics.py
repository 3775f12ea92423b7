"""What a stack with `heavylift:metrics` makes for Prometheus and Grafana, and what it refuses."""

import json
import re
from dataclasses import replace
from typing import Any

import pulumi
import pytest

from components.cluster.facts import ClusterFacts
from components.metrics.selection import Monitoring
from config.errors import StackError
from config.stack.file import read_sections, stack_file
from config.stack.sections import StackConfig
from tests.dashboard_picture import SERIES
from tests.program import PROGRAM, fit_cluster, run_program
from tests.recording_engine import Recording
from tests.unit.components.test_whole_program import KEY, server_pod

MONITORED = {"kind": "pod-monitor", "labels": {"release": "kube-prometheus-stack"}}


def sections_of(stack: str, metrics: dict[str, Any] | None) -> dict[str, Any]:
    own = read_sections(stack_file(stack, PROGRAM))
    own.pop("promotion", None)
    return own if metrics is None else own | {"metrics": metrics}


def run(monkeypatch: pytest.MonkeyPatch, stack: str, metrics: dict[str, Any] | None, **more: Any) -> Recording:
    return run_program(monkeypatch, stack, sections=sections_of(stack, metrics), **more)


def rules(recording: Recording) -> dict[str, Any]:
    (group,) = recording.only(":PrometheusRule").inputs["spec"]["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def configs(recording: Recording, part: str) -> dict[str, str]:
    """The data of the ConfigMap `metrics-<part>`."""
    (found,) = [each for each in recording.of_type(":ConfigMap") if each.name == f"metrics-{part}"]
    data: dict[str, str] = found.inputs["data"]
    return data


def test_a_stack_without_the_section_makes_nothing_for_prometheus(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(monkeypatch, "h200", None)
    assert recording.of_type(":ServerMetrics") == []
    assert "prometheus.io/scrape" not in server_pod(recording)["metadata"]["annotations"]


@pytest.mark.parametrize("stack", ["h200", "h200-gguf"])
def test_the_pod_monitor_selects_the_servers_pods_by_their_port(stack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(monkeypatch, stack, MONITORED)
    monitor, pod = recording.only(":PodMonitor").inputs, server_pod(recording)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    assert monitor["metadata"]["labels"]["release"] == "kube-prometheus-stack"
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "http", "path": "/metrics"}
    (engine,) = pod["spec"]["containers"]
    assert [port["name"] for port in engine["ports"]] == ["http"]


def test_only_the_pod_of_a_group_that_answers_has_that_port(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(monkeypatch, "h100x16", MONITORED)
    template = recording.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    named = [
        [port["name"] for port in template[role]["spec"]["containers"][0].get("ports", [])]
        for role in ("leaderTemplate", "workerTemplate")
    ]
    assert named == [["http"], []]


def test_only_an_engine_that_asks_for_the_key_is_given_it_from_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    secured = run(monkeypatch, "h200-gguf", MONITORED, api_key=KEY)
    (endpoint,) = secured.only(":PodMonitor").inputs["spec"]["podMetricsEndpoints"]
    secret = next(each for each in secured.of_type(":Secret") if each.name == "server-api-key")
    assert endpoint["authorization"]["type"] == "Bearer"
    assert endpoint["authorization"]["credentials"]["key"] in secret.inputs["stringData"]
    assert KEY not in str(secured.only(":PodMonitor").inputs)
    open_page = run(monkeypatch, "h200", MONITORED, api_key=KEY)
    assert "authorization" not in open_page.only(":PodMonitor").inputs["spec"]["podMetricsEndpoints"][0]


def test_annotations_are_on_the_pods_that_answer_and_count_as_a_change_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = run(monkeypatch, "h100x16", None).only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    annotated = run(monkeypatch, "h100x16", {"kind": "annotations"})
    template = annotated.only(":LeaderWorkerSet").inputs["spec"]["leaderWorkerTemplate"]
    leader, worker = (template[role]["metadata"]["annotations"] for role in ("leaderTemplate", "workerTemplate"))
    scrape = {"prometheus.io/scrape": "true", "prometheus.io/path": "/metrics", "prometheus.io/port": "8000"}
    assert scrape.items() <= leader.items()
    assert not scrape.keys() & worker.keys()
    version = "server.heavylift/template"
    assert leader[version] == worker[version] != plain["leaderTemplate"]["metadata"]["annotations"][version]
    assert annotated.of_type(":PodMonitor") == annotated.of_type(":PrometheusRule") == []
    assert json.loads(configs(annotated, "alerts")["alerts.yml"])["groups"][0]["rules"]


def test_annotations_that_could_not_carry_the_key_are_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = Recording()
    with pytest.raises(pulumi.RunError, match="expected pod-monitor"):
        run(monkeypatch, "h200-gguf", {"kind": "annotations"}, api_key=KEY, into=recording)
    assert [each.type for each in recording.registrations] == ["pulumi:providers:kubernetes"]
    assert run(monkeypatch, "h200", {"kind": "annotations"}, api_key=KEY).of_type(":ServerMetrics")


@pytest.mark.parametrize("left_out", ["alerts", "dashboard"])
def test_alerts_and_dashboard_can_be_left_out(left_out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(monkeypatch, "h200", {**MONITORED, left_out: False})
    names = {each.name for each in recording.registrations if each.name.startswith("metrics-")}
    assert names == {"metrics-pods", "metrics-alerts", "metrics-dashboard"} - {f"metrics-{left_out}"}


def test_every_alert_has_a_summary_and_the_command_to_run_next(monkeypatch: pytest.MonkeyPatch) -> None:
    alerts = rules(run(monkeypatch, "h200", MONITORED))
    assert len(alerts) >= 13
    for rule in alerts.values():
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].startswith("Next: ")
        assert rule["labels"]["severity"] in ("critical", "warning")
    assert 'le="5.0"' in alerts["TimeToFirstTokenBurn"]["expr"]
    # failureThreshold 166 of 10 s, as tests/golden/h200.up.json has it.
    assert alerts["ServerDown"]["for"] == "28m"


def test_alerts_are_about_this_stack_and_about_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    local, group, gguf = (rules(run(monkeypatch, stack, MONITORED)) for stack in ("h200", "h100x16", "h200-gguf"))
    assert "InfiniBandDown" not in local
    assert "InfiniBandDown" in group
    assert 'persistentvolumeclaim=~"h200-weights-h200-0"' in local["WeightsVolumeNearlyFull"]["expr"]
    assert 'mountpoint="/mnt/nvme"' in group["WeightsDiskNearlyFull"]["expr"]
    assert "WeightsVolumeNearlyFull" not in group
    assert 'pod=~"server-0123abcd-.*"' in local["EngineRestarting"]["expr"]
    assert "TimeToFirstTokenBurn" not in gguf
    assert "CapacityEnds" not in local
    for rule in local.values():
        assert any(own in rule["expr"] for own in ('namespace="heavylift"', 'exported_namespace="heavylift"'))


def test_the_dashboard_has_one_panel_for_each_of_the_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(monkeypatch, "h200", MONITORED)
    ((name, text),) = configs(recording, "dashboard").items()
    board = json.loads(text)
    assert name.endswith(".json")
    assert len(board["uid"]) <= 40
    titles = [panel["title"] for panel in board["panels"]]
    assert {"Requests", "Tokens per second", "Time to first token", "KV cache in use"} <= set(titles)
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert all('app_kubernetes_io_instance="h200"' in expression for expression in expressions)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_a_cluster_without_the_operator_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    sections = sections_of("h200", MONITORED)
    without: ClusterFacts = replace(fit_cluster(StackConfig.parse(sections)), monitoring=Monitoring())
    recording = Recording()
    with pytest.raises(pulumi.RunError, match=r"monitoring.coreos.com/v1 is missing"):
        run(monkeypatch, "h200", MONITORED, cluster=without, into=recording)
    assert [each.type for each in recording.registrations] == ["pulumi:providers:kubernetes"]
    assert run(monkeypatch, "h200", {"kind": "annotations"}, cluster=without).of_type(":ServerMetrics")


@pytest.mark.parametrize(
    ("stack", "seconds", "expected"),
    [("h200", 3, "expected one of 0.001, 0.005"), ("h200-gguf", 5, "expected it to be left out")],
)
def test_a_bound_that_the_engine_does_not_measure_is_refused(stack: str, seconds: float, expected: str) -> None:
    with pytest.raises(StackError) as refusal:
        StackConfig.parse(sections_of(stack, {**MONITORED, "ttft_seconds": seconds}))
    (fault,) = refusal.value.faults
    assert fault.startswith(f"heavylift:metrics.ttft_seconds: {seconds}")
    assert expected in fault


def test_a_section_without_a_kind_is_refused() -> None:
    with pytest.raises(StackError) as refusal:
        StackConfig.parse(sections_of("h200", {"alerts": True}))
    assert "heavylift:metrics.kind: is missing" in str(refusal.value)


def test_what_the_cluster_does_not_know_is_written_on_the_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run(monkeypatch, "h200", None)
    written = recording.only(":Deployment").inputs["metadata"]["annotations"]
    release, plan = (json.loads(written[f"server.heavylift/{what}"]) for what in ("release", "plan"))
    assert release["repository"] == "moonshotai/Kimi-K2.5"
    assert release["bytes"] > 500e9
    assert plan["layout"] == {"tp": 8}
    (job,) = [job for job in recording.of_type(":Job") if job.name.startswith("stage-")]
    staged = json.loads(job.inputs["metadata"]["annotations"]["stage.heavylift/staged"])
    assert staged == {key: release[key] for key in ("repository", "revision", "digest", "bytes")}
    assert "server.heavylift/capacity-ends" not in written


def test_the_picture_in_the_docs_is_of_the_panels_that_a_stack_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a panel changes, tests/lab/test_prometheus.py records the series again, and `make dashboard-picture` draws."""
    (text,) = configs(run(monkeypatch, "dev", MONITORED), "dashboard").values()

    def drawn(board: dict[str, Any]) -> dict[str, list[str]]:
        """Returns the queries of each panel, without the namespace, which the lab chooses."""
        return {
            panel["title"]: [re.sub(r'namespace="[^"]+"', "", target["expr"]) for target in panel["targets"]]
            for panel in board["panels"]
        }

    recorded = json.loads(SERIES.read_text())
    assert drawn(recorded["dashboard"]) == drawn(json.loads(text))
    queried = {target["expr"] for panel in recorded["dashboard"]["panels"] for target in panel["targets"]}
    assert {expression for expression, found in recorded["series"].items() if found} == queried
