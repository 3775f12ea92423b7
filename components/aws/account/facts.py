"""Reads from an AWS account what a stack needs of it. Every call only reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from components.aws.account.rights import needed_actions
from components.aws.stack_tag import STACK_TAG
from config.catalogue import CapacityKind, find_instance
from config.stack.sections import Aws, StackConfig

T = TypeVar("T")

_VCPU_QUOTAS = {"p": "L-417A185B", "g": "L-DB2E81BA"}
"""Service quotas of running on-demand instances, in vCPUs, by the first letter of the instance type."""

_VPC_QUOTA, _ADDRESS_QUOTA = ("vpc", "L-F678F1CE"), ("ec2", "L-0263D0A3")

_NO_CREDENTIALS = ("ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "SignatureDoesNotMatch")
_DENIED = ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403")
_ABSENT = (
    "ParameterNotFound",
    "ResourceNotFoundException",
    "InvalidCapacityReservationId.NotFound",
    "404",
    "NoSuchBucket",
)


class AccountUnreachable(Exception):
    """There are no valid credentials, or AWS does not answer."""


@dataclass(frozen=True)
class Reservation:
    """A capacity reservation or Capacity Block."""

    is_block: bool
    state: str
    instance_type: str
    zone: str
    """ID of its availability zone."""
    platform: str
    available: int
    """Instances that are not used, or by this stack."""
    start: datetime | None
    end: datetime | None
    """None: until it is cancelled."""
    placement_group: str | None
    """Name of its placement group."""


@dataclass(frozen=True)
class Quota:
    """A limit of the account, and how much of it is used."""

    limit: float
    used: int = 0


@dataclass(frozen=True)
class FoundCluster:
    """An EKS cluster that exists."""

    version: str
    free_addresses: Mapping[str, int]
    """Free addresses of its largest subnet in each zone, by the zone's ID."""


@dataclass(frozen=True)
class AccountFacts:
    """What is known of the account. A fact that could not be read is None, and `unread` says why."""

    identity: str = ""
    """ARN of the caller."""
    zones: Sequence[str] | None = None
    """IDs of the zones that offer the instance type."""
    efa_interfaces: int | None = None
    """EFA interfaces of the instance type."""
    reservation: Reservation | None = None
    reservation_read: bool = False
    """Whether the reservation was looked for; if it was, and is None, it does not exist."""
    vcpus: Quota | None = None
    vpcs: Quota | None = None
    addresses: Quota | None = None
    image_release: str | None = None
    """Release of the image with NVIDIA's driver, such as `1.35.2-20260714`. Empty: there is none for the version."""
    support: str | None = None
    """EKS' support of the cluster's version of Kubernetes: one of `STANDARD_SUPPORT`, `EXTENDED_SUPPORT` and
    `UNSUPPORTED`."""
    network_exists: bool = False
    """Whether the stack made its network in an earlier update, and with it its cluster."""
    cluster: FoundCluster | None = None
    cluster_read: bool = False
    bucket_region: str | None = None
    """Region of the mirror's bucket. Empty: it does not exist."""
    refused_actions: Sequence[str] | None = None
    """Of the actions that `pulumi up` takes for the stack, those that the caller's policies do not allow on every
    resource."""
    actions: int = 0
    """How many actions were asked about."""
    unread: Sequence[str] = ()


class _Account:
    """Calls to AWS; collects what could not be read."""

    def __init__(self, session: Any, region: str) -> None:
        self._session, self._region = session, region
        self._clients: dict[str, Any] = {}
        self.unread: list[str] = []

    def client(self, service: str) -> Any:
        """The client of a service, made once: boto3 takes a tenth of a second for it."""
        if service not in self._clients:
            self._clients[service] = self._session.client(service, region_name=self._region)
        return self._clients[service]

    def read(self, what: str, call: Callable[[], T], absent: T | None = None) -> tuple[T | None, bool]:
        """The result of a call, and whether AWS answered; `absent` if it answered that there is no such thing."""
        try:
            return call(), True
        except NoCredentialsError as fault:
            raise AccountUnreachable(str(fault)) from None
        except ClientError as fault:
            code = fault.response["Error"]["Code"]
            if code in _NO_CREDENTIALS:
                raise AccountUnreachable(f"{code}: {fault.response['Error'].get('Message', '')}") from None
            if code in _ABSENT:
                return absent, True
            why = "the caller may not read it" if code in _DENIED else f"AWS answered {code}"
            self.unread.append(f"{what}: {why}")
        except BotoCoreError as fault:
            self.unread.append(f"{what}: {fault}")
        return None, False


