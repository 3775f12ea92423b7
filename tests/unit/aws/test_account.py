"""The check of the AWS account: what is read, against moto and AWS' own service models, and every fault."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pulumi
import pytest
from botocore.stub import Stubber
from moto import mock_aws
from moto.iam.responses import IamResponse

from components.aws.account import preflight, rights
from components.aws.account.facts import (
    AccountFacts,
    AccountUnreachable,
    FoundCluster,
    Quota,
    Reservation,
    read_account,
)
from components.aws.account.faults import (
    account_faults,
    account_warnings,
    placeholder_faults,
    seconds_to_serve,
    time_to_serve,
)
from config.stack.sections import Aws, StackConfig
from lab.aws.server.services.rights import LabIAM
from planner import fit
from planner.stack_request import request_of_stack
from tests import recorded_ec2
from tests.recording_engine import Recording, record
from tests.unit.config.test_aws_stack import changed

DOUBLE = Path(__file__).parents[3] / "lab" / "aws" / "double"
NOW = datetime(2026, 12, 2, 12, 0, tzinfo=UTC)
BLOCK = Reservation(
    is_block=True,
    state="active",
    instance_type="p5.48xlarge",
    zone="use2-az1",
    platform="Linux/UNIX",
    available=2,
    start=NOW - timedelta(hours=1),
    end=NOW + timedelta(hours=5),
    placement_group=None,
)
ON_DEMAND = [("nodes.capacity", {"kind": "on-demand"})]
FIRST_ANSWER = 3600.0


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")


def stack(*changes: tuple[str, Any]) -> tuple[StackConfig, Aws]:
    config = StackConfig.parse(changed(*changes))
    assert config.aws is not None
    return config, config.aws


def faults(facts: AccountFacts, *changes: tuple[str, Any]) -> list[str]:
    return list(account_faults(*stack(*changes), facts, FIRST_ANSWER, NOW))


def of_block(**found: Any) -> list[str]:
    return faults(AccountFacts(reservation=replace(BLOCK, **found), reservation_read=True))


def test_a_block_that_fits_has_no_fault() -> None:
    assert of_block() == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"state": "expired"}, "it is expired: expected an active one"),
        ({"state": "scheduled", "start": NOW + timedelta(days=1)}, "it starts at 2026-12-03 12:00 UTC"),
        ({"available": 1}, "1 of its instances are free, and the stack has 2 nodes"),
        ({"zone": "use2-az2"}, "its zone is use2-az2: expected use2-az1"),
        ({"instance_type": "p5e.48xlarge"}, "its instance type is p5e.48xlarge: expected p5.48xlarge"),
        ({"platform": "Windows"}, "its platform is Windows: expected Linux/UNIX"),
        ({"is_block": False}, "heavylift:nodes.capacity.kind: 'capacity-block' is not the reservation's"),
        (
            {"end": NOW + timedelta(hours=1)},
            "ended in 20 min, and the first answer takes 60 min",
        ),
    ],
)
def test_a_block_that_does_not_fit_is_named_for_what_it_is(found: dict[str, Any], words: str) -> None:
    (fault,) = of_block(**found)
    assert words in fault


def test_all_faults_come_at_once() -> None:
    assert len(of_block(state="expired", zone="use2-az2", is_block=False)) == 3


def test_a_reservation_that_does_not_exist_is_told_from_one_that_was_not_read() -> None:
    (fault,) = faults(AccountFacts(reservation_read=True))
    assert "does not exist in this account and region" in fault
    assert faults(AccountFacts()) == []


@pytest.mark.parametrize(
    ("facts", "changes", "words"),
    [
        (AccountFacts(zones=["use2-az3"]), ON_DEMAND, "does not offer p5.48xlarge: expected one of use2-az3"),
        (AccountFacts(efa_interfaces=16), ON_DEMAND, "has 16 EFA interfaces, and the catalogue 32"),
        (AccountFacts(vcpus=Quota(192)), ON_DEMAND, "is 192, and the nodes take 384"),
        (AccountFacts(vpcs=Quota(5, 5)), ON_DEMAND, "the quota of VPCs is 5, and all are used"),
        (AccountFacts(addresses=Quota(5, 6)), ON_DEMAND, "the quota of Elastic IP addresses is 5"),
        (AccountFacts(image_release=""), ON_DEMAND, "EKS has no image with NVIDIA's driver"),
        (AccountFacts(image_release="1.35.1-20260601"), ON_DEMAND, "expected one of 20260709 or later"),
        (
            AccountFacts(cluster_read=True),
            [*ON_DEMAND, ("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}})],
            "'theirs' does not exist in us-east-2",
        ),
        (
            AccountFacts(cluster_read=True, cluster=FoundCluster("1.35", {"use2-az2": 4000})),
            [*ON_DEMAND, ("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}})],
            "the cluster has no subnet in 'use2-az1': expected one of use2-az2",
        ),
        (
            AccountFacts(cluster_read=True, cluster=FoundCluster("1.35", {"use2-az1": 199})),
            [*ON_DEMAND, ("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}})],
            "has 199 free addresses, and the nodes take 200",
        ),
        (
            AccountFacts(bucket_region="eu-west-1"),
            [*ON_DEMAND, ("aws.mirror", {"bucket": "weights"}), ("stage.sources", ["s3://weights/kimi", "hub"])],
            "'weights' is in eu-west-1: expected a bucket in us-east-2",
        ),
    ],
)
def test_what_the_account_lacks_is_named(facts: AccountFacts, changes: list[tuple[str, Any]], words: str) -> None:
    (fault,) = faults(facts, *changes)
    assert words in fault


def test_what_is_left_of_a_block_is_said() -> None:
    """5 h of the block, less 40 min before its end, less an hour to the first answer."""
    words = time_to_serve(AccountFacts(reservation=BLOCK), FIRST_ANSWER, NOW)
    assert words is not None
    assert words.startswith("3.3 h of serving before the block ends (2026-12-02 17:00 UTC")


def test_a_cluster_that_is_not_there_yet_is_counted_before_the_first_answer() -> None:
    _, new = stack()
    _, theirs = stack(("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}}))
    assert seconds_to_serve(new, AccountFacts(), FIRST_ANSWER) == FIRST_ANSWER + 25 * 60
    assert seconds_to_serve(new, AccountFacts(network_exists=True), FIRST_ANSWER) == FIRST_ANSWER
    assert seconds_to_serve(theirs, AccountFacts(), FIRST_ANSWER) == FIRST_ANSWER


@pytest.mark.parametrize(
    ("support", "words"),
    [("EXTENDED_SUPPORT", "EKS has it in extended support only"), ("UNSUPPORTED", "EKS no longer supports it")],
)
def test_a_new_cluster_of_a_version_past_its_standard_support_is_refused(support: str, words: str) -> None:
    (fault,) = faults(AccountFacts(support=support), *ON_DEMAND)
    assert f"heavylift:aws.cluster.create.version: '1.35': {words}" in fault
    assert faults(AccountFacts(support="STANDARD_SUPPORT"), *ON_DEMAND) == []


def test_a_cluster_in_extended_support_is_a_warning_with_its_price() -> None:
    _, place = stack(("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}}))
    found = FoundCluster("1.32", {"use2-az1": 4000})
    (warning,) = account_warnings(place, AccountFacts(cluster=found, cluster_read=True, support="EXTENDED_SUPPORT"))
    assert "'theirs' has Kubernetes 1.32: EKS charges 0.60 instead of 0.10 $ an hour" in warning
    assert list(account_warnings(place, AccountFacts(cluster=found, support="STANDARD_SUPPORT"))) == []


def test_placeholders_of_the_shipped_files_are_refused() -> None:
    placeholder = ("nodes.capacity", {"kind": "capacity-block", "id": "cr-00000000000000000"})
    found = list(placeholder_faults(*stack(placeholder, ("aws.public_access_cidrs", ["203.0.113.0/24"]))))
    assert len(found) == 2
    assert all("is a placeholder" in fault and "pulumi config set" in fault for fault in found)
    assert list(placeholder_faults(*stack())) == []


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    simulate = LabIAM.simulate_principal_policy
    monkeypatch.setattr(IamResponse, "simulate_principal_policy", simulate, raising=False)
    with mock_aws():
        yield boto3.session.Session()


def test_types_and_zones_are_read_as_ec2_answers(account: Any) -> None:
    config, place = stack(*ON_DEMAND)
    facts = read_account(account, config, place, "test")
    assert facts.zones == [zone for zone in recorded_ec2.zones()["p5.48xlarge"] if zone.startswith("use2-")]
    assert facts.efa_interfaces == 32
    assert facts.identity.startswith("arn:aws:")


def test_a_bucket_is_found_with_its_region_or_not_at_all(account: Any) -> None:
    s3 = account.client("s3", region_name="eu-west-1")
    s3.create_bucket(Bucket="weights", CreateBucketConfiguration={"LocationConstraint": "eu-west-1"})
    sources = ("stage.sources", ["s3://weights/kimi", "s3://none/kimi", "hub"])
    for bucket, region in (("weights", "eu-west-1"), ("none", "")):
        config, place = stack(*ON_DEMAND, ("aws.mirror", {"bucket": bucket}), sources)
        assert read_account(account, config, place, "test").bucket_region == region


def test_a_cluster_that_exists_is_read_with_the_free_addresses_of_each_zone() -> None:
    subnets = [("use2-az1", 250), ("use2-az2", 8), ("use2-az2", 4000)]
    answers = {
        ("eks", "describe_cluster"): {
            "cluster": {"version": "1.34", "resourcesVpcConfig": {"subnetIds": ["subnet-1"]}}
        },
        ("ec2", "describe_subnets"): {
            "Subnets": [{"AvailabilityZoneId": zone, "AvailableIpAddressCount": free} for zone, free in subnets]
        },
    }
    session = _Answering(WHO | answers)
    config, place = stack(*ON_DEMAND, ("aws", {"region": "us-east-2", "cluster": {"name": "theirs"}}))
    facts = read_account(session, config, place, "test")
    assert facts.cluster == FoundCluster("1.34", {"use2-az1": 250, "use2-az2": 4000})
    assert session.sent["describe_cluster"] == {"name": "theirs"}
    assert session.sent["describe_subnets"] == {"SubnetIds": ["subnet-1"]}


class _Answering:
    """A session whose clients answer what a test says, checked by AWS' own service models; the rest is denied."""

    def __init__(self, answers: dict[tuple[str, str], Any]) -> None:
        self._answers = answers
        self.sent: dict[str, Any] = {}
        """Parameters of the last call of each operation."""

    def client(self, service: str, region_name: str) -> Any:
        return _EachCall(region_name, self._answers, service, self.sent)


