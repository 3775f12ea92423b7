"""Waits until all staging Jobs have succeeded, or fails early with the reason.

Pulumi's own await for a Job does not detect why a pod fails to start, or that a pod failure policy ended the Job: it
waits until its timeout, which allows for the whole download. This wait reads the pods, as the wait for a server does.
Read-only: on failure the Jobs are left in place, and the next `pulumi up` replaces them.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pulumi

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.rollout.obstacles import GiveUpAfter, Obstacle, Obstacles
from components.rollout.pod_report import PodReport, report
from components.rollout.start_failures import StartFailures

_MAX_NAMED = 4
"""Pods that a progress message names. If there are more, it counts them."""

_LOG_INTERVAL_SECONDS = 10.0
"""The stager logs its progress this often."""

_SAID_BY_THE_POD = ("PodFailurePolicy", "BackoffLimitExceeded")
"""Job failure reasons that add nothing to the failures of the pods."""

_MEND = "To do: mend that, and run `pulumi up` again; it goes on where it stopped."
_TOO_SLOW = (
    "To do: state the bandwidth that there is in heavylift:stage.bandwidth, from which the deadline follows, and run "
    "`pulumi up` again; it goes on where it stopped."
)

Say = Callable[[str, bool], None]
"""Takes a message, and whether it is ephemeral."""


@dataclass(frozen=True)
class StageJobs:
    """The Jobs to wait for."""

    api: ClusterApi
    namespace: str
    labels: Mapping[str, str]
    """Labels that select Jobs and pods."""
    seconds: int
    """Fail after this long; longer than the Jobs' own deadline."""


async def wait_until_staged(
    stage: StageJobs, names: Sequence[str], say: Say, give_up_after: GiveUpAfter | None = None
) -> None:
    """Waits until all Jobs have succeeded, and passes progress messages to `say`.

    A deleted Job is not a failure: the weights can still exist, and the server verifies them before it starts.
    Raises pulumi.RunError with the reason if a Job has failed, or cannot start or finish.
    """
    watch = _Watch(stage, names, give_up_after or GiveUpAfter())
    while not await asyncio.to_thread(watch.poll):
        if news := watch.progress_message():
            say(*news)
        await asyncio.sleep(watch.give_up_after.poll_seconds)
    if watch.gone:
        pulumi.warn(_gone(watch.gone))
    if watch.strays:
        pulumi.warn(_stray(watch.strays, stage.namespace))
    if words := watch.final_message():
        say(words, False)


async def warn_if_gone(stage: StageJobs, names: Sequence[str]) -> None:
    """Warns in a preview about deleted Jobs, which Pulumi does not show as a change."""
    with suppress(ClusterUnreachable):
        if missing := sorted(set(names) - set(await asyncio.to_thread(_jobs, stage))):
            pulumi.warn(_gone(missing))


def _gone(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names)}: the Job is gone from the cluster, so whether its weights are there is not known; the "
        "server looks at them before it starts. `pulumi up --refresh` stages them anew, and fetches what is missing"
    )


def _stray(names: Sequence[str], namespace: str) -> str:
    return (
        f"{', '.join(names)}: a Job of this stack that ran beside the others: an interrupted update left it, or "
        f"this one replaces it. If it is still there after this update: `kubectl delete job -n {namespace} "
        f"{' '.join(names)}`"
    )


def _jobs(stage: StageJobs) -> dict[str, dict[str, Any]]:
    selector = ",".join(f"{name}={value}" for name, value in stage.labels.items())
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    return {job["metadata"]["name"]: job for job in stage.api.read(path, labelSelector=selector)["items"]}