def read_account(session: Any, stack: StackConfig, place: Aws, name: str) -> AccountFacts:
    """Reads everything that the stack called `name` needs. `session`: of boto3.

    Raises AccountUnreachable without credentials.
    """
    account = _Account(session, place.region)
    identity, answered = account.read("caller", lambda: account.client("sts").get_caller_identity()["Arn"])
    if not answered:
        raise AccountUnreachable("; ".join(account.unread))
    nodes, capacity = stack.nodes, stack.nodes.capacity
    instance = find_instance(nodes.instance_type or "")
    zones, _ = account.read("zones of the instance type", lambda: _zones(account, instance.type))
    efa, _ = account.read("instance type", lambda: _efa_interfaces(account, instance.type))
    reservation, reservation_read = None, False
    if capacity is not None and capacity.id is not None:
        wanted = capacity.id
        reservation, reservation_read = account.read("reservation", lambda: _reservation(account, wanted, name))
    vcpus = None
    if capacity is None or capacity.kind is CapacityKind.ON_DEMAND:
        vcpus, _ = account.read("quota of vCPUs", lambda: _quota(account, "ec2", _VCPU_QUOTAS[instance.type[0]]))
    actions = needed_actions(stack, place)
    refused, _ = account.read("rights of the caller", lambda: _refused(account, identity or "", actions))
    facts = AccountFacts(
        identity or "",
        zones,
        efa,
        reservation,
        reservation_read,
        vcpus,
        refused_actions=refused,
        actions=len(actions),
    )
    return _with_cluster(account, facts, place, name) if place.makes_cluster else _with_found(account, facts, place)


def _with_cluster(account: _Account, facts: AccountFacts, place: Aws, name: str) -> AccountFacts:
    """Adds what a new cluster needs: an image, and room for a network if the stack does not have it yet."""
    version = place.cluster.create.version if place.cluster.create else ""
    image, _ = account.read("image of the nodes", lambda: _image_release(account, version), absent="")
    support, _ = account.read("support of the version", lambda: _support(account, version))
    vpcs, addresses = None, None
    own, answered = account.read("networks", lambda: _vpcs(account, {f"tag:{STACK_TAG}": name}))
    if answered and not own:
        vpcs, _ = account.read("quota of VPCs", lambda: _quota(account, *_VPC_QUOTA, used=_vpcs(account, {})))
        addresses, _ = account.read(
            "quota of addresses", lambda: _quota(account, *_ADDRESS_QUOTA, used=_addresses(account))
        )
    found = {"image_release": image, "support": support, "vpcs": vpcs, "addresses": addresses}
    return _with_bucket(account, facts, place, network_exists=bool(own), **found)


def _with_found(account: _Account, facts: AccountFacts, place: Aws) -> AccountFacts:
    """Adds the cluster that exists, and the image of its version."""
    name = place.cluster.name or ""
    cluster, answered = account.read("cluster", lambda: _cluster(account, name))
    image, support = None, None
    if cluster is not None:
        version = cluster.version
        image, _ = account.read("image of the nodes", lambda: _image_release(account, version), absent="")
        support, _ = account.read("support of the version", lambda: _support(account, version))
    found = {"cluster": cluster, "image_release": image, "support": support}
    return _with_bucket(account, facts, place, cluster_read=answered, **found)


def _with_bucket(account: _Account, facts: AccountFacts, place: Aws, **more: Any) -> AccountFacts:
    region = None
    if place.mirror is not None and place.mirror.bucket is not None:
        bucket = place.mirror.bucket
        region, _ = account.read("bucket of the mirror", lambda: _bucket_region(account, bucket), absent="")
    return AccountFacts(**{**vars(facts), **more, "bucket_region": region, "unread": tuple(account.unread)})


