"""Reads a stack's objects, and by the API server's pod proxy the metrics of its servers."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.planned.records import CAPACITY_ENDS, PLAN, RELEASE, STAGED
from components.pods.labels import identity, selector
from components.rollout.pod_report import report
from config.engine_name import EngineName
from config.stack.sections import StackConfig
from engines.engine import Metrics
from engines.registry import engine_of
from review.checkout import ReviewError
from review.status.page import Load, Page, load_of, read_page

_SECONDS = 10
"""Timeout for a page of metrics. Our own choice: a server in a long step answers late."""
_LEADER_WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1"
_PORT = "http"


@dataclass(frozen=True)
class Pod:
    """One pod of a server."""

    name: str
    node: str
    state: str
    """What it does, such as `ready` or `loading`, or why it cannot start."""
    restarts: int
    load: Load | None = None
    """None: a worker, or its metrics could not be read."""
    unread: str = ""
    """Why its metrics could not be read. Empty: read, or a worker."""


@dataclass(frozen=True)
class Staged:
    """A revision that the stack's Jobs or DaemonSet staged, or are staging."""

    repository: str
    revision: str
    bytes: int | None
    where: str
    state: str


@dataclass(frozen=True)
class Status:
    """What a stack does now."""

    stack: str
    namespace: str
    release: Mapping[str, Any]
    """What is served, as the program wrote it. Empty: no server."""
    plan: Mapping[str, Any]
    since: datetime | None
    """Creation of the Deployment or LeaderWorkerSet. None: there is none."""
    ends: datetime | None
    """End of the nodes' reservation. None: none."""
    pods: Sequence[Pod]
    staged: Sequence[Staged]
    at: datetime

    @property
    def serves(self) -> bool:
        """Whether a pod is ready."""
        return any(pod.state == "ready" for pod in self.pods)


