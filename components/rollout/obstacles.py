"""Finds what blocks a pod of a server or Job from starting or terminating, and how long to wait for it to clear."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.facts import node_facts
from components.cluster.warnings import ClusterWarnings
from components.rollout.pod_report import PodReport

_REQUEST_INTERVAL_SECONDS = 10.0
_OVERDUE = timedelta(seconds=30)


@dataclass(frozen=True)
class GiveUpAfter:
    """Give-up timeouts of the wait for a server or Job, in seconds."""

    poll_seconds: float = 1.0
    """Interval between two reads of the pods."""
    report_seconds: float = 5.0
    """Shortest interval between two progress messages."""
    obstacle: float = 60.0
    """An unschedulable pod, an image that cannot be pulled, a node that is not Ready, a pod that is not admitted."""
    slow_start: float = 300.0
    """A pod with warning events, for example because its volume or network is not ready."""
    new_volume: float = 600.0
    """A pod whose claim is not bound: cloud file storage takes minutes to provision."""
    missing_node: float = 600.0
    """A node of a group that has not joined the cluster: clouds take minutes to start one."""
    unreachable: float = 180.0
    """An API server that does not respond."""


@dataclass(frozen=True)
class Obstacle:
    """What blocks a pod."""

    text: str
    give_up_after: float
    """Seconds after which the wait fails."""


class Obstacles:
    """Finds what blocks the pods of one namespace. Reads nodes and events at most every ten seconds."""

    def __init__(self, api: ClusterApi, namespace: str, give_up_after: GiveUpAfter) -> None:
        self._api, self._namespace, self._give_up_after = api, namespace, give_up_after
        self._nodes: dict[str, tuple[float, str | None]] = {}
        self.warnings = ClusterWarnings(api, namespace)

    def of(self, pods: Sequence[PodReport]) -> Iterator[tuple[str, Obstacle]]:
        """Yields the UID and the obstacle of each blocked pod that is not ready or is terminating."""
        for pod in pods:
            if (pod.terminating or not (pod.ready or pod.finished)) and (obstacle := self._of_pod(pod)):
                yield pod.uid, Obstacle(f"{pod.where}: {obstacle.text}", obstacle.give_up_after)

    def _of_pod(self, pod: PodReport) -> Obstacle | None:
        limits = self._give_up_after
        if pod.deletion_deadline:
            overdue = self._api.answered_at - pod.deletion_deadline > _OVERDUE
            words = f"was told to end, and has not: {self._how_to_end(pod)}"
            return Obstacle(words, limits.slow_start) if overdue else None
        if pod.node and (reason := self._not_ready(pod.node)):
            return Obstacle(f"its node is not Ready ({reason})", limits.obstacle)
        if pod.obstacle:
            waits_for_volume = "PersistentVolumeClaim" in pod.obstacle
            return Obstacle(pod.obstacle, limits.new_volume if waits_for_volume else limits.obstacle)
        if pod.still_running:
            others = ", ".join(pod.still_running)
            return Obstacle(
                f"its work has ended, and the pod goes on because of what the cluster added to it ({others}): keep the "
                f"namespace out of that injection, or let it run as a sidecar (an init container that always restarts)",
                limits.obstacle,
            )
        warning = self.warnings.of_pod(pod.uid) if pod.doing in ("starting", "waiting for a node") else None
        if not warning and pod.node is None:
            warning = next(filter(None, map(self.warnings.of_claim, pod.claims)), None)
        return Obstacle(warning, limits.slow_start) if warning else None

    def _how_to_end(self, pod: PodReport) -> str:
        return f"where its node is gone for good, `kubectl delete pod -n {self._namespace} {pod.name} --force`"

    def _not_ready(self, name: str) -> str | None:
        """Why a node is not Ready. None: it is Ready, or its state cannot be read."""
        asked, reason = self._nodes.get(name, (None, None))
        if asked is None or time.monotonic() - asked >= _REQUEST_INTERVAL_SECONDS:
            try:
                node = self._api.find(f"/api/v1/nodes/{name}")
                reason = node_facts(node).not_ready if node else "it is no longer in the cluster"
            except (ClusterUnreachable, KeyError):
                reason = None
            self._nodes[name] = time.monotonic(), reason
        return reason
