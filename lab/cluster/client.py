"""Requests of this package to the lab's API server."""

import time
from collections.abc import Callable
from typing import Any

from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import new_client_from_config
from urllib3.exceptions import HTTPError

from lab.errors import LabError
from lab.site import Site


def core(site: Site) -> CoreV1Api:
    """Returns a client for the core API group, as administrator."""
    return CoreV1Api(new_client_from_config(str(site.kubeconfig)))  # type: ignore[no-untyped-call]


def node(api: CoreV1Api, name: str) -> dict[str, Any]:
    """Returns a node in the API server's JSON. Raises LabError if it does not exist."""
    try:
        return json_of(api, api.read_node(name))
    except ApiException as refusal:
        if refusal.status == 404:
            raise LabError(f"no node {name!r}: see `python -m lab status`") from None
        raise


def nodes(api: CoreV1Api) -> list[dict[str, Any]]:
    """Returns all nodes in the API server's JSON."""
    found: list[dict[str, Any]] = json_of(api, api.list_node())["items"]
    return found


def json_of(api: CoreV1Api, value: object) -> dict[str, Any]:
    """Converts an object of the client to the API server's JSON."""
    content: dict[str, Any] = api.api_client.sanitize_for_serialization(value)
    return content


def is_ready(found: dict[str, Any]) -> bool:
    """Returns whether a node's condition Ready is True."""
    conditions = found.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Waits until the condition holds. Raises LabError with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (ApiException, HTTPError, LabError):
            pass
        time.sleep(0.2)
    raise LabError(f"{what} within {seconds:.0f} s")
