"""What one pod of a server or of a Job is going through: the API server's answer in the words of this program.

Nothing is judged here, and nothing remembered; see `server_watch` and `stage_watch`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

VERSION_ANNOTATION = "server.heavylift/template"
"""Of each pod: the digest of the template that it was made from."""

_DOING = {
    "fabric": "checking the fabric",
    "verify": "checking the weights",
    "engine": "loading",
    "requirements": "installing the stager's requirements",
    "stage": "staging",
}
_ENDLESS = "engine"
"""The container that is never to end. Others end when their work is done."""
_ON_THEIR_WAY = {"ContainerCreating", "PodInitializing", "CrashLoopBackOff"}
"""Reasons to wait that end by themselves or are counted as endings; all others mean that a container cannot start."""


@dataclass(frozen=True)
class Ending:
    """The last failure of one container."""

    container: str
    """`fabric`, `verify`, `engine`, `stage`; `pod` for one that was refused or evicted as a whole."""
    times: int
    """How often it has ended in this pod."""
    at_rest: bool
    """Whether it waits for its next attempt, and does not run."""
    started: datetime
    """When its last attempt began, by the cluster's clock."""
    status: str
    """Exit status, and why where that is known: "137 (OOMKilled)"."""
    message: str
    """Its last words, several lines; empty: it had none."""
    finished: str
    """When it ended, as the cluster writes times; such texts sort."""


@dataclass(frozen=True)
class PodReport:
    """One pod at one moment."""

    name: str
    uid: str
    version: str
    """Digest of its template; empty: it has none."""
    place: tuple[str, str]
    """Number of its group and of itself in it; a Job's name; empty for a server that is no group. A successor has the
    same."""
    node: str | None
    """Where it is; None: no node was found yet."""
    leaves_at: datetime | None
    """When it should be over, after it was told to end; None: it was not."""
    over: bool
    """Whether it has ended for good, and only its record is left."""
    ready: bool
    doing: str
    """What it does, as in "1 pod is loading"."""
    obstacle: str | None
    """Why it cannot start, in the cluster's words; None: nothing is known to be in its way."""
    endings: tuple[Ending, ...]
    """The failures of its containers."""
    lingering: tuple[str, ...] = ()
    """Containers that run on although the work of the Job's pod has ended."""
    claims: tuple[str, ...] = ()
    """PersistentVolumeClaims that it mounts."""

    @property
    def leaving(self) -> bool:
        """Whether it was told to end."""
        return self.leaves_at is not None

    @property
    def is_worker(self) -> bool:
        """Whether it only works for the leader of its group, and answers nobody."""
        return self.place[1] not in ("", "0")

    @property
    def where(self) -> str:
        """Node and pod, as a message names them."""
        return f"{self.node} (pod {self.name})" if self.node else f"pod {self.name}"


def report(pod: Mapping[str, Any]) -> PodReport:
    """The report of a pod as the API server describes it."""
    metadata, status = pod["metadata"], pod.get("status", {})
    labels = metadata.get("labels") or {}
    conditions = {each["type"]: each for each in status.get("conditions") or []}
    ready = conditions.get("Ready", {}).get("status") == "True"
    return PodReport(
        name=metadata["name"],
        uid=metadata["uid"],
        version=(metadata.get("annotations") or {}).get(VERSION_ANNOTATION, ""),
        place=(
            labels.get("leaderworkerset.sigs.k8s.io/group-index", labels.get("batch.kubernetes.io/job-name", "")),
            labels.get(
                "leaderworkerset.sigs.k8s.io/worker-index", labels.get("batch.kubernetes.io/job-completion-index", "")
            ),
        ),
        node=pod["spec"].get("nodeName"),
        leaves_at=datetime.fromisoformat(metadata["deletionTimestamp"]) if "deletionTimestamp" in metadata else None,
        over=status.get("phase") in ("Failed", "Succeeded"),
        ready=ready,
        doing="ready" if ready else _doing(pod["spec"], status),
        obstacle=_unscheduled(conditions.get("PodScheduled", {})) or _kept_from_starting(status),
        endings=tuple(_endings(metadata, status)),
        lingering=tuple(_lingering(status)),
        claims=tuple(
            volume["persistentVolumeClaim"]["claimName"]
            for volume in pod["spec"].get("volumes") or []
            if "persistentVolumeClaim" in volume
        ),
    )


def _statuses(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of all containers in the order in which they run, but for those before the engine that have done their work."""
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
        if waiting.get("reason") and waiting["reason"] not in _ON_THEIR_WAY:
            return f"{container['name']}: {waiting['reason']}: {waiting.get('message', 'no reason given')}"
    return None


def _lingering(status: Mapping[str, Any]) -> Iterator[str]:
    """Of a pod of which one container has ended and will not be tried again, those that still run."""
    states = {each["name"]: each["state"] for each in status.get("containerStatuses") or []}
    if "terminated" in states.get("stage", {}):
        yield from (name for name, state in states.items() if "running" in state)


def _told_to_end(metadata: Mapping[str, Any]) -> datetime | None:
    """When the pod was told to end; None: it was not. The API server notes when it will be over."""
    if "deletionTimestamp" not in metadata:
        return None
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return datetime.fromisoformat(metadata["deletionTimestamp"]) - grace


def _endings(metadata: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Ending]:
    """Those of containers, and of a pod that will not be tried again, such as one that its node refused or evicted.

    What ends because it is told to is no failure.
    """
    told_to_end, made = _told_to_end(metadata), metadata["creationTimestamp"]
    containers = _statuses(status)
    as_a_whole = "reason" in status or not any("terminated" in container["state"] for container in containers)
    if status.get("phase") == "Failed" and told_to_end is None and as_a_whole:
        reason, message = status.get("reason", "Failed"), status.get("message", "")
        yield Ending("pod", 1, True, datetime.fromisoformat(made), reason, message, finished=made)
    for container in containers:
        state = container["state"]
        ended = state.get("terminated") or container.get("lastState", {}).get("terminated")
        if not ended or (ended["exitCode"] == 0 and container["name"] != _ENDLESS):
            continue
        # A container that its node lost track of has no times.
        started = ended.get("startedAt") or made
        finished = ended.get("finishedAt") or started
        if told_to_end and datetime.fromisoformat(finished) >= told_to_end:
            continue
        why = ended.get("reason", "")
        yield Ending(
            container=container["name"],
            times=container.get("restartCount", 0) + ("terminated" in state),
            at_rest="running" not in state,
            started=datetime.fromisoformat(started),
            status=f"{ended['exitCode']}" + (f" ({why})" if why not in ("", "Error", "Completed") else ""),
            message=ended.get("message", "").strip(),
            finished=finished,
        )
