"""The stage Jobs of several nodes share one download: they find each other, may talk, and know one secret."""

from typing import Any

import pulumi
import pytest

from components.arguments import Placement
from components.pods.jobs.stage_fleet import PORT
from stager.command_line import membership, parser
from tests.recording_engine import Recording
from tests.unit.components.test_weight_stage import staged

NODES = ["h200-0", "h200-1.rack.example", "h200-2"]
THREE: Placement = {"hostnames": NODES, "nodes": 3}
LABELS = {"app.kubernetes.io/instance": "h200", "app.kubernetes.io/component": "stage"}


def fleet() -> Recording:
    return staged(volume={"host_path": "/mnt/nvme"}, placement=THREE, lock="{}", fan_out=True)


def pods(recording: Recording) -> list[dict[str, Any]]:
    return [job.inputs["spec"]["template"]["spec"] for job in recording.of_type(":Job")]


def test_every_stager_is_told_of_all_in_one_order_and_which_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STAGER_FLEET_SECRET", "x" * 20)
    told = []
    for pod in pods(fleet()):
        command = pod["containers"][0]["command"]
        fleet_of_one = membership(parser().parse_args(command[command.index("stage") :]))
        assert fleet_of_one is not None
        told.append(fleet_of_one)
    assert sorted(one.me for one in told) == NODES
    assert {one.members for one in told} == {
        tuple((name, f"http://node-{n}.h200-stage-peers.serving.svc:{PORT}") for n, name in enumerate(NODES))
    }


def test_a_pod_has_the_name_by_which_the_others_look_for_it() -> None:
    recording = fleet()
    service = recording.only(":Service").inputs
    assert service["metadata"]["name"] == "h200-stage-peers"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() >= LABELS.items()
    assert sorted((pod["hostname"], pod["subdomain"]) for pod in pods(recording)) == [
        (f"node-{number}", "h200-stage-peers") for number in range(3)
    ]
    labels = recording.of_type(":Job")[0].inputs["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= service["spec"]["selector"].items(), "or no pod has a name"
    assert [pod["containers"][0]["ports"][0]["containerPort"] for pod in pods(recording)] == [PORT] * 3


def test_only_stage_pods_of_the_stack_may_connect() -> None:
    spec = fleet().only(":NetworkPolicy").inputs["spec"]
    (rule,) = spec["ingress"]
    assert spec["policyTypes"] == ["Ingress"]
    assert spec["podSelector"]["matchLabels"].items() >= LABELS.items()
    (peer,) = rule["from"]
    of_digest = peer["podSelector"]["matchLabels"]
    assert of_digest.items() > spec["podSelector"]["matchLabels"].items(), "those that stage the same weights"
    for job in fleet().of_type(":Job"):
        assert job.inputs["spec"]["template"]["metadata"]["labels"].items() >= of_digest.items()
    assert rule["ports"] == [{"protocol": "TCP", "port": PORT}]


def test_the_secret_is_long_made_once_and_in_no_argument() -> None:
    first, second = fleet(), fleet()
    values = []
    for recording in (first, second):
        secret = recording.only(":Secret")
        (value,) = secret.inputs["stringData"].values()
        assert value in secret.secrets
        assert secret.options["ignoreChanges"] == ["stringData", "data"]
        assert value not in str([job.inputs for job in recording.of_type(":Job")])
        values.append(value)
    assert len(values[0]) >= 32
    assert values[0] != values[1], "not a value that others can work out"
    reference = pods(first)[0]["containers"][0]["env"][-1]
    assert reference["name"] == "STAGER_FLEET_SECRET"
    assert reference["valueFrom"]["secretKeyRef"]["key"] in first.only(":Secret").inputs["stringData"]


def test_nothing_of_it_is_there_without_fan_out() -> None:
    recording = staged(volume={"host_path": "/mnt/nvme"}, placement=THREE, lock="{}")
    for kind in (":Service", ":Secret"):
        assert recording.of_type(kind) == []
    assert recording.only(":NetworkPolicy").inputs["spec"]["ingress"] == [], "no pod reaches the Jobs"
    assert not {"hostname", "subdomain"} & set(pods(recording)[0])
    assert "--peer" not in str(pods(recording))


@pytest.mark.parametrize(
    "wrong", [{"lock": None}, {"placement": {"hostnames": ["h200-0"], "nodes": 1}}, {"volume": {"claim": "shared"}}]
)
def test_it_is_refused_where_it_cannot_work(wrong: dict[str, Any]) -> None:
    given: dict[str, Any] = {"volume": {"host_path": "/mnt/nvme"}, "placement": THREE, "lock": "{}"} | wrong
    with pytest.raises(pulumi.RunError, match=r"fan_out: .* expected two nodes or more by name"):
        staged(**given, fan_out=True)


def test_streams_are_passed_on() -> None:
    command = pods(staged(streams=32))[0]["containers"][0]["command"]
    assert "--streams=32" in command