class StatusReader:
    """Reads the status of one stack, again and again: rates are over the time since the last reading."""

    def __init__(self, stack: str, config: StackConfig, api: ClusterApi) -> None:
        self._stack, self._config, self._api = stack, config, api
        self._pages: dict[str, Page] = {}

    def read(self) -> Status:
        """Returns the status. Raises ReviewError if the cluster cannot be read."""
        try:
            return self._read()
        except ClusterUnreachable as error:
            raise ReviewError(f"the cluster cannot be read: {error}") from None

    def _read(self) -> Status:
        workload = self._workload()
        annotations = workload["metadata"].get("annotations") or {} if workload else {}
        release = _json(annotations.get(RELEASE))
        engine = EngineName(release.get("engine", self._config.engine.name))
        found = self._objects("/api/v1", "pods")
        servers = [pod for pod in found if _is_server(pod)]
        ends = annotations.get(CAPACITY_ENDS)
        return Status(
            stack=self._stack,
            namespace=self._namespace,
            release=release,
            plan=_json(annotations.get(PLAN)),
            since=datetime.fromisoformat(workload["metadata"]["creationTimestamp"]) if workload else None,
            ends=datetime.fromisoformat(ends) if ends else None,
            pods=[self._pod(pod, engine_of(engine).metrics) for pod in sorted(servers, key=_name)],
            staged=[*self._jobs(), *self._daemon_sets()],
            at=datetime.now(UTC),
        )

    @property
    def _namespace(self) -> str:
        return self._config.cluster.namespace

    def _objects(self, group: str, kind: str) -> list[dict[str, Any]]:
        """Returns the stack's objects of a kind. Empty: none, or no such API."""
        path = f"{group}/namespaces/{self._namespace}/{kind}"
        found = self._api.find(path, labelSelector=selector(identity(self._stack))) or {}
        return list(found.get("items") or [])

    def _workload(self) -> dict[str, Any] | None:
        found = [
            *self._objects("/apis/apps/v1", "deployments"),
            *self._objects(_LEADER_WORKER_SETS, "leaderworkersets"),
        ]
        return max(found, key=lambda each: str(each["metadata"]["creationTimestamp"]), default=None)

    def _pod(self, pod: Mapping[str, Any], metrics: Metrics) -> Pod:
        seen = report(pod)
        statuses = pod.get("status", {}).get("containerStatuses") or []
        state = "terminating" if seen.terminating else seen.obstacle or seen.doing
        load, unread = (None, "") if seen.is_worker or not seen.ready else self._load(pod, metrics)
        restarts = sum(each.get("restartCount", 0) for each in statuses)
        return Pod(seen.name, seen.node or "no node", state, restarts, load, unread)

    def _load(self, pod: Mapping[str, Any], metrics: Metrics) -> tuple[Load | None, str]:
        """Returns the load of a server, or why its metrics cannot be read."""
        name, container = pod["metadata"]["name"], _engine(pod)
        ports = [port["containerPort"] for port in container.get("ports") or [] if port.get("name") == _PORT]
        path = f"/api/v1/namespaces/{self._namespace}/pods/{name}:{ports[0]}/proxy{metrics.path}"
        try:
            headers = self._key_header(container, metrics)
            status, text = self._api.proxy("GET", path, headers=headers, seconds=_SECONDS)
        except ClusterUnreachable as error:
            return None, f"its metrics cannot be read: {error}"
        if status != HTTPStatus.OK:
            return None, f"its metrics cannot be read: HTTP {status}: {' '.join(text.split())[:200]}"
        try:
            page = read_page(text, time.monotonic())
        except ValueError as error:
            return None, f"its metrics cannot be read: {error}"
        before, self._pages[name] = self._pages.get(name), page
        return load_of(metrics, page, before), ""

    def _key_header(self, container: Mapping[str, Any], metrics: Metrics) -> dict[str, str]:
        """Returns the header with the API key, from the Secret that the engine takes it from. Empty: none is needed."""
        sources = [each.get("valueFrom", {}).get("secretKeyRef") for each in container.get("env") or []]
        source = next((each for each in sources if each), None)
        if metrics.key_header is None or source is None:
            return {}
        try:
            secret = self._api.read(f"/api/v1/namespaces/{self._namespace}/secrets/{source['name']}")
            return {metrics.key_header: base64.b64decode(secret["data"][source["key"]]).decode()}
        except ClusterUnreachable as error:
            raise ClusterUnreachable(f"they need the API key, in Secret {source['name']}: {error}") from None
        except (KeyError, binascii.Error, UnicodeDecodeError):
            raise ClusterUnreachable(f"Secret {source['name']} holds no API key") from None

    def _jobs(self) -> list[Staged]:
        found = []
        for job in self._objects("/apis/batch/v1", "jobs"):
            status = job.get("status") or {}
            state = "staged" if status.get("succeeded") else "staging" if status.get("active") else "waiting"
            failed = any(
                each["type"] == "Failed" and each["status"] == "True" for each in status.get("conditions") or []
            )
            found += _staged(job, "failed" if failed else state, job["spec"]["template"]["spec"])
        return found

    def _daemon_sets(self) -> list[Staged]:
        found = []
        for each in self._objects("/apis/apps/v1", "daemonsets"):
            status = each.get("status") or {}
            done = f"staged on {status.get('numberReady', 0)} of {status.get('desiredNumberScheduled', 0)} nodes"
            found += _staged(each, done, {})
        return found


def _staged(thing: Mapping[str, Any], state: str, spec: Mapping[str, Any]) -> list[Staged]:
    """Returns the revision of a Job or DaemonSet. Empty: it stages none."""
    written = _json((thing["metadata"].get("annotations") or {}).get(STAGED))
    if not written:
        return []
    node = (spec.get("nodeSelector") or {}).get("kubernetes.io/hostname", "")
    return [Staged(written["repository"], written["revision"], written["bytes"], node, state)]


def _json(text: str | None) -> dict[str, Any]:
    """Returns the object in an annotation. Empty: there is none, or somebody else wrote it."""
    try:
        value = json.loads(text or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _name(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"]["name"])


def _is_server(pod: Mapping[str, Any]) -> bool:
    return any(container["name"] == "engine" for container in pod["spec"]["containers"])


def _engine(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    engine: Mapping[str, Any] = next(each for each in pod["spec"]["containers"] if each["name"] == "engine")
    return engine
