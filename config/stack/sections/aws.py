"""`heavylift:aws`: the account's region, the EKS cluster and the mirror of the weights."""

from collections.abc import Sequence
from ipaddress import IPv4Network, collapse_addresses
from typing import Annotated

from pydantic import StrictBool, field_validator

from config.catalogue import regions
from config.matching import Matching
from config.stack.sections.fields import BucketName, Section, Text

PrincipalArn = Annotated[
    str, Matching(r"arn:aws[\w-]*:iam::\d{12}:(role|user)/.+", "the ARN of an IAM role or user, such as arn:aws:iam::…")
]


_PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
"""Private ranges (RFC 1918)."""

_NEVER_PUBLIC = (
    *_PRIVATE,
    *(IPv4Network(text) for text in ("0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3")),
)
"""Ranges from which no packet comes over the internet (RFC 6890), multicast included."""

_WIDEST_PUBLIC = 8
"""Shortest prefix that may reach the API server: our own choice. No organization has a larger range."""


class NewEksCluster(Section):
    """An EKS cluster that the stack makes, with its network and two system nodes."""

    version: Annotated[str, Matching(r"1\.\d\d", "a version of Kubernetes in quotes, such as '1.35'")] = "1.35"
    """Version of Kubernetes. EKS charges more for a version after its standard support."""
    admins: Sequence[PrincipalArn] = ()
    """IAM roles and users that administer the cluster, besides the one that makes it."""


class EksChoice(Section):
    """The EKS cluster: a new one, or one that exists. Exactly one of the keys."""

    create: NewEksCluster | None = None
    """Make a cluster. `{}` takes every default."""
    name: Annotated[str, Matching(r"[0-9A-Za-z][\w-]{0,99}", "the name of an EKS cluster")] | None = None
    """Name of a cluster that exists. The stack makes only the node group and what is above it."""


class AwsMirror(Section):
    """The S3 bucket with a copy of the weights, in the region of the nodes. Exactly one of the keys."""

    bucket: BucketName | None = None
    """Name of a bucket that exists. The stager may read the prefixes of it that `stage.sources` names."""
    create: StrictBool = False
    """Make a bucket. Its name is the output `mirror`; `python -m stager mirror` fills it."""


class Aws(Section):
    """The part of AWS in which the stack's nodes are."""

    region: Text
    """Region, such as `us-east-2`."""
    cluster: EksChoice
    """The EKS cluster: `create: {}` makes one, `name` takes one that exists."""
    cidr: Text = "10.0.0.0/16"
    """Address range of the network that the stack makes: a private IPv4 range of /16 to /20."""
    public_access_cidrs: Sequence[Text] = ()
    """Address ranges from which the API server of a new cluster answers. Unset: only from within its network."""
    mirror: AwsMirror | None = None
    """Copy of the weights in S3; unset: none, and every node downloads from the hub through the NAT gateway."""

    @property
    def makes_cluster(self) -> bool:
        """Whether the stack makes the cluster."""
        return self.cluster.create is not None

    @field_validator("region")
    @classmethod
    def _is_known(cls, region: str) -> str:
        if region not in regions():
            raise ValueError(f"is not a region with known zones: expected one of {', '.join(regions())}")
        return region

    @field_validator("cluster")
    @classmethod
    def _is_one(cls, cluster: EksChoice) -> EksChoice:
        if (cluster.create is None) == (cluster.name is None):
            raise ValueError("is not one cluster: expected either `create: {}` or the `name` of one that exists")
        return cluster

    @field_validator("mirror")
    @classmethod
    def _is_one_bucket(cls, mirror: AwsMirror | None) -> AwsMirror | None:
        if mirror is not None and mirror.create == (mirror.bucket is not None):
            raise ValueError("is not one bucket: expected either `create: true` or the name of a `bucket`")
        return mirror

    @field_validator("cidr")
    @classmethod
    def _is_a_private_range(cls, cidr: str) -> str:
        network = _network(cidr)
        if not (16 <= network.prefixlen <= 20 and any(network.subnet_of(private) for private in _PRIVATE)):
            raise ValueError(
                "is not a range for the network: expected one of /16 to /20 in 10.0.0.0/8, 172.16.0.0/12 or "
                "192.168.0.0/16, such as 10.0.0.0/16"
            )
        return cidr

    @field_validator("public_access_cidrs")
    @classmethod
    def _are_named_ranges(cls, ranges: Sequence[str]) -> Sequence[str]:
        networks = [_network(each) for each in ranges]
        if any(network.prefixlen < _WIDEST_PUBLIC for network in collapse_addresses(networks)):
            raise ValueError(
                "opens the API server to everyone, or nearly: expected the ranges that you reach it from, none larger "
                f"than a /{_WIDEST_PUBLIC}"
            )
        if inner := [str(each) for each in networks if any(each.overlaps(never) for never in _NEVER_PUBLIC)]:
            raise ValueError(
                f"has {', '.join(inner)}, from which nothing comes over the internet: expected public addresses, such "
                "as the one that https://checkip.amazonaws.com prints"
            )
        return ranges


def _network(text: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError as fault:
        raise ValueError(f"is not an IPv4 range ({fault}): expected one such as 10.0.0.0/16") from None
