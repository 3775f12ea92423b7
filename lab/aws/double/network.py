"""The network: VPC, subnets, gateways, routes, endpoints, security groups."""

from typing import Any

from lab.aws.double.kind import Api, delete, found, tag_list, tag_map
from lab.aws.double.wire import Properties, pascal


def tagged(given: Properties, resource: str) -> list[dict[str, Any]]:
    """Returns EC2's parameter TagSpecifications."""
    return [{"ResourceType": resource, "Tags": tag_list(given)}] if given.get("tags") else []


def picked(given: Properties, *names: str) -> Properties:
    """Returns the arguments of these names as EC2's parameters."""
    parameters: Properties = pascal({name: given[name] for name in names if name in given}, {})
    return parameters


def retag(api: Api, identity: str, old: Properties, new: Properties) -> None:
    """Changes the tags of a resource of EC2."""
    before, after = old.get("tags", {}), new.get("tags", {})
    if stale := [{"Key": key} for key in sorted(before.keys() - after.keys())]:
        api("ec2").delete_tags(Resources=[identity], Tags=stale)
    if after != before:
        api("ec2").create_tags(Resources=[identity], Tags=tag_list(new))


class Vpc:
    """A VPC."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it, and sets its DNS."""
        made = api("ec2").create_vpc(CidrBlock=given["cidrBlock"], TagSpecifications=tagged(given, "vpc"))
        identity = str(made["Vpc"]["VpcId"])
        self._set_dns(api, identity, given)
        return identity

    @staticmethod
    def _set_dns(api: Api, identity: str, given: Properties) -> None:
        for name in ("enableDnsSupport", "enableDnsHostnames"):
            if name in given:
                value = {name[0].upper() + name[1:]: {"Value": given[name]}}
                api("ec2").modify_vpc_attribute(VpcId=identity, **value)

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it with its DNS."""
        answer = found(api("ec2").describe_vpcs, VpcIds=[identity])
        if answer is None:
            return None
        [vpc] = answer["Vpcs"]
        dns = {
            name: api("ec2").describe_vpc_attribute(VpcId=identity, Attribute=name)[name[0].upper() + name[1:]]["Value"]
            for name in ("enableDnsSupport", "enableDnsHostnames")
        }
        [main] = api("ec2").describe_route_tables(
            Filters=[{"Name": "vpc-id", "Values": [identity]}, {"Name": "association.main", "Values": ["true"]}]
        )["RouteTables"]
        return {
            "arn": f"arn:aws:ec2:::vpc/{identity}",
            "cidrBlock": vpc["CidrBlock"],
            "mainRouteTableId": main["RouteTableId"],
            "tags": tag_map(vpc.get("Tags")),
            **dns,
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Sets DNS and tags."""
        self._set_dns(api, identity, new)
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_vpc, VpcId=identity)


class Subnet:
    """A subnet."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        parameters = picked(given, "vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId")
        made = api("ec2").create_subnet(**parameters, TagSpecifications=tagged(given, "subnet"))
        return str(made["Subnet"]["SubnetId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("ec2").describe_subnets, SubnetIds=[identity])
        if answer is None:
            return None
        [subnet] = answer["Subnets"]
        return {
            "arn": subnet["SubnetArn"],
            "vpcId": subnet["VpcId"],
            "cidrBlock": subnet["CidrBlock"],
            "availabilityZone": subnet["AvailabilityZone"],
            "availabilityZoneId": subnet["AvailabilityZoneId"],
            "mapPublicIpOnLaunch": subnet["MapPublicIpOnLaunch"],
            "tags": tag_map(subnet.get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags."""
        if new.get("mapPublicIpOnLaunch") != old.get("mapPublicIpOnLaunch"):
            value = {"Value": bool(new.get("mapPublicIpOnLaunch"))}
            api("ec2").modify_subnet_attribute(SubnetId=identity, MapPublicIpOnLaunch=value)
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_subnet, SubnetId=identity)


