"""EC2 instance types with GPUs: their hardware, network interfaces, zones and prices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from config.catalogue.reading import Fields, NotInCatalogueError, read


class InterfaceType(StrEnum):
    """Types of network interfaces, as EC2 names them."""

    INTERFACE = "interface"
    """IP traffic (ENA)."""
    EFA = "efa"
    """IP traffic and EFA."""
    EFA_ONLY = "efa-only"
    """EFA without an IP address."""


class CapacityKind(StrEnum):
    """How the instances of a node group are bought."""

    ON_DEMAND = "on-demand"
    """By the second, if EC2 has instances."""
    RESERVATION = "reservation"
    """From an on-demand capacity reservation, which costs the on-demand price."""
    CAPACITY_BLOCK = "capacity-block"
    """From a Capacity Block for ML: for some days, paid in advance."""


SYSTEM_TYPE, SYSTEM_NODES = "m5.large", 2
"""The nodes of an EKS cluster without GPUs, for what the cluster itself runs: our own choice, the cheapest that is
offered everywhere. Two, so that one can be replaced."""


@dataclass(frozen=True, slots=True)
class NetworkCard:
    """A network card of an instance type."""

    index: int
    types: tuple[InterfaceType, ...]
    """Interface types that the card takes."""
    interfaces: int
    """The most interfaces of the card."""


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface of an instance, as its launch template describes it."""

    card: int
    device: int
    """Index of the interface on its card."""
    type: InterfaceType


@dataclass(frozen=True, slots=True)
class Price:
    """A price in US dollars per hour."""

    usd_per_hour: float
    source: str
    """Where the price was read, and when."""

    @property
    def year(self) -> int:
        """Year in which the price was read, from its source."""
        return max(int(year) for year in re.findall(r"\b20\d\d\b", self.source))

    @property
    def is_old(self) -> bool:
        """Whether the catalogue has prices of a later year."""
        return self.year < _newest_year()


@dataclass(frozen=True, slots=True)
class Instance:
    """An EC2 instance type."""

    type: str
    gpu: str
    gpus: int
    vcpus: int
    memory_bytes: int
    nvme_bytes: int
    """Size of all instance store disks together."""
    efa_interfaces: int
    """EFA devices of an instance with the most of them."""
    cards: tuple[NetworkCard, ...]
    addresses_per_interface: int
    """IPv4 addresses that an interface can have."""
    zones: tuple[str, ...]
    """IDs of the availability zones that offer the type, such as `use2-az1`, when the data was recorded."""
    usage_classes: tuple[str, ...]
    """Ways to buy it, as EC2 names them."""
    on_demand: Price | None
    """On demand, in us-east-1. None: no price was found."""
    capacity_block: Price | None
    """In a Capacity Block. None: no price was found, or EC2 offers none."""

    def price(self, kind: CapacityKind) -> Price | None:
        """The price of one instance for a kind of capacity. None: not known."""
        return self.capacity_block if kind is CapacityKind.CAPACITY_BLOCK else self.on_demand

    def network_interfaces(self, *, efa: bool) -> tuple[NetworkInterface, ...]:
        """The network interfaces of an instance; with `efa`, one EFA-only interface for each card that takes one.

        The primary interface has the node's addresses and cannot be EFA-only, so that the EFA interface of card 0 is
        the card's second (docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html).
        """
        primary = NetworkInterface(0, 0, InterfaceType.INTERFACE)
        if not efa:
            return (primary,)
        with_efa = [card.index for card in self.cards if InterfaceType.EFA_ONLY in card.types]
        return (primary, *(NetworkInterface(card, int(card == 0), InterfaceType.EFA_ONLY) for card in with_efa))

    @property
    def addresses(self) -> int:
        """IPv4 addresses that the VPC CNI takes for a node at most: it uses the interfaces of card 0."""
        return self.cards[0].interfaces * self.addresses_per_interface


@cache
def instances() -> tuple[Instance, ...]:
    """Every EC2 GPU instance type of the catalogue."""
    return tuple(_instance(entry) for entry in read("aws_instances.json")["instances"])


@cache
def _newest_year() -> int:
    known = [price for instance in instances() for price in (instance.on_demand, instance.capacity_block) if price]
    return max(price.year for price in known)


def find_instance(name: str) -> Instance:
    """The instance type of that name. Raises NotInCatalogueError."""
    for instance in instances():
        if instance.type == name:
            return instance
    raise NotInCatalogueError("instance type", name, [instance.type for instance in instances()])


@cache
def regions() -> dict[str, tuple[str, ...]]:
    """IDs of the availability zones of each region."""
    return {name: tuple(zones) for name, zones in read("aws_regions.json")["regions"].items()}


def control_plane_zones(region: str, near: str) -> tuple[str, str]:
    """IDs of the two zones for the control plane of an EKS cluster: `near`, if EKS takes it, and the region's first."""
    excluded = read("aws_regions.json")["without_control_plane"]
    first, second, *_ = sorted(set(regions()[region]) - {*excluded}, key=lambda zone: (zone != near, zone))
    return first, second


@cache
def cluster_prices() -> dict[str, Price]:
    """Prices of the parts of an EKS cluster beside its GPU nodes, by name."""
    return {name: Price(**entry) for name, entry in read("aws_prices.json")["parts"].items()}


def _instance(entry: Fields) -> Instance:
    return Instance(
        type=entry["type"],
        gpu=entry["gpu"],
        gpus=entry["gpus"],
        vcpus=entry["vcpu"],
        memory_bytes=entry["memory_mib"] * 2**20,
        nvme_bytes=entry["nvme_disks"] * entry["nvme_gb_each"] * 10**9,
        efa_interfaces=entry["efa_interfaces"],
        cards=_cards(entry["cards"]),
        addresses_per_interface=entry["ipv4_per_interface"],
        zones=tuple(entry["zones"]),
        usage_classes=tuple(entry["usage_classes"]),
        on_demand=_price(entry["usd_per_hour"], entry["price_source"]),
        capacity_block=_price(entry["block_usd_per_hour"], entry["block_price_source"]),
    )


def _cards(groups: list[Fields]) -> tuple[NetworkCard, ...]:
    """The cards of an instance type, from groups of equal ones."""
    each = [group for group in groups for _ in range(group["count"])]
    return tuple(
        NetworkCard(index, tuple(InterfaceType(name) for name in group["types"]), group["interfaces"])
        for index, group in enumerate(each)
    )


def _price(usd_per_hour: float | None, source: str | None) -> Price | None:
    return None if usd_per_hour is None or source is None else Price(usd_per_hour, source)
