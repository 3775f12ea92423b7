"""Which Prometheus selects what a stack makes, against the operator's objects as the API server returns them."""

from copy import deepcopy
from typing import Any

import pytest

from components.cluster.preflight import monitoring_faults
from components.metrics.selection import Monitoring, Selection, read_monitoring, selection, unreached
from config.stack.sections.network import Network
from tests.unit.components.api_server import api_server

NAMESPACE = {"kubernetes.io/metadata.name": "serving", "team": "a"}
OWN = {"app.kubernetes.io/instance": "h200"}
KUBE_PROMETHEUS_STACK: dict[str, Any] = {
    "metadata": {"namespace": "monitoring", "name": "prometheus"},
    "spec": {
        "podMonitorNamespaceSelector": {},
        "podMonitorSelector": {"matchLabels": {"release": "kube-prometheus-stack"}},
        "ruleNamespaceSelector": {},
        "ruleSelector": {"matchLabels": {"release": "kube-prometheus-stack"}},
    },
}
"""What the chart kube-prometheus-stack makes by default."""
RELEASE = {"release": "kube-prometheus-stack"}


def found(
    *prometheuses: dict[str, Any], labels: dict[str, str] | None = None, agents: tuple[dict[str, Any], ...] = ()
) -> Selection:
    answers: dict[str, Any] = {
        "/apis/monitoring.coreos.com/v1": {},
        "/apis/monitoring.coreos.com/v1/prometheuses": {"items": list(prometheuses)},
        "/apis/monitoring.coreos.com/v1alpha1/prometheusagents": {"items": list(agents)},
    }
    with api_server(answers) as api:
        monitoring = read_monitoring(api, wanted=True)
    return selection(monitoring, "serving", NAMESPACE, OWN | (labels or {}), rules=True)


def edited(**spec: Any) -> dict[str, Any]:
    """The chart's Prometheus with other selectors. None: unset."""
    changed = deepcopy(KUBE_PROMETHEUS_STACK)
    changed["spec"] = {key: value for key, value in (changed["spec"] | spec).items() if value is not None}
    return changed


def test_the_missing_label_of_the_usual_chart_is_named_with_what_to_set() -> None:
    missing = found(KUBE_PROMETHEUS_STACK)
    assert missing.selected == []
    assert missing.missing == [
        f"Prometheus monitoring/prometheus will not select the {kind}: it wants the label release: "
        "kube-prometheus-stack; set heavylift:metrics.labels to {release: kube-prometheus-stack}"
        for kind in ("PodMonitor", "PrometheusRule")
    ]


def test_with_the_label_it_selects_both() -> None:
    result = found(KUBE_PROMETHEUS_STACK, labels=RELEASE)
    assert (result.selected, result.missing) == (
        [
            "Prometheus monitoring/prometheus selects the PodMonitor",
            "Prometheus monitoring/prometheus selects the PrometheusRule",
        ],
        [],
    )


@pytest.mark.parametrize(
    ("spec", "selected"),
    [
        ({"podMonitorSelector": {}}, True),
        ({"podMonitorSelector": None}, False),
        ({"podMonitorNamespaceSelector": None}, False),
        ({"podMonitorNamespaceSelector": {"matchLabels": {"team": "a"}}}, True),
        ({"podMonitorNamespaceSelector": {"matchLabels": {"team": "b"}}}, False),
        ({"podMonitorSelector": {"matchExpressions": [{"key": "release", "operator": "Exists"}]}}, True),
        ({"podMonitorSelector": {"matchExpressions": [{"key": "release", "operator": "DoesNotExist"}]}}, False),
        ({"podMonitorSelector": {"matchExpressions": [{"key": "release", "operator": "In", "values": ["x"]}]}}, False),
        (
            {"podMonitorSelector": {"matchExpressions": [{"key": "release", "operator": "NotIn", "values": ["x"]}]}},
            True,
        ),
        ({"podMonitorSelector": {"matchExpressions": [{"key": "none", "operator": "NotIn", "values": ["x"]}]}}, True),
    ],
)
def test_selectors_are_those_of_the_operator(spec: dict[str, Any], selected: bool) -> None:
    result = found(edited(**spec), labels=RELEASE)
    assert any("selects the PodMonitor" in words for words in result.selected) == selected
    assert any("will not select the PodMonitor" in words for words in result.missing) != selected


def test_a_prometheus_without_a_namespace_selector_takes_its_own_namespace_only() -> None:
    result = found(edited(podMonitorNamespaceSelector=None), labels=RELEASE)
    assert "it takes those of its own namespace monitoring only" in result.missing[0]
    here = edited(podMonitorNamespaceSelector=None)
    here["metadata"]["namespace"] = "serving"
    assert "Prometheus serving/prometheus selects the PodMonitor" in found(here, labels=RELEASE).selected


def test_one_that_selects_is_enough_and_the_others_are_not_named() -> None:
    other = edited(podMonitorSelector={}, ruleSelector={})
    other["metadata"]["name"] = "open"
    result = found(KUBE_PROMETHEUS_STACK, other)
    assert result.selected == [
        f"Prometheus monitoring/open selects the {kind}" for kind in ("PodMonitor", "PrometheusRule")
    ]
    assert result.missing == []


def test_an_agent_selects_monitors_and_no_rules() -> None:
    agent = {
        "metadata": {"namespace": "m", "name": "agent"},
        "spec": {"podMonitorSelector": {}, "podMonitorNamespaceSelector": {}},
    }
    assert found(agents=(agent,)).selected == ["PrometheusAgent m/agent selects the PodMonitor"]


def test_a_cluster_without_a_prometheus_is_named() -> None:
    assert found().missing == ["the cluster has no Prometheus object, so nothing will select the PodMonitor"]


def test_what_may_not_be_read_was_not_checked() -> None:
    with api_server({"/apis/monitoring.coreos.com/v1": {}}, status=403) as api:
        monitoring = read_monitoring(api, wanted=True)
    (words,) = selection(monitoring, "serving", NAMESPACE, OWN, rules=True).missing
    assert words.startswith("which Prometheus will select the PodMonitor was not checked: status 403")


def test_a_cluster_without_the_operator_is_one_fault_with_the_ways_out() -> None:
    with api_server({}) as api:
        assert read_monitoring(api, wanted=True) == Monitoring()
    (fault,) = monitoring_faults(Monitoring())
    for words in ("monitoring.coreos.com/v1 is missing", "heavylift:metrics.kind", "annotations", "leave"):
        assert words in fault


@pytest.mark.parametrize(
    ("callers", "reached"),
    [
        (None, True),
        ([], False),
        ([{"namespace": "apps"}], False),
        ([{"namespace": "apps"}, {"namespace": "monitoring"}], True),
        ([{"cidr": "10.0.0.0/8"}], True),
    ],
)
def test_a_prometheus_that_may_not_call_the_server_is_named(callers: Any, reached: bool) -> None:
    scrapers = found(KUBE_PROMETHEUS_STACK, labels=RELEASE).scrapers
    words = unreached(scrapers, Network.model_validate({"from": callers}))
    assert (words is None) == reached
    assert reached or "add {namespace: monitoring}" in str(words)