class _Watch:
    """What earlier polls of the Jobs have found."""

    def __init__(self, stage: StageJobs, names: Sequence[str], give_up_after: GiveUpAfter) -> None:
        self.stage, self.names, self.give_up_after = stage, names, give_up_after
        self._obstacle_finder = Obstacles(stage.api, stage.namespace, give_up_after)
        self._failures = StartFailures()
        self._pods: Sequence[PodReport] = ()
        self._done: set[str] = set()
        self.gone: list[str] = []
        self.strays: list[str] = []
        """Unfinished Jobs of the stack other than those to wait for."""
        self._began = self._answered = time.monotonic()
        self._told, self._told_at, self._stages = "", 0.0, ""
        self._progress: dict[str, str] = {}
        self._read_at = 0.0

    def poll(self) -> bool:
        """Reads Jobs and pods once. Returns whether all Jobs have succeeded; raises pulumi.RunError if one cannot."""
        now = time.monotonic()
        try:
            jobs, pods = _jobs(self.stage), self._read_pods()
        except ClusterUnreachable as reason:
            self._check_reachable(reason, now)
            return False
        self._answered = now
        self.strays = sorted(name for name, job in jobs.items() if name not in self.names and not _has_ended(job))
        self.gone += [name for name in self.names if name not in jobs and name not in self._done]
        self._done |= {name for name in self.names if name not in jobs or _condition(jobs[name], "Complete")}
        waited_for = [jobs[name] for name in self.names if name not in self._done]
        names = {job["metadata"]["name"] for job in waited_for}
        self._pods = [pod for pod in pods if pod.group_index[0] in names]
        self._failures.count_failures(self._pods, datetime.max.replace(tzinfo=UTC))
        self._failures.note_obstacles(dict(self._obstacles(waited_for)), now)
        self._judge(waited_for, now)
        self._read_progress(now)
        return not waited_for

    def progress_message(self) -> tuple[str, bool] | None:
        """A message, and whether only the progress changed. None: unchanged, or the last message is too recent."""
        now = time.monotonic()
        stages, words = self._doing({}), self._doing(self._progress)
        if words == self._told or (self._told and now - self._told_at < self.give_up_after.report_seconds):
            return None
        only_progress = stages == self._stages
        self._told, self._told_at, self._stages = words, now, stages
        return words, only_progress

    def final_message(self) -> str | None:
        """The result, after the wait. None: all was staged at the first poll."""
        return self._doing({}) if self._told else None

    def _read_pods(self) -> list[PodReport]:
        selector = ",".join(f"{name}={value}" for name, value in self.stage.labels.items())
        path = f"/api/v1/namespaces/{self.stage.namespace}/pods"
        return [report(pod) for pod in self.stage.api.read(path, labelSelector=selector)["items"]]

    def _check_reachable(self, reason: ClusterUnreachable, now: float) -> None:
        silent = now - self._answered
        if silent >= self.give_up_after.unreachable:
            raise pulumi.RunError(
                "whether the weights are staged is not known: the cluster has not answered for "
                f"{silent:.0f} s ({reason})"
            )

    def _obstacles(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Obstacle]]:
        yield from self._obstacle_finder.of(self._pods)
        for job in jobs:
            name, spec = job["metadata"]["name"], job["spec"]
            if spec.get("suspend"):
                words = (_condition(job, "Suspended") or {}).get("message") or "no reason given"
                queue = job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name", "")
                by = f", in the queue {queue}" if queue else ""
                yield name, Obstacle(f"Job {name} is suspended{by}: {words}", self.give_up_after.obstacle)
            elif not any(pod.group_index[0] == name for pod in self._pods):
                made = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
                if warning := self._obstacle_finder.warnings.of_making(name, made):
                    yield (
                        name,
                        Obstacle(f"the pod of Job {name} cannot be made: {warning}", self.give_up_after.obstacle),
                    )

    def _judge(self, jobs: Sequence[Mapping[str, Any]], now: float) -> None:
        failed = {job["metadata"]["name"]: condition for job in jobs if (condition := _condition(job, "Failed"))}
        if failed:
            too_slow = any(condition.get("reason") == "DeadlineExceeded" for condition in failed.values())
            raise _given_up([*self._failures.failures(), *self._of_jobs(failed)], _TOO_SLOW if too_slow else _MEND)
        reasons = self._failures.stuck(now)
        if not reasons and now - self._began >= self.stage.seconds:
            reasons = [f"not done in {self.stage.seconds} s", self._doing(self._progress), *self._failures.failures()]
        if reasons:
            raise _given_up(reasons, _MEND)

    def _of_jobs(self, failed: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        for name, condition in failed.items():
            reason = condition.get("reason", "Failed")
            if reason not in _SAID_BY_THE_POD or not self._failures.failures():
                last = self._progress.get(name)
                yield f"Job {name}: {reason}: {condition.get('message', '')}" + (f" (at {last})" if last else "")

    def _read_progress(self, now: float) -> None:
        """Reads the last log line of each staging pod, unless there are too many."""
        staging = [pod for pod in self._pods if pod.doing == "staging" and not pod.terminating]
        if len(staging) > _MAX_NAMED or now - self._read_at < _LOG_INTERVAL_SECONDS:
            return
        self._read_at = now
        for pod in staging:
            path = f"/api/v1/namespaces/{self.stage.namespace}/pods/{pod.name}/log"
            with suppress(ClusterUnreachable):
                words = self.stage.api.read_text(path, container="stage", tailLines="1").strip()
                self._progress[pod.group_index[0]] = words.partition("Z ")[2] or words

    def _doing(self, progress: Mapping[str, str]) -> str:
        """One line: "1 of 2 volumes staged; h100-0 (pod stage-0): staging"."""
        waiting = [pod for pod in self._pods if not pod.finished and pod.group_index[0] not in self._done]
        said = [f"{len(self._done)} of {len(self.names)} volumes staged"]
        if len(waiting) <= _MAX_NAMED:
            for pod in waiting:
                how_far = progress.get(pod.group_index[0]) if pod.doing == "staging" else None
                said.append(f"{pod.where}: {pod.doing}" + (f", {how_far}" if how_far else ""))
        else:
            said.append(f"{len(waiting)} more are being staged")
        return "; ".join([*said, *self._failures.obstacles[:_MAX_NAMED]])


def _has_ended(job: Mapping[str, Any]) -> bool:
    """Whether the Job is done, failed or being deleted."""
    return bool(job["metadata"].get("deletionTimestamp") or _condition(job, "Complete") or _condition(job, "Failed"))


def _condition(job: Mapping[str, Any], kind: str) -> dict[str, str] | None:
    """The condition of that type, if its status is True."""
    conditions: Sequence[dict[str, str]] = job.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def _given_up(reasons: Sequence[str], advice: str) -> pulumi.RunError:
    return pulumi.RunError("\n  ".join(["the weights cannot be staged:", *reasons, advice]))
