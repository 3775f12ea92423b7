"""EC2's capacity reservations and Capacity Blocks."""

import datetime as dt
from typing import Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

from lab.aws.server.ec2.hardware import Hardware
from lab.aws.server.refusal import refuse
from lab.aws.server.store import Record, Region, identifier

OFFERED_HOURS = dt.timedelta(days=1)
"""Time from the query to the start of an offered Capacity Block."""
BLOCK_USD_PER_HOUR = 41.61
"""Price of a p5en.48xlarge in a Capacity Block (docs.aws.amazon.com, EC2 Capacity Blocks pricing, 2026). The lab asks
it for every type: nothing compares it."""


def now() -> dt.datetime:
    """Returns the present, in UTC."""
    return dt.datetime.now(dt.UTC)


def state(reservation: Record) -> str:
    """Returns the state of a reservation at this moment."""
    start, end = reservation.get("StartDate"), reservation.get("EndDate")
    if reservation["State"] not in ("active", "scheduled"):
        return str(reservation["State"])
    if end and end <= now():
        return "expired"
    return "scheduled" if start and start > now() else "active"


def make_reservation(region: Region, fields: Record) -> Record:
    """Keeps a reservation, with the values that AWS fills in, and returns it."""
    count = int(fields.get("InstanceCount") or fields.get("TotalInstanceCount") or 1)
    zone = str(fields["AvailabilityZone"])
    given = {key: value for key, value in fields.items() if value is not None and key != "InstanceCount"}
    made = {
        "CapacityReservationId": identifier("cr"),
        "OwnerId": region.account_id,
        "InstancePlatform": "Linux/UNIX",
        "Tenancy": "default",
        "TotalInstanceCount": count,
        "AvailableInstanceCount": count,
        "State": "active",
        "ReservationType": "default",
        "EndDateType": "limited" if fields.get("EndDate") else "unlimited",
        "InstanceMatchCriteria": "targeted",
        "StartDate": now(),
        "CreateDate": now(),
        "AvailabilityZoneId": zone_id(zone),
        "Tags": [],
        **given,
    }
    Hardware.of(str(made["InstanceType"]))
    region.reservations[str(made["CapacityReservationId"])] = made
    return made


def find_reservation(region: Region, identity: str) -> Record:
    """Returns a reservation with its present state. Refuses as EC2 does if it does not exist."""
    if identity not in region.reservations:
        refuse("reservation-unknown", id=identity)
    found = region.reservations[identity]
    return {**found, "State": state(found)}


def offer_block(region: Region, kind: str, count: int, hours: int) -> Record:
    """Offers a Capacity Block that starts tomorrow and ends at 11:30 UTC, as all do."""
    if "capacity-block" not in Hardware.of(kind).usage_classes:
        refuse("block-not-offered", type=kind)
    start = (now() + OFFERED_HOURS).replace(hour=11, minute=30, second=0, microsecond=0)
    made = {
        "CapacityBlockOfferingId": identifier("cb"),
        "InstanceType": kind,
        "InstanceCount": count,
        "AvailabilityZone": Hardware.of(kind).zones(region.region_name)[0],
        "StartDate": start,
        "EndDate": start + dt.timedelta(hours=hours),
        "CapacityBlockDurationHours": hours,
        "UpfrontFee": f"{BLOCK_USD_PER_HOUR * count * hours:.2f}",
        "CurrencyCode": "USD",
        "Tenancy": "default",
    }
    region.offerings[str(made["CapacityBlockOfferingId"])] = made
    return made


def buy_block(region: Region, offering: str, platform: str) -> Record:
    """Turns an offering into a reservation that is scheduled."""
    offered = region.offerings.pop(offering, None)
    if offered is None:
        refuse("offering-unknown", id=offering)
    kept = {key: offered[key] for key in ("InstanceType", "AvailabilityZone", "StartDate", "EndDate", "Tenancy")}
    block: dict[str, Any] = {"ReservationType": "capacity-block", "State": "scheduled", "InstancePlatform": platform}
    return make_reservation(region, {**kept, **block, "InstanceCount": offered["InstanceCount"]})


def zone_id(zone: str) -> str:
    """Returns the id of a zone, which is the same place in every account: `use1-az6` of `us-east-1a`."""
    found = [each for zones in RegionsAndZonesBackend.zones.values() for each in zones if each.name == zone]
    return str(found[0].zone_id) if found else zone
