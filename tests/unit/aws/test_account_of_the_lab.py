"""Reservations that do not fit, in the lab's AWS: the check of the account ends with one message."""

import datetime as dt
from typing import Any

import pulumi
import pytest

from components.aws.account import preflight
from config.stack.sections import StackConfig
from lab.aws.client import LabAWS
from planner import fit
from planner.stack_request import request_of_stack
from tests.recording_engine import Recording, record
from tests.unit.config.test_aws_stack import changed

pytestmark = pytest.mark.usefixtures("aws_environment")

TYPE, RESERVATION = "p5en.48xlarge", "cr-0123456789abcdef7"
BLOCK = {"kind": "capacity-block", "id": RESERVATION}
ZONES = {"us-east-2a": "use2-az1", "us-east-2b": "use2-az2"}
"""In the lab's account."""


def hours(number: float) -> str:
    """Returns a moment some hours from now."""
    return (dt.datetime.now(dt.UTC) + dt.timedelta(hours=number)).isoformat()


def checked(capacity: dict[str, Any] | None = None) -> Recording:
    """Checks the account for one p5en.48xlarge in the first zone."""
    config = StackConfig.parse(
        changed(("nodes.instance_type", TYPE), ("nodes.count", 1), ("nodes.capacity", capacity or BLOCK))
    )
    assert config.aws is not None
    place, request, recording = config.aws, request_of_stack(config, None), Recording()
    return record(lambda: preflight.checked_account(config, place, request, fit(request)), into=recording)


def reserve(aws: LabAWS, zone: str = "us-east-2a", **fields: Any) -> None:
    """Adds the Capacity Block of the stack."""
    aws.add_reservation(RESERVATION, TYPE, 1, zone, **{"ReservationType": "capacity-block", **fields})


def test_a_block_that_fits_is_accepted_with_what_is_left_of_it(aws: LabAWS) -> None:
    reserve(aws, EndDate=hours(24))
    assert any("of serving before the block ends" in info for info in checked().infos)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"StartDate": hours(-48), "EndDate": hours(-1)}, "it is expired: expected an active one"),
        ({"AvailableInstanceCount": 0}, "0 of its instances are free, and the stack has 1 nodes"),
        ({"zone": "us-east-2b"}, "its zone is use2-az2: expected use2-az1, as the stack has it"),
        ({"StartDate": hours(5)}, "it starts at"),
        ({"EndDate": hours(0.75)}, "its nodes are ended in"),
        ({"ReservationType": "default"}, "'capacity-block' is not the reservation's: expected reservation"),
    ],
)
def test_a_block_that_does_not_fit_is_refused_with_one_fault(aws: LabAWS, fields: dict[str, Any], words: str) -> None:
    reserve(aws, **fields)
    with pytest.raises(pulumi.RunError) as refused:
        checked()
    summary, *faults = str(refused.value).splitlines()
    assert summary == "the AWS account is not fit for this stack, nothing was created:"
    assert len(faults) == 1
    assert words in faults[0]