class _EachCall:
    """A client that is made anew for each call."""

    def __init__(self, region: str, answers: dict[tuple[str, str], Any], service: str, sent: dict[str, Any]) -> None:
        self._region, self._answers, self._service, self._sent = region, answers, service, sent

    def __getattr__(self, call: str) -> Any:
        return getattr(self._stubbed(call), call)

    def get_paginator(self, call: str) -> Any:
        return self._stubbed(call).get_paginator(call)

    def _stubbed(self, call: str) -> Any:
        client = boto3.client(self._service, region_name=self._region)
        client.meta.events.register(
            "before-parameter-build.*", lambda params, **_: self._sent.__setitem__(call, dict(params))
        )
        stubber = Stubber(client)
        if (self._service, call) in self._answers:
            stubber.add_response(call, self._answers[self._service, call])
        else:
            stubber.add_client_error(call, "AccessDenied", "no")
        stubber.activate()
        return client


def user_with(monkeypatch: pytest.MonkeyPatch, account: Any, *statements: dict[str, Any]) -> str:
    """Makes a user with one inline policy, whose key the next clients have. Returns its ARN."""
    iam = account.client("iam")
    arn = iam.create_user(Path="/ci/", UserName="deploy")["User"]["Arn"]
    document = json.dumps({"Version": "2012-10-17", "Statement": statements})
    iam.put_user_policy(UserName="deploy", PolicyName="rights", PolicyDocument=document)
    key = iam.create_access_key(UserName="deploy")["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])
    return str(arn)


def allow(*actions: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": "*"}


def test_what_the_callers_policies_do_not_allow_is_a_warning_with_every_action(
    account: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = allow("ec2:*", "eks:*", "iam:*", "kms:*")
    arn = user_with(monkeypatch, account, every, allow("eks:CreateAddon") | {"Effect": "Deny"})
    config, place = stack(*ON_DEMAND, ("aws.mirror", {"create": True}))
    facts = read_account(boto3.session.Session(), config, place, "test")
    assert facts.refused_actions == [
        "eks:CreateAddon",
        "s3:CreateBucket",
        "s3:PutBucketPublicAccessBlock",
        "s3:PutBucketTagging",
        "s3:PutBucketVersioning",
        "s3:PutEncryptionConfiguration",
    ]
    (warning,) = account_warnings(place, facts)
    assert f"the policies of {arn} do not allow eks:CreateAddon, s3:CreateBucket, " in warning


def test_a_caller_who_may_only_read_is_told_so_in_one_sentence(account: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    arn = user_with(monkeypatch, account, allow("ec2:Describe*", "iam:Simulate*"))
    config, place = stack(*ON_DEMAND)
    (warning,) = account_warnings(place, read_account(boto3.session.Session(), config, place, "test"))
    assert warning == f"{arn} may make nothing of this stack: run `pulumi up` as another user or role"


@pytest.mark.parametrize(
    ("caller", "asked"),
    [
        ("arn:aws:iam::123456789012:user/ci/deploy", "arn:aws:iam::123456789012:user/ci/deploy"),
        ("arn:aws:sts::123456789012:assumed-role/deploy/run-1", "arn:aws:iam::123456789012:role/ci/deploy"),
    ],
)
def test_the_policies_of_an_assumed_role_are_those_of_the_role(caller: str, asked: str) -> None:
    results = [{"EvalActionName": "eks:CreateNodegroup", "EvalDecision": "implicitDeny"}]
    role = {
        "Path": "/ci/",
        "RoleName": "deploy",
        "RoleId": "AROA0123456789ABCDEF",
        "Arn": "arn:aws:iam::123456789012:role/ci/deploy",
        "CreateDate": NOW,
    }
    session = _Answering(
        {
            ("sts", "get_caller_identity"): {"Arn": caller},
            ("iam", "get_role"): {"Role": role},
            ("iam", "simulate_principal_policy"): {"EvaluationResults": results},
        }
    )
    config, place = stack(*ON_DEMAND)
    assert read_account(session, config, place, "test").refused_actions == ["eks:CreateNodegroup"]
    assert session.sent["simulate_principal_policy"]["PolicySourceArn"] == asked


def test_the_root_user_is_not_asked_for(account: Any) -> None:
    config, place = stack(*ON_DEMAND)
    root = {("sts", "get_caller_identity"): {"Arn": "arn:aws:iam::123456789012:root"}}
    facts = read_account(_Answering(root), config, place, "test")
    assert facts.refused_actions == []
    assert not any("rights" in each for each in facts.unread)


def test_every_call_with_which_the_provider_double_makes_something_is_asked_about() -> None:
    """The double makes what pulumi-aws makes, and botocore checks its calls."""
    sources = "".join(path.read_text() for path in DOUBLE.glob("*.py"))
    calls = set(re.findall(r'api\("(\w+)"\)\.((?:allocate|associate|attach|authorize|create|enable|put)_\w+)', sources))
    only_updates = {("ec2", "create_launch_template_version"), ("s3", "put_bucket_tagging")}
    made = {f"{service}:{operation(service, call)}" for service, call in calls - only_updates}
    config, place = stack(*ON_DEMAND, ("aws.mirror", {"create": True}))
    assert len(made) >= 25
    assert made <= set(rights.needed_actions(config, place))


def operation(service: str, call: str) -> str:
    """Returns the operation of a method of boto3's client."""
    return str(boto3.client(service, region_name="us-east-2").meta.method_to_api_mapping[call])


WHO = {("sts", "get_caller_identity"): {"Arn": "arn:aws:iam::123456789012:role/ci"}}


def test_a_reservation_counts_this_stacks_own_instances_as_free() -> None:
    found = {
        "CapacityReservationId": "cr-0123456789abcdef0",
        "ReservationType": "capacity-block",
        "State": "active",
        "InstanceType": "p5.48xlarge",
        "AvailabilityZoneId": "use2-az1",
        "InstancePlatform": "Linux/UNIX",
        "AvailableInstanceCount": 0,
        "EndDate": NOW,
        "PlacementGroupArn": "arn:aws:ec2:us-east-2:123456789012:placement-group/near",
    }
    own = {"CapacityReservationId": "cr-0123456789abcdef0"}
    answers = {
        ("ec2", "describe_capacity_reservations"): {"CapacityReservations": [found]},
        ("ec2", "describe_instances"): {"Reservations": [{"Instances": [own, own, {}]}]},
    }
    config, place = stack()
    facts = read_account(_Answering(WHO | answers), config, place, "test")
    assert facts.reservation == replace(BLOCK, available=2, start=None, end=NOW, placement_group="near")


def test_what_may_not_be_read_is_said_and_is_no_fault() -> None:
    config, place = stack(*ON_DEMAND)
    facts = read_account(_Answering(WHO), config, place, "test")
    assert "quota of vCPUs: the caller may not read it" in facts.unread
    assert faults(facts, *ON_DEMAND) == []


def test_quota_and_image_are_read() -> None:
    answers = {
        ("service-quotas", "get_service_quota"): {"Quota": {"Value": 192.0}},
        ("ssm", "get_parameter"): {"Parameter": {"Value": "1.35.2-20260714"}},
    }
    config, place = stack(*ON_DEMAND)
    facts = read_account(_Answering(WHO | answers), config, place, "test")
    assert (facts.vcpus, facts.image_release) == (Quota(192.0), "1.35.2-20260714")


def test_without_credentials_the_plan_is_printed_and_one_sentence_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    config, place = stack(("nodes.count", 1), ("nodes.instance_type", "p5en.48xlarge"), *ON_DEMAND)
    request = request_of_stack(config, None)
    recording = Recording()
    with pytest.raises(pulumi.RunError) as refused:
        record(lambda: preflight.checked_account(config, place, request, fit(request)), into=recording)
    assert "AWS was not checked (Unable to locate credentials)" in str(refused.value)
    assert recording.infos[0].startswith("fits: moonshotai/Kimi-K2.5 on 8 H200")


def test_without_credentials_reading_stops_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with pytest.raises(AccountUnreachable):
        read_account(boto3.session.Session(), *stack(*ON_DEMAND), "test")
