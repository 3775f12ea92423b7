"""NetworkPolicies: one for each role, who reaches what, and what is said if nothing enforces them."""

from dataclasses import replace
from typing import Any

import pytest

from components.network.api_server import api_server_addresses
from components.network.enforcement import unenforced
from components.network.policies import closed_policy, server_policy, stage_policy
from config.errors import StackError
from config.stack.file import read_sections, stack_file
from config.stack.sections import Network, StackConfig
from tests.program import PROGRAM, fit_cluster, run_program
from tests.unit.components.api_server import Answer, api_server

H200 = read_sections(stack_file("h200", PROGRAM))
LABELS = {"app": "server"}
OWN = {"pod_selector": {"match_labels": LABELS}}
HTTP = [{"protocol": "TCP", "port": 8000}]


def policy(network: dict[str, Any], *api_server: str, is_group: bool = True) -> dict[str, Any]:
    return server_policy(LABELS, 8000, Network.model_validate(network), api_server, is_group=is_group)


def test_ranks_are_reached_by_their_own_ranks_and_the_api_by_everybody() -> None:
    spec = policy({})
    assert spec["ingress"] == [{"from": [OWN]}, {"ports": HTTP}]
    assert spec["policy_types"] == ["Ingress", "Egress"]


def test_a_server_of_one_pod_has_no_ranks_to_reach() -> None:
    spec = policy({}, is_group=False)
    assert spec["ingress"] == [{"ports": HTTP}]
    assert OWN not in [peer for rule in spec["egress"] for peer in rule["to"]]


def test_a_server_reaches_its_ranks_and_dns_only() -> None:
    ranks, *dns = policy({})["egress"]
    assert ranks == {"to": [OWN]}
    assert {port["port"] for rule in dns for port in rule["ports"]} == {53, 5353}
    assert all(rule["ports"] for rule in dns), "a rule without ports allows every port"


def test_media_lets_a_server_reach_everything() -> None:
    assert policy({"media": True})["egress"] == [{}]


def test_callers_are_named_with_the_api_server_that_asks_for_the_first_token() -> None:
    callers = [{"namespace": "gateway"}, {"namespace": "apps", "pods": {"app": "chat"}}, {"pods": {"app": "own"}}]
    spec = policy({"from": [*callers, {"cidr": "10.1.0.0/16"}]}, "10.0.0.1", "fd00::1")
    in_namespace = {name: {"match_labels": {"kubernetes.io/metadata.name": name}} for name in ("gateway", "apps")}
    assert spec["ingress"][1] == {
        "ports": HTTP,
        "from": [
            {"namespace_selector": in_namespace["gateway"]},
            {"namespace_selector": in_namespace["apps"], "pod_selector": {"match_labels": {"app": "chat"}}},
            {"pod_selector": {"match_labels": {"app": "own"}}},
            {"ip_block": {"cidr": "10.1.0.0/16"}},
            {"ip_block": {"cidr": "10.0.0.1/32"}},
            {"ip_block": {"cidr": "fd00::1/128"}},
        ],
    }


def test_no_callers_are_nobody_and_not_everybody() -> None:
    assert policy({"from": []})["ingress"] == [{"from": [OWN]}]
    assert policy({"from": []}, is_group=False)["ingress"] == []


def test_jobs_are_reached_by_nobody_and_pruning_reaches_nothing() -> None:
    assert stage_policy(LABELS, LABELS, None)["ingress"] == []
    assert stage_policy(LABELS, LABELS, None)["policy_types"] == ["Ingress"], "the hub and mirrors may be anywhere"
    closed = closed_policy(LABELS)
    assert (closed["ingress"], closed["egress"], closed["policy_types"]) == ([], [], ["Ingress", "Egress"])


@pytest.mark.parametrize(
    ("caller", "fault"),
    [
        ({}, "expected either cidr, or namespace and pods"),
        ({"cidr": "10.0.0.0/8", "namespace": "apps"}, "expected either cidr, or namespace and pods"),
        ({"cidr": "10.0.0.1/8"}, "a range of addresses whose host part is 0"),
        ({"cidr": "10.0.0.1"}, "a range of addresses whose host part is 0"),
        ({"namespace": "Apps"}, "lower-case"),
    ],
)
def test_a_caller_that_means_nothing_is_refused(caller: dict[str, Any], fault: str) -> None:
    with pytest.raises(StackError, match=fault):
        StackConfig.parse({**H200, "network": {"from": [caller]}})


def daemon_set(name: str, *arguments: str) -> dict[str, Any]:
    containers = [{"name": "main"}, {"name": "agent", "args": list(arguments)}]
    return {"metadata": {"name": name}, "spec": {"template": {"spec": {"containers": containers}}}}


@pytest.mark.parametrize(
    ("daemon_sets", "version", "said"),
    [
        ([daemon_set("cilium"), daemon_set("nvidia-device-plugin")], "v1.34.4", None),
        ([daemon_set("aws-node", "--enable-network-policy=true")], "v1.34.4", None),
        ([], "v1.34.4+k3s1", None),
        ([daemon_set("aws-node", "--enable-network-policy=false")], "v1.34.4", "switched off"),
        ([daemon_set("kube-flannel-ds")], "v1.34.4", "flannel, enforces no NetworkPolicies"),
        ([daemon_set("kube-proxy")], "v1.34.4", "is not known: it has no DaemonSet of a network plugin"),
    ],
)
def test_what_enforces_policies_is_recognised(daemon_sets: list[Any], version: str, said: str | None) -> None:
    answers: dict[str, Answer] = {
        "/apis/apps/v1/daemonsets": {"items": daemon_sets},
        "/version": {"gitVersion": version},
    }
    with api_server(answers) as api:
        words = unenforced(api)
    assert words is None if said is None else said in str(words)


def test_credentials_that_may_not_see_the_plugin_are_said() -> None:
    with api_server({}, status=403) as api:
        assert "is not known: status 403" in str(unenforced(api))


def test_the_addresses_of_the_api_server_are_those_of_its_service() -> None:
    slices = {"items": [{"endpoints": [{"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.1"]}]}, {"endpoints": None}]}
    with api_server({"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": slices}) as api:
        assert api_server_addresses(api) == ["10.0.0.1", "10.0.0.2"]


def test_a_stack_has_a_policy_for_each_role_and_pods_come_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = run_program(monkeypatch, "h200", sections={**H200, "weights": {"kind": "local", "keep_newest": 1}})
    policies = {each.name: each for each in recording.of_type(":NetworkPolicy")}
    assert set(policies) == {"server-network", "stage-network", "prune-network"}
    for kind, role in ((":Deployment", "server"), (":Job", "stage"), (":Job", "prune")):
        for workload in recording.of_type(kind):
            labels = workload.inputs["spec"]["template"]["metadata"]["labels"]
            selected = policies[f"{role}-network"].inputs["spec"]["podSelector"]["matchLabels"]
            if labels["app.kubernetes.io/component"] == role:
                assert labels.items() >= selected.items()
                assert policies[f"{role}-network"].urn in workload.depends_on


def test_a_cluster_that_enforces_nothing_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = replace(fit_cluster(StackConfig.parse(H200)), unenforced="nothing enforces them")
    assert "nothing enforces them" in run_program(monkeypatch, "h200", cluster=cluster).warnings
