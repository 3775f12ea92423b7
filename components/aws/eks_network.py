"""The network of an EKS cluster: private subnets for nodes and control plane, with S3 and the internet behind NAT."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from itertools import islice
from typing import TypedDict

import pulumi
import pulumi_aws as aws

from config.catalogue import regions
from config.stack.sections.aws_contradictions import SUBNET_BITS


class EksNetworkArgs(TypedDict):
    """The arguments of `EksNetwork`."""

    region: str
    """Region, such as `us-east-2`."""
    zones: Sequence[str]
    """IDs of the availability zones with a private subnet, such as `use2-az1`. The first also has the NAT gateway."""
    cidr: str
    """Address range, such as `10.0.0.0/16`. Every subnet has a sixteenth of it."""


class EksNetwork(pulumi.ComponentResource):
    """A VPC with private subnets. Nodes with several network interfaces cannot have public addresses."""

    vpc_id: pulumi.Output[str]
    """ID of the VPC."""
    private_subnets: pulumi.Output[Mapping[str, str]]
    """IDs of the private subnets by zone."""

    def __init__(self, name: str, args: EksNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:EksNetwork", name, {}, opts)
        self._name, self._args = name, args
        vpc = aws.ec2.Vpc(
            name,
            cidr_block=args["cidr"],
            enable_dns_hostnames=True,
            enable_dns_support=True,
            opts=self._child(),
        )
        self.vpc_id = vpc.id
        outward = self._route("public", {"cidr_block": "0.0.0.0/0", "gateway_id": self._gateway()})
        public = self._subnet("public", args["zones"][0], 0, outward)
        inward = self._route("private", {"cidr_block": "0.0.0.0/0", "nat_gateway_id": self._nat(public)})
        in_order = regions()[args["region"]]
        self.subnets = {
            zone: self._subnet(f"private-{zone}", zone, 1 + in_order.index(zone), inward) for zone in args["zones"]
        }
        """IDs of the private subnets by zone, known once they have a way out."""
        self._s3_endpoint(inward)
        self.private_subnets = pulumi.Output.all(**self.subnets)
        self.register_outputs({"vpc_id": self.vpc_id, "private_subnets": self.private_subnets})

    def _child(self) -> pulumi.ResourceOptions:
        return pulumi.ResourceOptions(parent=self)

    def _gateway(self) -> pulumi.Output[str]:
        return aws.ec2.InternetGateway(self._name, vpc_id=self.vpc_id, opts=self._child()).id

    def _nat(self, subnet: pulumi.Output[str]) -> pulumi.Output[str]:
        address = aws.ec2.Eip(f"{self._name}-nat", domain="vpc", opts=self._child())
        return aws.ec2.NatGateway(self._name, allocation_id=address.id, subnet_id=subnet, opts=self._child()).id

    def _route(self, part: str, route: aws.ec2.RouteTableRouteArgsDict) -> aws.ec2.RouteTable:
        return aws.ec2.RouteTable(f"{self._name}-{part}", vpc_id=self.vpc_id, routes=[route], opts=self._child())

    def _subnet(self, part: str, zone: str, place: int, routes: aws.ec2.RouteTable) -> pulumi.Output[str]:
        """Makes a subnet, and returns its ID once it has a way out, so that nodes in it can join.

        Its range depends on the zone alone, so that another zone does not move it.
        """
        ranges = IPv4Network(self._args["cidr"]).subnets(prefixlen_diff=SUBNET_BITS)
        subnet = aws.ec2.Subnet(
            f"{self._name}-{part}",
            vpc_id=self.vpc_id,
            availability_zone_id=zone,
            cidr_block=str(next(islice(ranges, place, None))),
            opts=self._child(),
        )
        return aws.ec2.RouteTableAssociation(
            f"{self._name}-{part}", subnet_id=subnet.id, route_table_id=routes.id, opts=self._child()
        ).subnet_id.apply(str)

    def _s3_endpoint(self, routes: aws.ec2.RouteTable) -> None:
        """Makes the gateway endpoint: it is free, and without it the weights would pass, and pay for, the NAT."""
        aws.ec2.VpcEndpoint(
            f"{self._name}-s3",
            vpc_id=self.vpc_id,
            service_name=f"com.amazonaws.{self._args['region']}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[routes.id],
            opts=self._child(),
        )
