"""Questions to one cluster's API server, with the stack's own kubeconfig: a path in, its JSON out.

On the official client's lowest level. Its CoreV1Api would take half a second to import, and seconds to make its
objects of a large cluster.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from http import HTTPStatus
from typing import Any

import pulumi
import urllib3
import yaml

from components.cluster.connection import Connection, NoConnection

_CONNECT_SECONDS = 5
_ANSWER_SECONDS = 30


class ClusterUnreachable(Exception):
    """The cluster did not answer, or refused to; the text says why in one line."""


class ClusterApi:
    """The API server behind a kubeconfig."""

    def __init__(self, kubeconfig: Mapping[str, Any]) -> None:
        self._kubeconfig = kubeconfig
        self._connection: Connection | None = None
        self.answered_at = datetime.now(UTC)
        """When it last answered, by the cluster's own clock."""

    def read(self, path: str, **query: str) -> dict[str, Any]:
        """The JSON at a path that every cluster has. Raises ClusterUnreachable."""
        answer = self.find(path, **query)
        if answer is None:
            raise ClusterUnreachable(f"it has no {path}; is this a Kubernetes API server?")
        return answer

    def find(self, path: str, **query: str) -> dict[str, Any] | None:
        """The JSON at a path; None where there is nothing. Raises ClusterUnreachable."""
        try:
            return self._answer(path, query)
        except (ValueError, KeyError):
            reason = "its answer is not that of a Kubernetes API server"
        except ClusterUnreachable as refusal:
            reason = str(refusal)
        self._connection = None  # credentials may have expired: the next question reads them anew
        raise ClusterUnreachable(reason) from None

    def read_text(self, path: str, **query: str) -> str:
        """The text at a path, such as the log of a pod. Raises ClusterUnreachable, also where there is none."""
        response, content = self._call("GET", path, query)
        if response.status != HTTPStatus.OK:
            raise ClusterUnreachable(f"status {response.status}")
        return content.decode(errors="replace")

    def dry_run(self, path: str, body: object) -> tuple[int, str]:
        """Status and text with which the API server answers to the making of an object, without making it.

        Raises ClusterUnreachable when no answer comes.
        """
        response, content = self._call("POST", path, {"dryRun": "All"}, body=body)
        return response.status, content.decode(errors="replace")

    def proxy(self, method: str, path: str, body: object = None, *, seconds: float) -> tuple[int, str]:
        """Status and text with which a pod or Service behind the API server's proxy answers within `seconds`.

        Raises ClusterUnreachable when no answer comes; one of the API server itself is a Status object.
        """
        response, content = self._call(method, path, body=body, seconds=seconds)
        return response.status, content.decode(errors="replace")

    def _answer(self, path: str, query: Mapping[str, str]) -> dict[str, Any] | None:
        response, content = self._call("GET", path, query)
        date = response.headers.get("Date")
        self.answered_at = parsedate_to_datetime(date) if date else datetime.now(UTC)
        if response.status == HTTPStatus.NOT_FOUND:
            return None  # in plain text, where the whole API group is missing
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
        seconds: float = _ANSWER_SECONDS,
    ) -> tuple[Any, bytes]:
        """The response, whatever its status, and its content. Raises ClusterUnreachable when none comes."""
        try:
            if self._connection is None or not self._connection.is_current():
                self._connection = Connection(self._kubeconfig)
            client = self._connection.client
            request = client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Content-Type": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = client.call_api(*request, _request_timeout=(_CONNECT_SECONDS, seconds))
            return response, response.read()  # type: ignore[no-untyped-call]
        except (NoConnection, urllib3.exceptions.HTTPError, OSError, ValueError) as fault:
            self._connection = None
            raise ClusterUnreachable(" ".join(str(fault).split())) from None


def cluster_api(kubeconfig: str | Mapping[str, Any], context: str | None) -> ClusterApi:
    """The API server behind a kubeconfig, in the context named or its current one; one client for each.

    A program in YAML hands over a kubeconfig in JSON as an object. Raises pulumi.RunError when it is no kubeconfig.
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
