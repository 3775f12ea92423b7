"""Requests to one cluster's API server with the stack's kubeconfig: takes a path, returns JSON.

Uses the lowest level of the official client. Importing CoreV1Api takes half a second, and it takes seconds to build
objects for a large cluster.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import pulumi
import urllib3
import yaml

from components.cluster.connection import Connection, NoConnection

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 30


def object_path(thing: Mapping[str, Any]) -> str:
    """The API path of an object, with the resource's name as Kubernetes names its own: `services`, `ingresses`,
    `networkpolicies`."""
    version, kind, metadata = thing["apiVersion"], thing["kind"].lower(), thing["metadata"]
    plural = f"{kind}es" if kind.endswith("s") else f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"
    root = "apis" if "/" in version else "api"
    within = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"/{root}/{version}{within}/{plural}/{metadata['name']}"


_MOST_SHOWN = 300
"""Characters of a refusal that a message shows."""


class ClusterUnreachable(Exception):
    """The cluster did not answer, or refused the request. The message gives the reason in one line."""


class ClusterApi:
    """The API server behind a kubeconfig."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        self._kubeconfig = kubeconfig
        self._connection: Connection | None = None
        self.answered_at = datetime.now(UTC)
        """Time of its last answer, by the cluster's clock."""

    def read(self, path: str, **query: str) -> dict[str, Any]:
        """Returns the JSON at a path that every cluster has. Raises ClusterUnreachable."""
        answer = self.find(path, **query)
        if answer is None:
            raise ClusterUnreachable(f"it has no {path}; is this a Kubernetes API server?")
        return answer

    def find(self, path: str, **query: str) -> dict[str, Any] | None:
        """Returns the JSON at a path. None: not found. Raises ClusterUnreachable."""
        try:
            return self._answer(path, query)
        except (ValueError, KeyError):
            reason = "its answer is not that of a Kubernetes API server"
        except ClusterUnreachable as refusal:
            reason = str(refusal)
        self._connection = None  # credentials may have expired: the next request reads them again
        raise ClusterUnreachable(reason) from None

    def read_text(self, path: str, **query: str) -> str:
        """Returns the text at a path, such as the log of a pod. Raises ClusterUnreachable, also if nothing is there."""
        response, content = self._call("GET", path, query)
        if response.status != HTTPStatus.OK:
            raise ClusterUnreachable(f"status {response.status}")
        return content.decode(errors="replace")

    def delete(self, path: str) -> None:
        """Deletes the object at a path, if it is there. Raises ClusterUnreachable, also if that is refused."""
        response, content = self._call("DELETE", path)
        if response.status not in (HTTPStatus.OK, HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND):
            raise ClusterUnreachable(f"status {response.status}: {content.decode(errors='replace')[:_MOST_SHOWN]}")

    def dry_run(self, path: str, body: object) -> tuple[int, str]:
        """Requests the creation of an object as a dry run. Returns the status and text of the API server's answer.

        Raises ClusterUnreachable if no answer arrives.
        """
        response, content = self._call("POST", path, {"dryRun": "All"}, body=body)
        return response.status, content.decode(errors="replace")

    def proxy(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str], seconds: float
    ) -> tuple[int, str]:
        """Proxies a request to a pod or Service. Returns the status and body of an answer within `seconds`.

        If the API server itself answers, the body is a Status object. Raises ClusterUnreachable if no answer arrives.
        """
        response, content = self._call(method, path, body=body, headers=headers, seconds=seconds)
        return response.status, content.decode(errors="replace")

    def _answer(self, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        response, content = self._call("GET", path, query)
        date = response.headers.get("Date")
        self.answered_at = parsedate_to_datetime(date) if date else datetime.now(UTC)
        if response.status == HTTPStatus.NOT_FOUND:
            return None  # in plain text if the whole API group is missing
        answer: dict[str, Any] = json.loads(content)
        if response.status != HTTPStatus.OK:
            raise ClusterUnreachable(f"status {response.status}, {answer.get('message', 'no reason given')}")
        return answer

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: object = None,
        headers: Mapping[str, str] = MappingProxyType({}),
        seconds: float = _ANSWER_SECONDS,
    ) -> tuple[Any, bytes]:
        """Returns the response, with any status, and its content. Raises ClusterUnreachable if none arrives."""
        try:
            if self._connection is None or not self._connection.is_current():
                self._connection = Connection(self._kubeconfig)
            client = self._connection.client
            request = client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Content-Type": "application/json", **headers},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = client.call_api(*request, _request_timeout=(_CONNECT_SECONDS, seconds))
            return response, response.read()  # type: ignore[no-untyped-call]
        except (NoConnection, urllib3.exceptions.HTTPError, OSError, ValueError) as fault:
            self._connection = None
            raise ClusterUnreachable(" ".join(str(fault).split())) from None


def cluster_api(kubeconfig: str | Mapping[str, Any], context: str | None) -> ClusterApi:
    """Returns the client of a kubeconfig and context, which later calls share. None: the current context.

    A YAML program passes a kubeconfig in JSON as an object. Raises pulumi.RunError if the text is not a kubeconfig.
    """
    return _cluster_api(kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig), context)


@cache
def _cluster_api(kubeconfig: str, context: str | None) -> ClusterApi:
    try:
        document = yaml.safe_load(kubeconfig)
    except yaml.YAMLError:
        document = None
    if not isinstance(document, dict):
        raise pulumi.RunError("kubeconfig: is not the text of a kubeconfig file; nothing was created")
    return ClusterApi(document | ({"current-context": context} if context else {}))
