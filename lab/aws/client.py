"""The lab's AWS for tests and demos: clients of its APIs, and the switches that AWS does not have."""

import json
import urllib.request
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3

from lab.aws.credentials import ACCESS_KEY, SECRET_KEY


@cache
def _client(service: str, region: str, url: str) -> Any:
    """Returns boto3's client, which takes a moment to make."""
    credentials = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY}
    return boto3.client(service, region_name=region, endpoint_url=url, **credentials)


@dataclass(frozen=True)
class LabAWS:
    """One server, in one region."""

    url: str
    region: str = "us-east-1"

    @property
    def settings(self) -> dict[str, str]:
        """The environment for boto3 and the provider double."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def api(self, service: str) -> Any:
        """Returns boto3's client of a service."""
        return _client(service, self.region, self.url)

    def _do(self, action: str, values: dict[str, Any]) -> dict[str, Any]:
        body = json.dumps(values).encode()
        request = urllib.request.Request(f"{self.url}/lab/{action}", data=body, method="POST")  # noqa: S310 - http
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - http
            found: dict[str, Any] = json.load(answer)
        return found

    def faults(self, **values: Any) -> None:
        """Switches these faults on and all others off (`lab.aws.server.faults.Faults`)."""
        self._do("faults", values)

    def add_reservation(self, identity: str, instance_type: str, count: int, zone: str, **fields: Any) -> None:
        """Adds a capacity reservation. `fields` are the API's, such as `ReservationType="capacity-block"`."""
        named = {"CapacityReservationId": identity, "InstanceType": instance_type, "AvailabilityZone": zone}
        self._do("reservations", {**named, "InstanceCount": count, **fields})

    def quotas(self, **values: float) -> None:
        """Sets quotas by code. A code's `-` is written as `_`: `L_417A185B=0`."""
        self._do("quotas", {code.replace("_", "-"): value for code, value in values.items()})

    def replace_node(self, name: str) -> str:
        """Ends the instance of a node and returns the name of the node that takes its place."""
        return str(self._do("replace-node", {"node": name})["node"])

    def role_of_pods(self, namespace: str, service_account: str) -> str | None:
        """Returns the role that Pod Identity gives pods now. None: none arrived."""
        found: str | None = self._do("pod-identity", {"namespace": namespace, "service_account": service_account})[
            "role"
        ]
        return found
