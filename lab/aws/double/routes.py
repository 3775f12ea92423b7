"""Route tables and their associations with subnets."""

from lab.aws.double.kind import Api, delete, found, tag_map
from lab.aws.double.network import picked, retag, tagged
from lab.aws.double.wire import Properties, pascal

ROUTE = {"cidrBlock": "DestinationCidrBlock"}
TARGETS = {"gatewayId": "GatewayId", "natGatewayId": "NatGatewayId"}


class RouteTable:
    """A route table, with all its routes."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it and its routes."""
        made = api("ec2").create_route_table(VpcId=given["vpcId"], TagSpecifications=tagged(given, "route-table"))
        identity = str(made["RouteTable"]["RouteTableId"])
        for route in given.get("routes", ()):
            api("ec2").create_route(RouteTableId=identity, **pascal(route, ROUTE))
        return identity

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it with the routes that are not AWS' own."""
        answer = found(api("ec2").describe_route_tables, RouteTableIds=[identity])
        if answer is None:
            return None
        [table] = answer["RouteTables"]
        routes = [
            {
                "cidrBlock": route["DestinationCidrBlock"],
                **{name: route[key] for name, key in TARGETS.items() if route.get(key)},
            }
            for route in table["Routes"]
            # A gateway endpoint adds a route whose target is the endpoint.
            if route.get("GatewayId") != "local" and "DestinationCidrBlock" in route
        ]
        arn = f"arn:aws:ec2:::route-table/{identity}"
        return {"arn": arn, "vpcId": table["VpcId"], "routes": routes, "tags": tag_map(table.get("Tags"))}

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Exchanges routes."""
        before, after = old.get("routes", []), new.get("routes", [])
        for route in before:
            if route not in after:
                api("ec2").delete_route(RouteTableId=identity, DestinationCidrBlock=route["cidrBlock"])
        for route in after:
            if route not in before:
                api("ec2").create_route(RouteTableId=identity, **pascal(route, ROUTE))
        retag(api, identity, old, new)

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").delete_route_table, RouteTableId=identity)


class RouteTableAssociation:
    """The association of a subnet with a route table."""

    def create(self, api: Api, given: Properties) -> str:
        """Creates it."""
        made = api("ec2").associate_route_table(**picked(given, "routeTableId", "subnetId", "gatewayId"))
        return str(made["AssociationId"])

    def read(self, api: Api, identity: str, state: Properties) -> Properties | None:
        """Reads it."""
        filters = [{"Name": "association.route-table-association-id", "Values": [identity]}]
        for table in api("ec2").describe_route_tables(Filters=filters)["RouteTables"]:
            for each in table["Associations"]:
                if each["RouteTableAssociationId"] == identity:
                    return {"routeTableId": table["RouteTableId"], "subnetId": each.get("SubnetId")}
        return None

    def update(self, api: Api, identity: str, old: Properties, new: Properties) -> None:
        """Moves the subnet to another table. The id changes in AWS, which the double does not follow."""
        raise NotImplementedError("a route table association that moves to another table")

    def delete(self, api: Api, identity: str, state: Properties) -> None:
        """Deletes it."""
        delete(api("ec2").disassociate_route_table, AssociationId=identity)
