"""An update that would replace nodes that run is refused, and says what it would cost."""

from collections.abc import Mapping
from typing import Any

import pulumi
import pytest

from components.aws.launch_template import user_data
from components.aws.replaced_nodes import refuse_replacement
from config.stack.sections import StackConfig
from planner import fit
from planner.stack_request import request_of_stack
from tests.recording_engine import Recording, record
from tests.unit.config.test_aws_stack import changed

GROUP = "nodes-cr-0123456789abcdef0"
ONE = [("nodes.count", 1), ("nodes.instance_type", "p5en.48xlarge")]


def state(**template: Any) -> dict[str, dict[str, Any]]:
    made = {"instanceType": "p5en.48xlarge", "networkInterfaces": [{}], "userData": user_data(), **template}
    outputs: Mapping[str, Any] = {
        f"aws:ec2/launchTemplate:LaunchTemplate::{GROUP}": made,
        f"aws:eks/nodeGroup:NodeGroup::{GROUP}": {"subnetIds": ["subnet-1"]},
        "aws:ec2/subnet:Subnet::network-private": {"id": "subnet-1", "availabilityZoneId": "use2-az1"},
    }
    return {
        f"urn:pulumi:s::p::{name}": {"type": name.split("::")[0], "outputs": each} for name, each in outputs.items()
    }


def update(recorded: Mapping[str, Mapping[str, Any]], *changes: tuple[str, Any], group: str = GROUP) -> list[str]:
    config = StackConfig.parse(changed(*ONE, *changes))
    plan = fit(request_of_stack(config, None))
    recording = Recording(state=recorded)
    record(lambda: refuse_replacement(group, config.nodes, plan, efa=False), into=recording)
    return recording.warnings


def test_an_update_that_keeps_the_nodes_says_nothing() -> None:
    assert update(state()) == []
    assert update({}) == []


@pytest.mark.parametrize(
    ("recorded", "changes", "words"),
    [
        (state(instanceType="p5.48xlarge"), [], "instance type p5.48xlarge becomes p5en.48xlarge"),
        (state(networkInterfaces=[{}] * 17), [], "17 network interfaces become 1"),
        (state(userData="other"), [], "the nodes' configuration changes"),
        (state(), [("nodes.zone", "use2-az2")], "zone use2-az1 becomes use2-az2"),
    ],
)
def test_a_replacement_is_refused_with_what_it_costs(
    recorded: dict[str, dict[str, Any]], changes: list[tuple[str, Any]], words: str
) -> None:
    with pytest.raises(pulumi.RunError) as refused:
        update(recorded, *changes)
    assert words in str(refused.value)
    assert "595.2 GB are staged again on 1 of them" in str(refused.value)
    assert "nothing was created" in str(refused.value)


def test_a_stack_may_allow_it_and_is_told() -> None:
    (warning,) = update(state(userData="other"), ("nodes.allow_replacement", True))
    assert warning.startswith(f"this update replaces the nodes of {GROUP}")


def test_the_next_reservation_replaces_nothing_and_what_moves_is_said() -> None:
    system = {"type": "aws:eks/nodeGroup:NodeGroup", "outputs": {}}
    recorded = {**state(instanceType="p5.48xlarge"), "urn:pulumi:s::p::aws:eks/nodeGroup:NodeGroup::eks-system": system}
    (warning,) = update(recorded, group="nodes-cr-0123456789abcdef1")
    assert warning.startswith(
        f"the server moves from the nodes of {GROUP} to those of nodes-cr-0123456789abcdef1: 595.2 GB are staged on 1"
    )
