"""Waits until a DaemonSet has staged the weights on as many nodes as the stack counts, or fails early with the reason.

Pulumi's own await takes a DaemonSet without nodes for ready, and waits until its timeout if a pod cannot succeed. This
wait fails as early as the wait for a Job. The kubelet starts the containers of a failed pod again after ever longer
pauses. So the wait deletes the pods that failed before it began, whose cause may be corrected since, and the DaemonSet
makes new ones at once. The same helps pods that started without the credentials of a cloud.
"""

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

import pulumi

from components.cluster.api import ClusterUnreachable
from components.pods.jobs.stager_job import FINAL_STATUSES
from components.rollout import late_credentials
from components.rollout.late_credentials import LateCredentials
from components.rollout.obstacles import GiveUpAfter, Obstacle
from components.rollout.pod_report import PodReport
from components.rollout.stage_progress import MEND, TOO_SLOW, StageProgress, Staging, given_up
from components.rollout.stage_watch import Say

_FINAL = {str(status) for status in FINAL_STATUSES}


async def wait_until_staged(
    staging: Staging, name: str, nodes: int, say: Say, give_up_after: GiveUpAfter | None = None
) -> None:
    """Waits until `nodes` nodes have staged, and passes progress messages to `say`.

    Raises pulumi.RunError with the reason if a node cannot stage, if nodes are missing, or if the DaemonSet is gone.
    """
    watch = _Watch(staging, name, nodes, give_up_after or GiveUpAfter())
    while not await asyncio.to_thread(watch.poll):
        if news := watch.news():
            say(*news)
        await asyncio.sleep(watch.give_up_after.poll_seconds)
    if words := watch.result():
        say(words, False)


async def warn_if_gone(staging: Staging, name: str) -> None:
    """Warns in a preview about a deleted DaemonSet, which Pulumi does not show as a change."""
    with suppress(ClusterUnreachable):
        if await asyncio.to_thread(_find, staging, name) is None:
            pulumi.warn(_gone(staging, name))


def _find(staging: Staging, name: str) -> dict[str, Any] | None:
    return staging.api.find(f"/apis/apps/v1/namespaces/{staging.namespace}/daemonsets/{name}")


def _gone(staging: Staging, name: str) -> str:
    return (
        f"DaemonSet {name} is no longer in namespace {staging.namespace}, and Pulumi's state does not show it: no node "
        "that joins would be staged. To do: `pulumi up --refresh`, which brings it back"
    )


