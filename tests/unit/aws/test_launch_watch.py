"""The wait for a node group's instances, on the lab's AWS: why none launches is the error, and not a time-out."""

import asyncio
from collections.abc import Callable
from typing import Any

import boto3
import pulumi
import pytest

from components.rollout.launch_watch import LaunchedGroup, wait_until_launched
from components.rollout.obstacles import GiveUpAfter
from tests.unit.lab.aws.account import TYPE, Account

pytestmark = pytest.mark.usefixtures("aws_environment")

REGION = "us-east-1"
HURRIED = GiveUpAfter(poll_seconds=0.05, obstacle=0.3, missing_node=20, unreachable=0.1)
PATIENT = GiveUpAfter(poll_seconds=0.05, obstacle=20, missing_node=20)


def block(account: Account, identity: str, size: int = 1) -> LaunchedGroup:
    """Makes the group of a Capacity Block."""
    account.aws.add_reservation(identity, TYPE, size, "us-east-1a", ReservationType="capacity-block")
    template = {"id": account.block_template(identity)}
    account.create_group(size=size, capacityType="CAPACITY_BLOCK", launchTemplate=template)
    return named(account, size)


def named(account: Account, size: int) -> LaunchedGroup:
    """Returns the group `gpu`."""
    scaling = account.group()["resources"]["autoScalingGroups"][0]["name"]
    return LaunchedGroup(account.cluster, "gpu", scaling, size)


def awaited(group: LaunchedGroup, give_up_after: GiveUpAfter, say: Callable[[str, bool], None]) -> None:
    """Waits for a group."""
    asyncio.run(wait_until_launched(boto3.session.Session(), REGION, group, say, give_up_after))


def refused(group: LaunchedGroup, give_up_after: GiveUpAfter = HURRIED) -> str:
    """Returns the error of the wait."""
    with pytest.raises(pulumi.RunError) as fault:
        awaited(group, give_up_after, lambda *_: None)
    return str(fault.value)


def test_instances_that_run_are_not_waited_for(account: Account) -> None:
    said: list[str] = []
    awaited(block(account, "cr-20", 2), PATIENT, lambda words, _: said.append(words))
    assert said == []


def test_a_block_that_launches_nothing_ends_the_wait_with_ec2s_reason(account: Account) -> None:
    account.aws.faults(failing_reservations=["cr-21"])
    lines = refused(block(account, "cr-21", 2)).splitlines()
    assert lines[0] == "0 of 2 instances of node group gpu run:"
    assert "ReservationCapacityExceeded" in lines[1]
    assert "run `pulumi up` again" in lines[2]
    assert len(lines) == 3


def test_a_cause_that_is_mended_while_it_waits_is_no_error(account: Account) -> None:
    account.aws.faults(failing_reservations=["cr-22"])
    said: list[str] = []

    def mend(words: str, _fleeting: bool) -> None:
        said.append(words)
        account.aws.faults()

    awaited(block(account, "cr-22"), PATIENT, mend)
    assert len(said) == 1
    assert said[0].startswith("0 of 1 instances of node group gpu run; ReservationCapacityExceeded")


def test_the_issues_of_a_group_are_named_beside_the_failed_launch(account: Account) -> None:
    """A group on demand that was active, and whose instance ended when EC2 had no other."""
    account.create_group(launchTemplate={"id": account.template(InstanceType=TYPE)})
    group = named(account, 1)
    account.aws.faults(insufficient_capacity=[TYPE])
    account("eks", "update_nodegroup_config", **_sized(account, 0))
    account("eks", "update_nodegroup_config", **_sized(account, 1))
    assert f"We currently do not have sufficient {TYPE} capacity" in refused(group)


def _sized(account: Account, desired: int) -> dict[str, Any]:
    scaling = {"minSize": 0, "maxSize": 1, "desiredSize": desired}
    return {"clusterName": account.cluster, "nodegroupName": "gpu", "scalingConfig": scaling}


def test_a_group_that_was_scaled_down_is_told_from_one_that_fails(account: Account) -> None:
    group = block(account, "cr-23")
    account("eks", "update_nodegroup_config", **_sized(account, 0))
    message = refused(group, PATIENT)
    assert "its desired size is 0" in message
    assert f"--cluster-name {account.cluster} --nodegroup-name gpu --scaling-config desiredSize=1" in message


def test_an_auto_scaling_group_that_is_gone_is_named(account: Account) -> None:
    assert "is gone" in refused(LaunchedGroup(account.cluster, "gpu", "eks-gone", 1), PATIENT)


def test_an_api_that_does_not_answer_ends_the_wait(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert "is not known" in refused(LaunchedGroup("eks", "gpu", "eks-gpu", 1))


def test_what_may_not_be_read_is_a_warning_and_not_waited_for(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group of a cluster that does not exist stands for a caller without the right: any refusal is one."""
    warnings: list[str] = []
    monkeypatch.setattr(pulumi, "warn", warnings.append)
    group = LaunchedGroup("none", "gpu", block(account, "cr-24").scaling_group, 2)
    awaited(group, PATIENT, lambda *_: None)
    (warning,) = warnings
    assert warning.startswith("whether the instances of gpu run was not awaited:")
