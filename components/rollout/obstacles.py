"""What keeps the pod of a server or of a Job from starting or from ending, and how long it is borne."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.cluster.facts import node_facts
from components.cluster.warnings import ClusterWarnings
from components.rollout.pod_report import PodReport

_SECONDS_BETWEEN_QUESTIONS = 10.0
_OVERDUE = timedelta(seconds=30)


@dataclass(frozen=True)
class Patience:
    """How long what is borne, in seconds."""

    between_looks: float = 1.0
    between_words: float = 5.0
    obstacle: float = 60.0
    """A pod that no node takes, an image that cannot be pulled, a node that is not Ready, pods that are refused."""
    slow_start: float = 300.0
    """A pod of whose start the cluster warns, such as one whose volume or network is not there yet."""
    new_volume: float = 600.0
    """A pod whose claim has no volume yet: file storage of a cloud takes minutes to make."""
    unheard_of: float = 180.0
    """A cluster that does not answer."""


@dataclass(frozen=True)
class Obstacle:
    """What is in a pod's way."""

    text: str
    patience: float
    """Seconds after which the wait is given up for it."""


class Obstacles:
    """Finds what is in the way of the pods of one namespace; asks for nodes and warnings no more often than it must."""

    def __init__(self, api: ClusterApi, namespace: str, patience: Patience) -> None:
        self._api, self._namespace, self._patience = api, namespace, patience
        self._nodes: dict[str, tuple[float, str | None]] = {}
        self.warnings = ClusterWarnings(api, namespace)

    def of(self, pods: Sequence[PodReport]) -> Iterator[tuple[str, Obstacle]]:
        """What is in the way of each pod that is not ready, or is told to end, by its identity."""
        for pod in pods:
            if (pod.leaving or not (pod.ready or pod.over)) and (obstacle := self._of_pod(pod)):
                yield pod.uid, Obstacle(f"{pod.where}: {obstacle.text}", obstacle.patience)

    def _of_pod(self, pod: PodReport) -> Obstacle | None:
        patience = self._patience
        if pod.leaves_at:
            overdue = self._api.answered_at - pod.leaves_at > _OVERDUE
            words = f"was told to end, and has not: {self._how_to_end(pod)}"
            return Obstacle(words, patience.slow_start) if overdue else None
        if pod.node and (reason := self._not_ready(pod.node)):
            return Obstacle(f"its node is not Ready ({reason})", patience.obstacle)
        if pod.obstacle:
            waits_for_volume = "PersistentVolumeClaim" in pod.obstacle
            return Obstacle(pod.obstacle, patience.new_volume if waits_for_volume else patience.obstacle)
        if pod.lingering:
            others = ", ".join(pod.lingering)
            return Obstacle(
                f"its work has ended, and the pod goes on because of what the cluster added to it ({others}): keep the "
                f"namespace out of that injection, or let it run as a sidecar (an init container that always restarts)",
                patience.obstacle,
            )
        warning = self.warnings.of_pod(pod.uid) if pod.doing in ("starting", "waiting for a node") else None
        if not warning and pod.node is None:
            warning = next(filter(None, map(self.warnings.of_claim, pod.claims)), None)
        return Obstacle(warning, patience.slow_start) if warning else None

    def _how_to_end(self, pod: PodReport) -> str:
        return f"where its node is gone for good, `kubectl delete pod -n {self._namespace} {pod.name} --force`"

    def _not_ready(self, name: str) -> str | None:
        """Why a node is not Ready; None: it is, or nobody says."""
        asked, reason = self._nodes.get(name, (None, None))
        if asked is None or time.monotonic() - asked >= _SECONDS_BETWEEN_QUESTIONS:
            try:
                node = self._api.find(f"/api/v1/nodes/{name}")
                reason = node_facts(node).not_ready if node else "it is no longer in the cluster"
            except (ClusterUnreachable, KeyError):
                reason = None
            self._nodes[name] = time.monotonic(), reason
        return reason
