"""The whole program on AWS: with a mirror, with a cluster that exists, and what other stacks do not load."""

import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pulumi
import pytest

from components.aws.account.facts import AccountFacts, Reservation
from config.stack.file import read_sections, stack_file
from tests.program import PROGRAM, run_program
from tests.recording_engine import Recording


def sections(stack: str, **changes: dict[str, Any]) -> dict[str, Any]:
    found = read_sections(stack_file(stack, PROGRAM))
    return {**found, **{section: {**found[section], **values} for section, values in changes.items()}}


def pods_of(recording: Recording, kind: str) -> list[dict[str, Any]]:
    return [each.inputs["spec"]["template"]["spec"] for each in recording.of_type(kind)]


def test_the_stager_alone_has_the_account_that_may_read_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    with_mirror = sections(
        "aws-l4", aws={"mirror": {"bucket": "weights"}}, stage={"sources": ["s3://weights/llama", "hub"]}
    )
    recording = run_program(monkeypatch, "aws-l4", sections=with_mirror)
    account = recording.only(":ServiceAccount").inputs["metadata"]
    identity = recording.only(":PodIdentityAssociation").inputs
    assert (identity["serviceAccount"], identity["namespace"]) == (account["name"], account["namespace"])
    stage = next(pod for pod in pods_of(recording, ":DaemonSet") if pod.get("initContainers"))
    assert stage["serviceAccountName"] == account["name"]
    (server,) = pods_of(recording, ":Deployment")
    assert "serviceAccountName" not in server
    assert server["automountServiceAccountToken"] is False
    assert "arn:aws:s3:::weights/llama/*" in recording.only(":RolePolicy").inputs["policy"]
    (outputs,) = recording.outputs_of("Stack")
    assert outputs["mirror"] == "weights"


def test_in_a_cluster_that_exists_only_the_nodes_and_what_is_above_them_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    theirs = {**sections("aws-l4"), "aws": {"region": "us-east-2", "cluster": {"name": "theirs"}}}
    recording = run_program(monkeypatch, "aws-l4", sections=theirs)
    assert recording.of_type(":EksCluster") == recording.of_type(":EksNetwork") == []
    group = recording.only(":NodeGroup").inputs
    assert (group["clusterName"], group["subnetIds"]) == ("theirs", ["subnet-a"])
    (interface,) = recording.only(":LaunchTemplate").inputs["networkInterfaces"]
    assert interface["securityGroups"] == ["sg-theirs"]
    assert "https://theirs.example" in recording.only("pulumi:providers:kubernetes").inputs["kubeconfig"]
    (outputs,) = recording.outputs_of("Stack")
    assert [part["name"] for part in outputs["plan"]["cost_parts"]] == ["1 x g6.xlarge (on-demand)"]


def test_a_plan_that_is_rejected_makes_nothing_in_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording()
    too_long = sections("aws-l4", engine={"max_model_len": 131072})
    with pytest.raises(pulumi.RunError, match="nothing was created"):
        run_program(monkeypatch, "aws-l4", sections=too_long, into=recording)
    assert recording.registrations == []


def test_other_stacks_do_not_wait_for_the_libraries_of_aws() -> None:
    loaded = "import sys, components.served_model, components.site; print({'boto3', 'pulumi_aws'} & sys.modules.keys())"
    run = subprocess.run([sys.executable, "-c", loaded], cwd=PROGRAM, capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


def test_the_end_of_a_capacity_block_becomes_an_annotation_and_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = datetime(2026, 12, 24, 11, 30, tzinfo=UTC)
    monitored = {**sections("aws-h200"), "metrics": {"kind": "pod-monitor"}}
    recording = run_program(monkeypatch, "aws-h200", sections=monitored, account=AccountFacts(reservation=block(ends)))
    written = recording.only(":Deployment").inputs["metadata"]["annotations"]
    assert written["server.heavylift/capacity-ends"] == "2026-12-24T11:30:00+00:00"
    (group,) = recording.only(":PrometheusRule").inputs["spec"]["groups"]
    (alert,) = [rule for rule in group["rules"] if rule["alert"] == "CapacityEnds"]
    assert alert["expr"] == "vector(1798111800) - time() < 6 * 3600"  # date --date 2026-12-24T11:30Z +%s


def block(ends: datetime) -> Reservation:
    return Reservation(
        is_block=True,
        state="active",
        instance_type="p5en.48xlarge",
        zone="use2-az1",
        platform="Linux/UNIX",
        available=1,
        start=None,
        end=ends,
        placement_group=None,
    )
