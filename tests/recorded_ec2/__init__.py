"""What EC2 answered about its instance types: DescribeInstanceTypes and DescribeInstanceTypeOfferings, as moto records.

moto's data files are recorded answers of the real API (github.com/getmoto/moto, scripts/get_instance_info.py).
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import moto

from config.catalogue import SYSTEM_TYPE

_FOLDER = Path(moto.__file__).parent / "ec2" / "resources"

SHAPE = ("ipv4_per_interface", "cards", "zones")
"""Keys of config/data/aws_instances.json that `shape` returns."""


@cache
def instance_types() -> dict[str, Any]:
    """Each instance type as DescribeInstanceTypes describes it."""
    answers: dict[str, Any] = _read(_FOLDER / "instance_types.json.gz")
    return answers


@cache
def zones() -> dict[str, list[str]]:
    """IDs of the availability zones that offer each instance type, in all recorded regions."""
    offered: dict[str, list[str]] = {}
    for file in sorted((_FOLDER / "instance_type_offerings" / "availability-zone-id").iterdir()):
        for offering in _read(file):
            offered.setdefault(offering["InstanceType"], []).append(offering["Location"])
    return {name: sorted(found) for name, found in offered.items()}


def shape(name: str) -> dict[str, Any]:
    """An instance type's network cards, addresses and zones, as config/data/aws_instances.json has them."""
    network = instance_types()[name]["NetworkInfo"]
    cards = sorted(network["NetworkCards"], key=lambda card: card["NetworkCardIndex"])
    return {
        "ipv4_per_interface": network["Ipv4AddressesPerInterface"],
        "cards": [
            {"count": len(list(equal)), "interfaces": interfaces, "types": list(types)}
            for (interfaces, types), equal in groupby(
                cards, lambda card: (card["MaximumNetworkInterfaces"], tuple(card["InterfaceTypes"]))
            )
        ],
        "zones": zones().get(name, []),
    }


def regions() -> dict[str, list[str]]:
    """IDs of the availability zones of each recorded region: those that offer the system nodes' type."""
    found = {}
    for file in sorted((_FOLDER / "instance_type_offerings" / "availability-zone-id").iterdir()):
        offered = {each["Location"] for each in _read(file) if each["InstanceType"] == SYSTEM_TYPE}
        if len(offered) > 1:
            found[file.name.removesuffix(".json.gz")] = sorted(offered)
    return found


def _read(file: Path) -> Any:
    return json.loads(gzip.decompress(file.read_bytes()))