class _Watch:
    """What earlier polls of the DaemonSet have found."""

    def __init__(self, staging: Staging, name: str, nodes: int, give_up_after: GiveUpAfter) -> None:
        self.staging, self.name, self.nodes, self.give_up_after = staging, name, nodes, give_up_after
        self._progress = StageProgress(staging, f"{nodes} nodes", give_up_after)
        self._credentials = LateCredentials(give_up_after.obstacle)
        self._pods: Sequence[PodReport] = ()
        self._began: datetime | None = None
        self._deleted: dict[str, str] = {}
        """UIDs of the pods that the wait deleted, with the cluster's refusal, if any."""

    def poll(self) -> bool:
        """Reads DaemonSet and pods once. Returns whether all is staged; raises pulumi.RunError if it cannot be."""
        now = time.monotonic()
        try:
            found, pods = _find(self.staging, self.name), self._progress.read_pods()
        except ClusterUnreachable as reason:
            self._progress.require_answer(reason)
            return False
        if found is None:
            raise pulumi.RunError(_gone(self.staging, self.name))
        self._pods = [replace(pod, group_index=(self.name, pod.node or pod.name)) for pod in pods]
        if self._is_staged(found["status"], _is_observed(found)):
            return True
        self._replace_pods(self._credentials.new(self._pods, now))
        if self._began is None:
            self._began = self.staging.api.answered_at
            self._replace_pods([pod for pod in self._pods if any(failure.stopped for failure in pod.failures)])
        failures = self._progress.failures
        failures.count_failures([pod for pod in self._pods if pod.uid not in self._deleted], self._began)
        failures.note_obstacles(dict(self._obstacles(found)), now)
        self._judge(self._began, now)
        self._progress.read_logs(self._pods)
        return False

    def news(self) -> tuple[str, bool] | None:
        """A message, and whether only log lines changed. None: unchanged, or the last message is too recent."""
        return self._progress.news(self._ready, self._waiting)

    def result(self) -> str | None:
        """The result, after the wait. None: all was staged at the first poll."""
        return self._progress.result(self._ready)

    @property
    def _ready(self) -> int:
        return sum(pod.ready and not pod.terminating for pod in self._pods)

    @property
    def _waiting(self) -> list[PodReport]:
        return [pod for pod in self._pods if not (pod.ready or pod.finished or pod.terminating)]

    def _is_staged(self, status: Mapping[str, Any], is_observed: bool) -> bool:
        """Whether enough pods are ready, and none is of an earlier template."""
        is_updated: bool = status.get("updatedNumberScheduled", 0) == status.get("desiredNumberScheduled", 0)
        return is_observed and is_updated and self._ready >= self.nodes

    def _replace_pods(self, pods: Sequence[PodReport]) -> None:
        for pod in pods:
            if pod.terminating or pod.uid in self._deleted:
                continue
            self._deleted[pod.uid] = ""
            try:
                self.staging.api.delete(f"/api/v1/namespaces/{self.staging.namespace}/pods/{pod.name}")
            except ClusterUnreachable as reason:
                self._deleted[pod.uid] = str(reason)

    def _obstacles(self, found: Mapping[str, Any]) -> Iterator[tuple[str, Obstacle]]:
        yield from self._progress.obstacles.of([pod for pod in self._pods if pod.uid not in self._deleted])
        for pod in self._pods:
            if refusal := self._deleted.get(pod.uid):
                words = f"{pod.where} failed before, and could not be deleted to try again at once ({refusal})"
                yield pod.uid, Obstacle(words, self.give_up_after.slow_start)
        if not _is_observed(found):
            return
        wanted, current = (found["status"].get(f"{which}NumberScheduled", 0) for which in ("desired", "current"))
        if wanted < self.nodes:
            yield "", Obstacle(self._missing(found, wanted), self.give_up_after.missing_node)
        made = datetime.fromisoformat(found["metadata"]["creationTimestamp"])
        if current < wanted and (warning := self._progress.obstacles.warnings.of_making(self.name, made)):
            words = f"{wanted - current} pods of DaemonSet {self.name} cannot be made: {warning}"
            yield self.name, Obstacle(words, self.give_up_after.obstacle)

    def _missing(self, found: Mapping[str, Any], there: int) -> str:
        selector = found["spec"]["template"]["spec"].get("nodeSelector") or {}
        labels = ", ".join(f"{name}={value}" for name, value in sorted(selector.items())) or "any"
        return (
            f"the cluster has {there} of {self.nodes} nodes with the labels of the group ({labels}) and no other "
            "taints than the stack lists"
        )

    def _judge(self, began: datetime, now: float) -> None:
        failures = self._progress.failures
        if self._credentials.given_up:
            raise given_up(failures.failures() or ["the stager's pods get no credentials"], late_credentials.ADVICE)
        if self._is_refused(began):
            raise given_up(failures.failures(), MEND)
        if reasons := failures.given_up(now):
            raise given_up(reasons, MEND)
        if now - self._progress.began >= self.staging.seconds:
            doing = self._progress.doing(self._ready, self._waiting)
            reasons = [f"not done in {self.staging.seconds} s", doing, *failures.failures()]
            raise given_up(reasons, TOO_SLOW if any(pod.doing == "staging" for pod in self._waiting) else MEND)

    def _is_refused(self, began: datetime) -> bool:
        """Whether the stager ended in a way that another attempt would repeat."""
        return any(
            failure.container == "stage" and failure.status in _FINAL and failure.started > began
            for pod in self._pods
            for failure in pod.failures
        )


def _is_observed(found: Mapping[str, Any]) -> bool:
    """Whether the status is of the present spec."""
    return bool(found["status"].get("observedGeneration", 0) >= found["metadata"]["generation"])
