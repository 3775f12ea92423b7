"""What AWS refuses of a launch template. AWS says most of it when an instance launches; the lab says it at once."""

from collections.abc import Mapping
from typing import Any

from lab.aws.server.ec2.hardware import EFA_TYPES, Hardware
from lab.aws.server.refusal import refuse

MARKET_TYPES = ("spot", "capacity-block", "interruptible-capacity-reservation")


def check_launch_template(data: Mapping[str, Any]) -> None:
    """Refuses a launch template that no instance launches from."""
    interfaces = data.get("NetworkInterfaces", ())
    if len(interfaces) > 1 and any("AssociatePublicIpAddress" in interface for interface in interfaces):
        refuse("public-address-with-several-interfaces")
    if "InstanceType" in data:
        _check_interfaces(Hardware.of(data["InstanceType"]), interfaces)
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    if market and market not in MARKET_TYPES:
        refuse("market-type-unknown", market=market)
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if market == "capacity-block" and not target.get("CapacityReservationId"):
        refuse("block-without-reservation")


def _check_interfaces(hardware: Hardware, interfaces: Any) -> None:
    used: set[tuple[int, int]] = set()
    for interface in interfaces:
        place = int(interface.get("NetworkCardIndex", 0)), int(interface.get("DeviceIndex", 0))
        kind = interface.get("InterfaceType", "interface")
        _check_interface(hardware, *place, kind)
        if place in used:
            refuse("device-index-used", card=place[0], device=place[1])
        used.add(place)
    count = sum(interface.get("InterfaceType") in EFA_TYPES for interface in interfaces)
    if count > hardware.efa_interfaces:
        refuse("too-many-efa", type=hardware.name, most=hardware.efa_interfaces, count=count)


def _check_interface(hardware: Hardware, card: int, device: int, kind: str) -> None:
    found = hardware.cards.get(card)
    if found is None:
        refuse("card-unknown", type=hardware.name, card=card)
    if (card, device) == (0, 0) and kind == "efa-only":
        refuse("primary-efa-only")
    if kind not in found["InterfaceTypes"]:
        allowed = ", ".join(found["InterfaceTypes"])
        refuse("card-refuses-type", type=hardware.name, card=card, allowed=allowed, interface=kind)
    most = int(found["MaximumNetworkInterfaces"])
    if device >= most:
        refuse("device-index-too-high", type=hardware.name, card=card, most=most, device=device)
