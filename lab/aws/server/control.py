"""What no AWS has: faults to switch, reservations with a chosen id, quotas, and nodes that are replaced.

Requests to `/lab/...` on the port of the AWS APIs, with JSON.
"""

import datetime as dt
import json
from collections.abc import Callable, Iterable
from typing import Any

from moto.ec2.models import ec2_backends

from lab.aws.credentials import ACCOUNT
from lab.aws.server.ec2.reservations import make_reservation
from lab.aws.server.eks import launches
from lab.aws.server.faults import FAULTS
from lab.aws.server.refusal import Refused
from lab.aws.server.store import REGIONS, NodeGroup, Record, Region
from lab.aws.server.tokens import review

Application = Callable[[dict[str, Any], Any], Iterable[bytes]]
PREFIX = "/lab/"
DATES = ("StartDate", "EndDate")


def regions() -> list[Region]:
    """Returns the regions of the lab's account that were used."""
    return list(REGIONS[ACCOUNT].values())


def set_faults(values: Record) -> Record:
    """Switches the given faults on and the others off. Pod Identity associations arrive once that fault is off."""
    FAULTS.switch(values)
    for region in regions():
        for association in region.associations.values():
            association.arrived = association.arrived or not FAULTS.pod_identity_late
    return vars(FAULTS)


def add_reservation(values: Record) -> Record:
    """Adds a capacity reservation in the API's shape, or replaces the one of the same id."""
    dated = {name: dt.datetime.fromisoformat(values[name]) for name in DATES if values.get(name)}
    region = REGIONS[ACCOUNT][str(values["AvailabilityZone"])[:-1]]
    return make_reservation(region, {**values, **dated})


def set_quotas(values: Record) -> Record:
    """Sets quotas by their codes, in every region that was used."""
    for region in regions():
        region.quotas |= values
    return values


def replace_node(values: Record) -> Record:
    """Ends the instance of a node, as EC2 or EKS' node repair does. The group launches another. Returns its node."""
    for region in regions():
        for group in region.groups.values():
            for identity, name in list(group.instances.items()):
                if name == values["node"]:
                    return {"node": _replace(region, group, identity)}
    raise KeyError(f"no node {values['node']!r} of a node group")


def _replace(region: Region, group: NodeGroup, identity: str) -> str | None:
    launches.end_instance(region, group, identity)
    backend = ec2_backends[ACCOUNT][region.region_name]
    launches.catch_up(region, group, [backend.get_subnet(each) for each in group.record["subnets"]])
    return next(reversed(group.instances.values()), None)


def known_identity(values: Record) -> Record:
    """Returns the role that the agent on a node would give a pod's service account. None: no association arrived."""
    for region in regions():
        for association in region.associations.values():
            record = association.record
            if (record["namespace"], record["serviceAccount"]) == (values["namespace"], values["service_account"]):
                return {"role": record["roleArn"] if association.arrived else None}
    return {"role": None}


ACTIONS: dict[str, Callable[[Record], Record]] = {
    "faults": set_faults,
    "reservations": add_reservation,
    "quotas": set_quotas,
    "replace-node": replace_node,
    "pod-identity": known_identity,
    "token-review": review,
}


class Control:
    """Answers the requests to `/lab/...` and hands the others on."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Serves one request."""
        path = str(environ.get("PATH_INFO", ""))
        if not path.startswith(PREFIX):
            return self._application(environ, start_response)
        status, answer = self._act(path.removeprefix(PREFIX), environ)
        start_response(status, [("Content-Type", "application/json")])
        return [json.dumps(answer, default=str).encode()]

    @staticmethod
    def _act(name: str, environ: dict[str, Any]) -> tuple[str, Record]:
        if name not in ACTIONS:
            return "404 Not Found", {"error": f"no action {name!r}: expected one of {', '.join(ACTIONS)}"}
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        try:
            return "200 OK", ACTIONS[name](json.loads(body or b"{}"))
        except (KeyError, ValueError, Refused) as problem:
            return "400 Bad Request", {"error": str(problem)}