class InternetGateway:
    """An internet gateway, attached to a VPC."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates and attaches it."""
        made = api("ec2").create_internet_gateway(TagSpecifications=tagged(given, "internet-gateway"))
        identity = str(made["InternetGateway"]["InternetGatewayId"])
        if "vpcId" in given:
            api("ec2").attach_internet_gateway(InternetGatewayId=identity, VpcId=given["vpcId"])
        return identity

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it with its VPC."""
        answer = found(api("ec2").describe_internet_gateways, InternetGatewayIds=[identity])
        if answer is None:
            return None
        [gateway] = answer["InternetGateways"]
        vpcs = [each["VpcId"] for each in gateway.get("Attachments", ())]
        arn = f"arn:aws:ec2:::internet-gateway/{identity}"
        return {"arn": arn, "vpcId": vpcs[0] if vpcs else None, "tags": tag_map(gateway.get("Tags"))}

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Attaches it to another VPC."""
        if old.get("vpcId") != new.get("vpcId"):
            delete(api("ec2").detach_internet_gateway, InternetGatewayId=identity, VpcId=old["vpcId"])
            api("ec2").attach_internet_gateway(InternetGatewayId=identity, VpcId=new["vpcId"])
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Detaches and deletes it."""
        if "vpcId" in state:
            delete(api("ec2").detach_internet_gateway, InternetGatewayId=identity, VpcId=state["vpcId"])
        delete(api("ec2").delete_internet_gateway, InternetGatewayId=identity)


class Eip:
    """An elastic address."""

    def create(self, api: Api, given: Properties) -> str:
        """Allocates it."""
        domain = given.get("domain", "vpc")
        made = api("ec2").allocate_address(Domain=domain, TagSpecifications=tagged(given, "elastic-ip"))
        return str(made["AllocationId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("ec2").describe_addresses, AllocationIds=[identity])
        if not answer or not answer["Addresses"]:
            return None
        [address] = answer["Addresses"]
        return {
            "allocationId": identity,
            "arn": f"arn:aws:ec2:::elastic-ip/{identity}",
            "domain": address["Domain"],
            "publicIp": address["PublicIp"],
            "tags": tag_map(address.get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags."""
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Releases it."""
        delete(api("ec2").release_address, AllocationId=identity)


class NatGateway:
    """A NAT gateway."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it and waits until it is available."""
        parameters = picked(given, "allocationId", "connectivityType", "subnetId")
        made = api("ec2").create_nat_gateway(**parameters, TagSpecifications=tagged(given, "natgateway"))
        return str(made["NatGateway"]["NatGatewayId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("ec2").describe_nat_gateways, NatGatewayIds=[identity])
        gateways = [each for each in (answer or {}).get("NatGateways", ()) if each["State"] != "deleted"]
        if not gateways:
            return None
        [address] = gateways[0]["NatGatewayAddresses"]
        return {
            "allocationId": address.get("AllocationId"),
            "publicIp": address.get("PublicIp"),
            "privateIp": address.get("PrivateIp"),
            "subnetId": gateways[0]["SubnetId"],
            "tags": tag_map(gateways[0].get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its tags."""
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_nat_gateway, NatGatewayId=identity)


class VpcEndpoint:
    """An endpoint of a service in a VPC."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        parameters = picked(given, "vpcId", "serviceName", "vpcEndpointType", "routeTableIds")
        made = api("ec2").create_vpc_endpoint(**parameters, TagSpecifications=tagged(given, "vpc-endpoint"))
        return str(made["VpcEndpoint"]["VpcEndpointId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        answer = found(api("ec2").describe_vpc_endpoints, VpcEndpointIds=[identity])
        live = [each for each in (answer or {}).get("VpcEndpoints", ()) if each["State"].lower() != "deleted"]
        if not live:
            return None
        return {
            "arn": f"arn:aws:ec2:::vpc-endpoint/{identity}",
            "vpcId": live[0]["VpcId"],
            "serviceName": live[0]["ServiceName"],
            "vpcEndpointType": live[0]["VpcEndpointType"],
            "routeTableIds": live[0]["RouteTableIds"],
            "state": live[0]["State"],
            "tags": tag_map(live[0].get("Tags")),
        }

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Changes its route tables and tags."""
        before, after = set(old.get("routeTableIds", ())), set(new.get("routeTableIds", ()))
        if before != after:
            added, removed = sorted(after - before), sorted(before - after)
            api("ec2").modify_vpc_endpoint(VpcEndpointId=identity, AddRouteTableIds=added, RemoveRouteTableIds=removed)
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_vpc_endpoints, VpcEndpointIds=[identity])
