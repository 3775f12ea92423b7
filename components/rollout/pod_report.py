"""Reduces a pod, as the API server returns it, to what the wait for a server or Job needs.

Stateless: the watches decide what the reports mean.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

VERSION_ANNOTATION = "server.heavylift/template"
"""Pod annotation: the digest of the pod template."""

_DOING = {
    "fabric": "checking the fabric",
    "verify": "checking the weights",
    "verify-draft": "checking the draft model",
    "engine": "loading",
    "requirements": "installing the stager's requirements",
    "stage": "staging",
    "wait": "staged",
}
_LONG_RUNNING = "engine"
"""The container that runs until the pod is deleted. All others run to completion."""
_TRANSIENT = {"ContainerCreating", "PodInitializing", "CrashLoopBackOff"}
"""Waiting reasons that are transient or already counted as failures. With any other, the container cannot start."""


@dataclass(frozen=True)
class ContainerFailure:
    """The last failure of one container."""

    container: str
    """Container name, or `pod` if the whole pod was rejected or evicted."""
    times: int
    """Number of failures in this pod."""
    stopped: bool
    """Whether the container is not running now."""
    started: datetime
    """Start of the last run, by the cluster's clock."""
    status: str
    """Exit status, with the reason if there is one: "137 (OOMKilled)"."""
    message: str
    """Termination message, which can have several lines. Empty: none."""
    finished: str
    """End of the last run, as an RFC 3339 text in UTC, which sorts by time."""


@dataclass(frozen=True)
class PodReport:
    """The state of one pod at one time."""

    name: str
    uid: str
    version: str
    """Digest of the pod template. Empty: not annotated."""
    group_index: tuple[str, str]
    """LeaderWorkerSet group and worker index, or a Job's name and completion index. Empty for a Deployment. Stable
    when the pod is re-created."""
    node: str | None
    """Node that the pod is scheduled to. None: not scheduled."""
    deletion_deadline: datetime | None
    """When the pod should be gone. None: it is not being deleted."""
    finished: bool
    """Whether its phase is Failed or Succeeded."""
    ready: bool
    doing: str
    """Current activity, such as "loading"."""
    obstacle: str | None
    """Why it cannot start, as the cluster reports it. None: nothing reported."""
    failures: tuple[ContainerFailure, ...]
    """The last failure of each container that failed."""
    still_running: tuple[str, ...] = ()
    """Containers that keep running after the stager has ended."""
    claims: tuple[str, ...] = ()
    """PersistentVolumeClaims that it mounts."""

    @property
    def terminating(self) -> bool:
        """Whether the pod is being deleted."""
        return self.deletion_deadline is not None

    @property
    def is_worker(self) -> bool:
        """Whether this is a worker of a group; workers serve no traffic."""
        return self.group_index[1] not in ("", "0")

    @property
    def where(self) -> str:
        """Node and pod name, for messages."""
        return f"{self.node} (pod {self.name})" if self.node else f"pod {self.name}"


def report(pod: Mapping[str, Any]) -> PodReport:
    """Reads a pod object of the API server."""
    metadata, status = pod["metadata"], pod.get("status", {})
    labels = metadata.get("labels") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready = conditions.get("Ready", {}).get("status") == "True"
    return PodReport(
        name=metadata["name"],
        uid=metadata["uid"],
        version=(metadata.get("annotations") or {}).get(VERSION_ANNOTATION, ""),
        group_index=(
            labels.get("leaderworkerset.sigs.k8s.io/group-index", labels.get("batch.kubernetes.io/job-name", "")),
            labels.get(
                "leaderworkerset.sigs.k8s.io/worker-index", labels.get("batch.kubernetes.io/job-completion-index", "")
            ),
        ),
        node=pod["spec"].get("nodeName"),
        deletion_deadline=datetime.fromisoformat(metadata["deletionTimestamp"])
        if "deletionTimestamp" in metadata
        else None,
        finished=status.get("phase") in ("Failed", "Succeeded"),
        ready=ready,
        doing="ready" if ready else _doing(pod["spec"], status),
        obstacle=_unscheduled(conditions.get("PodScheduled", {})) or _kept_from_starting(status),
        failures=tuple(_container_failures(metadata, status)),
        still_running=tuple(_still_running(status)),
        claims=tuple(
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["spec"].get("volumes") or []
            if "persistentVolumeClaim" in volume
        ),
    )


def _statuses(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Container statuses in start order, without init containers that have succeeded."""
    before = status.get("initContainerStatuses") or []
    at_work = [each for each in before if each["state"].get("terminated", {}).get("exitCode") != 0]
    return [*at_work, *(status.get("containerStatuses") or [])]


def _doing(spec: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    if not spec.get("nodeName"):
        return "waiting for a node"
    for container in _statuses(status):
        state = container["state"]
        if state.get("waiting", {}).get("reason") == "CrashLoopBackOff" or "terminated" in state:
            return "waiting to be tried again"
        if "running" in state:
            return _DOING.get(container["name"], "loading")
        break
    return "starting"


def _unscheduled(condition: Mapping[str, str]) -> str | None:
    if condition.get("status") != "False":
        return None
    return f"no node for it: {condition.get('message') or condition.get('reason', 'no reason given')}"


def _kept_from_starting(status: Mapping[str, Any]) -> str | None:
    for container in _statuses(status):
        waiting = container["state"].get("waiting", {})
        if waiting.get("reason") and waiting["reason"] not in _TRANSIENT:
            return f"{container['name']}: {waiting['reason']}: {waiting.get('message', 'no reason given')}"
    return None


def _still_running(status: Mapping[str, Any]) -> Iterator[str]:
    """The containers that still run in a pod whose stager has ended."""
    states = {each["name"]: each["state"] for each in status.get("containerStatuses") or []}
    if "terminated" in states.get("stage", {}):
        yield from (name for name, state in states.items() if "running" in state)


def _told_to_end(metadata: Mapping[str, Any]) -> datetime | None:
    """When deletion was requested; None: it was not. `deletionTimestamp` is that time plus the grace period."""
    if "deletionTimestamp" not in metadata:
        return None
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return datetime.fromisoformat(metadata["deletionTimestamp"]) - grace


def _container_failures(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[ContainerFailure]:
    """Yields failed containers, and the pod itself if its node rejected or evicted it.

    A container that ends because its pod is deleted has not failed.
    """
    told_to_end, made = _told_to_end(metadata), metadata["creationTimestamp"]
    containers = _statuses(status)
    as_a_whole = "reason" in status or not any("terminated" in container["state"] for container in containers)
    if status.get("phase") == "Failed" and told_to_end is None and as_a_whole:
        reason, message = status.get("reason", "Failed"), status.get("message", "")
        yield ContainerFailure("pod", 1, True, datetime.fromisoformat(made), reason, message, finished=made)
    for container in containers:
        state = container["state"]
        ended = state.get("terminated") or container.get("lastState", {}).get("terminated")
        if not ended or (ended["exitCode"] == 0 and container["name"] != _LONG_RUNNING):
            continue
        # The kubelet sets no times if it lost track of the container.
        started = ended.get("startedAt") or made
        finished = ended.get("finishedAt") or started
        if told_to_end and datetime.fromisoformat(finished) >= told_to_end:
            continue
        why = ended.get("reason", "")
        yield ContainerFailure(
            container=container["name"],
            times=container.get("restartCount", 0) + ("terminated" in state),
            stopped="running" not in state,
            started=datetime.fromisoformat(started),
            status=f"{ended['exitCode']}" + (f" ({why})" if why not in ("", "Error", "Completed") else ""),
            message=ended.get("message", "").strip(),
            finished=finished,
        )