def _refused(account: _Account, caller: str, actions: Sequence[str]) -> Sequence[str]:
    """The actions that the policies of the user or role do not allow on every resource. The root user may do all.

    IAM answers InvalidInput for a caller that is neither.
    """
    *_, owner = caller.split(":", 5)
    kind, _, name = owner.partition("/")
    if kind == "root":
        return []
    if kind == "assumed-role":  # its ARN lacks the path of the role's
        caller = account.client("iam").get_role(RoleName=name.split("/")[0])["Role"]["Arn"]
    asked = account.client("iam").get_paginator("simulate_principal_policy")
    pages = asked.paginate(PolicySourceArn=caller, ActionNames=list(actions))
    found = [each for page in pages for each in page["EvaluationResults"]]
    return sorted(each["EvalActionName"] for each in found if each["EvalDecision"] != "allowed")


def _zones(account: _Account, name: str) -> Sequence[str]:
    chosen = [{"Name": "instance-type", "Values": [name]}]
    answer = account.client("ec2").describe_instance_type_offerings(LocationType="availability-zone-id", Filters=chosen)
    return sorted(offering["Location"] for offering in answer["InstanceTypeOfferings"])


def _efa_interfaces(account: _Account, name: str) -> int:
    (found,) = account.client("ec2").describe_instance_types(InstanceTypes=[name])["InstanceTypes"]
    interfaces: int = found["NetworkInfo"].get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)
    return interfaces


def _reservation(account: _Account, wanted: str, name: str) -> Reservation | None:
    answer = account.client("ec2").describe_capacity_reservations(CapacityReservationIds=[wanted])
    for found in answer["CapacityReservations"]:
        group = found.get("PlacementGroupArn")
        return Reservation(
            is_block=found.get("ReservationType") == "capacity-block",
            state=found["State"],
            instance_type=found["InstanceType"],
            zone=found.get("AvailabilityZoneId", ""),
            platform=found.get("InstancePlatform", ""),
            available=found.get("AvailableInstanceCount", 0) + _own_instances(account, wanted, name),
            start=found.get("StartDate"),
            end=found.get("EndDate"),
            placement_group=group.rsplit("/", 1)[-1] if group else None,
        )
    return None


def _own_instances(account: _Account, reservation: str, name: str) -> int:
    """How many instances of the reservation this stack runs."""
    chosen = [
        {"Name": f"tag:{STACK_TAG}", "Values": [name]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    answer = account.client("ec2").describe_instances(Filters=chosen)
    instances = [each for group in answer["Reservations"] for each in group["Instances"]]
    return len([each for each in instances if each.get("CapacityReservationId") == reservation])


def _quota(account: _Account, service: str, code: str, used: int = 0) -> Quota:
    found = account.client("service-quotas").get_service_quota(ServiceCode=service, QuotaCode=code)["Quota"]
    return Quota(found["Value"], used)


def _vpcs(account: _Account, tags: Mapping[str, str]) -> int:
    filters = [{"Name": key, "Values": [value]} for key, value in tags.items()]
    return len(account.client("ec2").describe_vpcs(Filters=filters)["Vpcs"])


def _addresses(account: _Account) -> int:
    return len(account.client("ec2").describe_addresses()["Addresses"])


def _image_release(account: _Account, version: str) -> str:
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/x86_64/nvidia/recommended/release_version"
    release: str = account.client("ssm").get_parameter(Name=path)["Parameter"]["Value"]
    return release


def _support(account: _Account, version: str) -> str:
    asked = {"clusterVersions": [version], "includeAll": True}
    found = account.client("eks").describe_cluster_versions(**asked)["clusterVersions"]
    return next((str(each["versionStatus"]) for each in found if each["clusterVersion"] == version), "UNSUPPORTED")


def _cluster(account: _Account, name: str) -> FoundCluster:
    found = account.client("eks").describe_cluster(name=name)["cluster"]
    subnets = account.client("ec2").describe_subnets(SubnetIds=found["resourcesVpcConfig"]["subnetIds"])["Subnets"]
    free: dict[str, int] = {}
    for subnet in subnets:
        zone = subnet["AvailabilityZoneId"]
        free[zone] = max(free.get(zone, 0), subnet["AvailableIpAddressCount"])
    return FoundCluster(found["version"], free)


def _bucket_region(account: _Account, bucket: str) -> str:
    found = account.client("s3").get_bucket_location(Bucket=bucket)["LocationConstraint"]
    return found or "us-east-1"  # which the API answers as nothing
