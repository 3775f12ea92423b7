"""The lab's API server as this package's own code speaks to it."""

import time
from collections.abc import Callable
from typing import Any

from kubernetes.client import ApiException, CoreV1Api
from kubernetes.config import new_client_from_config
from urllib3.exceptions import HTTPError

from lab.errors import LabError
from lab.site import Site


def core(site: Site) -> CoreV1Api:
    """A client for the core API group, as administrator."""
    return CoreV1Api(new_client_from_config(str(site.kubeconfig)))  # type: ignore[no-untyped-call]


def node(api: CoreV1Api, name: str) -> dict[str, Any]:
    """One node as the API server has it; LabError where there is none of that name."""
    try:
        return json_of(api, api.read_node(name))
    except ApiException as refusal:
        if refusal.status == 404:
            raise LabError(f"no node {name!r}: see `python -m lab status`") from None
        raise


def nodes(api: CoreV1Api) -> list[dict[str, Any]]:
    """All nodes as the API server has them."""
    found: list[dict[str, Any]] = json_of(api, api.list_node())["items"]
    return found


def json_of(api: CoreV1Api, value: object) -> dict[str, Any]:
    """An object of the client as the JSON that the API server speaks."""
    content: dict[str, Any] = api.api_client.sanitize_for_serialization(value)
    return content


def is_ready(found: dict[str, Any]) -> bool:
    """Whether a node's condition Ready is True."""
    conditions = found.get("status", {}).get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Returns when the condition holds; LabError says `what` did not come about."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except (ApiException, HTTPError, LabError):
            pass
        time.sleep(0.2)
    raise LabError(f"{what} within {seconds:.0f} s")
