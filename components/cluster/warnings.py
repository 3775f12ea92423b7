"""Warning events of one namespace: why a pod is not created or not started, if its status does not say so.

Skipped if the credentials cannot list events.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable

_REQUEST_INTERVAL_SECONDS = 10.0


class ClusterWarnings:
    """The warning events of one namespace."""

    def __init__(self, api: ClusterApi, namespace: str) -> None:
        self._api, self._path = api, f"/api/v1/namespaces/{namespace}/events"
        self._asked: float | None = None
        self._events: Sequence[Mapping[str, Any]] = ()

    def of_pod(self, uid: str) -> str | None:
        """Returns the last warning about a pod. None: no warning."""
        return _last([event for event in self._read() if event["involvedObject"].get("uid") == uid])

    def of_claim(self, claim: str) -> str | None:
        """Returns the last warning about a PersistentVolumeClaim. None: no warning."""
        about = {"kind": "PersistentVolumeClaim", "name": claim}
        return _last([event for event in self._read() if about.items() <= event["involvedObject"].items()])

    def of_making(self, workload: str, since: datetime) -> str | None:
        """Returns the last failure to create an object of a workload, matched by name. None: none after `since`."""
        return _last(
            [
                event
                for event in self._read()
                if event.get("reason") == "FailedCreate"
                and f"{event['involvedObject'].get('name')}-".startswith(f"{workload}-")
                and _moment(event) >= since
            ]
        )

    def _read(self) -> Sequence[Mapping[str, Any]]:
        if self._asked is None or time.monotonic() - self._asked >= _REQUEST_INTERVAL_SECONDS:
            self._asked = time.monotonic()
            with suppress(ClusterUnreachable):
                self._events = self._api.read(self._path, fieldSelector="type=Warning")["items"]
        return self._events


def _last(events: Sequence[Mapping[str, Any]]) -> str | None:
    if not events:
        return None
    event = max(events, key=_moment)
    return f"{event.get('reason', 'warning')}: {event.get('message', 'no reason given').strip()}"


def _moment(event: Mapping[str, Any]) -> datetime:
    """Returns when the event was last seen. The two versions of the events API use different fields."""
    seen = event.get("lastTimestamp") or (event.get("series") or {}).get("lastObservedTime") or event.get("eventTime")
    return datetime.fromisoformat(seen) if seen else datetime.fromtimestamp(0, UTC)
