"""Waits until all staging Jobs have succeeded, or fails early with the reason.

Pulumi's own await for a Job does not detect why a pod fails to start, or that a pod failure policy ended the Job: it
waits until its timeout, which allows for the whole download. This wait reads the pods, as the wait for a server does.
Read-only: on failure the Jobs are left in place, and the next `pulumi up` replaces them.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pulumi

from components.cluster.api import ClusterUnreachable
from components.rollout import late_credentials
from components.rollout.late_credentials import LateCredentials
from components.rollout.obstacles import GiveUpAfter, Obstacle
from components.rollout.pod_report import PodReport
from components.rollout.stage_progress import MEND, TOO_SLOW, StageProgress, Staging, given_up

_SAID_BY_THE_POD = ("PodFailurePolicy", "BackoffLimitExceeded")
"""Job failure reasons that add nothing to the failures of the pods."""

Say = Callable[[str, bool], None]
"""Takes a message, and whether it is ephemeral."""


async def wait_until_staged(
    staging: Staging, names: Sequence[str], say: Say, give_up_after: GiveUpAfter | None = None
) -> None:
    """Waits until all Jobs have succeeded, and passes progress messages to `say`.

    A deleted Job is not a failure: the weights can still exist, and the server verifies them before it starts.
    Raises pulumi.RunError with the reason if a Job has failed, or cannot start or finish.
    """
    watch = _Watch(staging, names, give_up_after or GiveUpAfter())
    while not await asyncio.to_thread(watch.poll):
        if news := watch.news():
            say(*news)
        await asyncio.sleep(watch.give_up_after.poll_seconds)
    if watch.gone:
        pulumi.warn(_gone(watch.gone))
    if watch.strays:
        pulumi.warn(_stray(watch.strays, staging.namespace))
    if words := watch.result():
        say(words, False)


async def warn_if_gone(staging: Staging, names: Sequence[str]) -> None:
    """Warns in a preview about deleted Jobs, which Pulumi does not show as a change."""
    with suppress(ClusterUnreachable):
        if missing := sorted(set(names) - set(await asyncio.to_thread(_jobs, staging))):
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


def _jobs(staging: Staging) -> dict[str, dict[str, Any]]:
    path = f"/apis/batch/v1/namespaces/{staging.namespace}/jobs"
    return {job["metadata"]["name"]: job for job in staging.api.read(path, labelSelector=staging.selector)["items"]}


class _Watch:
    """What earlier polls of the Jobs have found."""

    def __init__(self, staging: Staging, names: Sequence[str], give_up_after: GiveUpAfter) -> None:
        self.staging, self.names, self.give_up_after = staging, names, give_up_after
        self._progress = StageProgress(staging, f"{len(names)} volumes", give_up_after)
        self._credentials = LateCredentials(give_up_after.obstacle)
        self._pods: Sequence[PodReport] = ()
        self._done: set[str] = set()
        self.gone: list[str] = []
        self.strays: list[str] = []
        """Unfinished Jobs of the stack other than those to wait for."""

    def poll(self) -> bool:
        """Reads Jobs and pods once. Returns whether all Jobs have succeeded; raises pulumi.RunError if one cannot."""
        now = time.monotonic()
        try:
            jobs, pods = _jobs(self.staging), self._progress.read_pods()
        except ClusterUnreachable as reason:
            self._progress.require_answer(reason)
            return False
        self.strays = sorted(name for name, job in jobs.items() if name not in self.names and not _has_ended(job))
        self.gone += [name for name in self.names if name not in jobs and name not in self._done]
        self._done |= {name for name in self.names if name not in jobs or _condition(jobs[name], "Complete")}
        waited_for = [jobs[name] for name in self.names if name not in self._done]
        names = {job["metadata"]["name"] for job in waited_for}
        self._pods = [pod for pod in pods if pod.group_index[0] in names]
        self._credentials.new(self._pods, now)
        failures = self._progress.failures
        failures.count_failures(self._pods, datetime.max.replace(tzinfo=UTC))
        failures.note_obstacles(dict(self._obstacles(waited_for)), now)
        self._judge(waited_for, now)
        self._progress.read_logs(self._pods)
        return not waited_for

    def news(self) -> tuple[str, bool] | None:
        """A message, and whether only log lines changed. None: unchanged, or the last message is too recent."""
        return self._progress.news(len(self._done), self._waiting)

    def result(self) -> str | None:
        """The result, after the wait. None: all was staged at the first poll."""
        return self._progress.result(len(self._done))

    @property
    def _waiting(self) -> list[PodReport]:
        return [pod for pod in self._pods if not pod.finished and pod.group_index[0] not in self._done]

    def _obstacles(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Obstacle]]:
        yield from self._progress.obstacles.of(self._pods)
        for job in jobs:
            name, spec = job["metadata"]["name"], job["spec"]
            if spec.get("suspend"):
                words = (_condition(job, "Suspended") or {}).get("message") or "no reason given"
                queue = job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name", "")
                by = f", in the queue {queue}" if queue else ""
                yield name, Obstacle(f"Job {name} is suspended{by}: {words}", self.give_up_after.obstacle)
            elif not any(pod.group_index[0] == name for pod in self._pods):
                made = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
                if warning := self._progress.obstacles.warnings.of_making(name, made):
                    yield (
                        name,
                        Obstacle(f"the pod of Job {name} cannot be made: {warning}", self.give_up_after.obstacle),
                    )

    def _judge(self, jobs: Sequence[Mapping[str, Any]], now: float) -> None:
        failures = self._progress.failures
        failed = {job["metadata"]["name"]: condition for job in jobs if (condition := _condition(job, "Failed"))}
        if failed:
            too_slow = any(condition.get("reason") == "DeadlineExceeded" for condition in failed.values())
            raise given_up([*failures.failures(), *self._of_jobs(failed)], TOO_SLOW if too_slow else MEND)
        if self._credentials.given_up:
            raise given_up(failures.failures(), late_credentials.ADVICE)
        reasons = failures.stuck(now)
        if not reasons and now - self._progress.began >= self.staging.seconds:
            doing = self._progress.doing(len(self._done), self._waiting)
            reasons = [f"not done in {self.staging.seconds} s", doing, *failures.failures()]
        if reasons:
            raise given_up(reasons, MEND)

    def _of_jobs(self, failed: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        for name, condition in failed.items():
            reason = condition.get("reason", "Failed")
            if reason not in _SAID_BY_THE_POD or not self._progress.failures.failures():
                last = self._progress.last_line(name)
                yield f"Job {name}: {reason}: {condition.get('message', '')}" + (f" (at {last})" if last else "")


def _has_ended(job: Mapping[str, Any]) -> bool:
    """Whether the Job is done, failed or being deleted."""
    return bool(job["metadata"].get("deletionTimestamp") or _condition(job, "Complete") or _condition(job, "Failed"))


def _condition(job: Mapping[str, Any], kind: str) -> dict[str, str] | None:
    """The condition of that type, if its status is True."""
    conditions: Sequence[dict[str, str]] = job.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)
