"""The wait for the Jobs that stage weights: until all have succeeded, or it is plain that one will not.

Pulumi's own wait for a Job sees neither why its pod does not start nor that a rule of the Job ended it: it would go on
until its time-out, which is meant for the whole download. This one looks at the pods, as the wait for a server does. It
only looks; what it gives up stays, and the next `pulumi up` replaces it.
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
from components.rollout.obstacles import Obstacle, Obstacles, Patience
from components.rollout.pod_report import PodReport, report
from components.rollout.start_failures import StartFailures

_MOST_NAMED = 4
"""More pods are counted, not named, where it is said what they do."""

_SECONDS_BETWEEN_LOGS = 10.0
"""As often as the stager says how far it is."""

_SAID_BY_THE_POD = ("PodFailurePolicy", "BackoffLimitExceeded")
"""Reasons of a failed Job that say no more than that its pods failed."""

_MEND = "To do: mend that, and run `pulumi up` again; it goes on where it stopped."
_TOO_SLOW = (
    "To do: state the bandwidth that there is in heavylift:stage.bandwidth, from which the deadline follows, and run "
    "`pulumi up` again; it goes on where it stopped."
)

Say = Callable[[str, bool], None]
"""Takes a line, and whether it will be out of date in a moment."""


@dataclass(frozen=True)
class StageJobs:
    """What is waited for."""

    api: ClusterApi
    namespace: str
    labels: Mapping[str, str]
    """Labels by which Jobs and pods are found."""
    seconds: int
    """All is given up after this long; longer than the Jobs' own deadline."""


async def until_staged(stage: StageJobs, names: Sequence[str], say: Say, patience: Patience | None = None) -> None:
    """Returns when all the Jobs have succeeded; tells `say` what their pods go through.

    A Job that is gone is no fault: the weights may be there, and the server looks at them before it starts.
    Raises pulumi.RunError with the reason when one has failed, or cannot start or end.
    """
    watch = _Watch(stage, names, patience or Patience())
    while not await asyncio.to_thread(watch.look):
        if news := watch.news():
            say(*news)
        await asyncio.sleep(watch.patience.between_looks)
    if watch.gone:
        pulumi.warn(_gone(watch.gone))
    if words := watch.last_words():
        say(words, False)


async def warn_if_gone(stage: StageJobs, names: Sequence[str]) -> None:
    """Warns of Jobs that are not there, as a preview should that Pulumi shows no change for."""
    with suppress(ClusterUnreachable):
        if missing := sorted(set(names) - set(await asyncio.to_thread(_jobs, stage))):
            pulumi.warn(_gone(missing))


def _gone(names: Sequence[str]) -> str:
    return (
        f"{', '.join(names)}: the Job is gone from the cluster, so whether its weights are there is not known; the "
        "server looks at them before it starts. `pulumi up --refresh` stages them anew, and fetches what is missing"
    )


def _jobs(stage: StageJobs) -> dict[str, dict[str, Any]]:
    selector = ",".join(f"{name}={value}" for name, value in stage.labels.items())
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    return {job["metadata"]["name"]: job for job in stage.api.read(path, labelSelector=selector)["items"]}


class _Watch:
    """What was seen of the Jobs so far."""

    def __init__(self, stage: StageJobs, names: Sequence[str], patience: Patience) -> None:
        self.stage, self.names, self.patience = stage, names, patience
        self._in_the_way = Obstacles(stage.api, stage.namespace, patience)
        self._failures = StartFailures()
        self._pods: Sequence[PodReport] = ()
        self._done: set[str] = set()
        self.gone: list[str] = []
        self._began = self._answered = time.monotonic()
        self._told, self._told_at, self._stages = "", 0.0, ""
        self._progress: dict[str, str] = {}
        self._read_at = 0.0

    def look(self) -> bool:
        """Looks once; True: all have succeeded. Raises pulumi.RunError when one will not."""
        now = time.monotonic()
        try:
            jobs, pods = _jobs(self.stage), self._read_pods()
        except ClusterUnreachable as reason:
            self._bear(reason, now)
            return False
        self._answered = now
        self.gone += [name for name in self.names if name not in jobs and name not in self._done]
        self._done |= {name for name in self.names if name not in jobs or _condition(jobs[name], "Complete")}
        waited_for = [jobs[name] for name in self.names if name not in self._done]
        names = {job["metadata"]["name"] for job in waited_for}
        self._pods = [pod for pod in pods if pod.place[0] in names]
        self._failures.note_endings(self._pods, datetime.max.replace(tzinfo=UTC))
        self._failures.note_obstacles(dict(self._obstacles(waited_for)), now)
        self._judge(waited_for, now)
        self._read_progress(now)
        return not waited_for

    def news(self) -> tuple[str, bool] | None:
        """What the pods go through, and whether only the progress is new; None: it was said, or a moment ago."""
        now = time.monotonic()
        stages, words = self._doing({}), self._doing(self._progress)
        if words == self._told or (self._told and now - self._told_at < self.patience.between_words):
            return None
        only_progress = stages == self._stages
        self._told, self._told_at, self._stages = words, now, stages
        return words, only_progress

    def last_words(self) -> str | None:
        """That all is staged; None: it was from the first look on."""
        return self._doing({}) if self._told else None

    def _read_pods(self) -> list[PodReport]:
        selector = ",".join(f"{name}={value}" for name, value in self.stage.labels.items())
        path = f"/api/v1/namespaces/{self.stage.namespace}/pods"
        return [report(pod) for pod in self.stage.api.read(path, labelSelector=selector)["items"]]

    def _bear(self, reason: ClusterUnreachable, now: float) -> None:
        silent = now - self._answered
        if silent >= self.patience.unheard_of:
            raise pulumi.RunError(
                "whether the weights are staged is not known: the cluster has not answered for "
                f"{silent:.0f} s ({reason})"
            )

    def _obstacles(self, jobs: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Obstacle]]:
        yield from self._in_the_way.of(self._pods)
        for job in jobs:
            name, spec = job["metadata"]["name"], job["spec"]
            if spec.get("suspend"):
                words = (_condition(job, "Suspended") or {}).get("message") or "no reason given"
                queue = job["metadata"].get("labels", {}).get("kueue.x-k8s.io/queue-name", "")
                by = f", in the queue {queue}" if queue else ""
                yield name, Obstacle(f"Job {name} is suspended{by}: {words}", self.patience.obstacle)
            elif not any(pod.place[0] == name for pod in self._pods):
                made = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
                if warning := self._in_the_way.warnings.of_making(name, made):
                    yield name, Obstacle(f"the pod of Job {name} cannot be made: {warning}", self.patience.obstacle)

    def _judge(self, jobs: Sequence[Mapping[str, Any]], now: float) -> None:
        failed = {job["metadata"]["name"]: condition for job in jobs if (condition := _condition(job, "Failed"))}
        if failed:
            too_slow = any(condition.get("reason") == "DeadlineExceeded" for condition in failed.values())
            raise _given_up([*self._failures.endings(), *self._of_jobs(failed)], _TOO_SLOW if too_slow else _MEND)
        reasons = self._failures.stuck(now)
        if not reasons and now - self._began >= self.stage.seconds:
            reasons = [f"not done in {self.stage.seconds} s", self._doing(self._progress), *self._failures.endings()]
        if reasons:
            raise _given_up(reasons, _MEND)

    def _of_jobs(self, failed: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
        for name, condition in failed.items():
            reason = condition.get("reason", "Failed")
            if reason not in _SAID_BY_THE_POD or not self._failures.endings():
                last = self._progress.get(name)
                yield f"Job {name}: {reason}: {condition.get('message', '')}" + (f" (at {last})" if last else "")

    def _read_progress(self, now: float) -> None:
        """Asks the few pods that stage how far they are, by the last line of their log."""
        staging = [pod for pod in self._pods if pod.doing == "staging" and not pod.leaving]
        if len(staging) > _MOST_NAMED or now - self._read_at < _SECONDS_BETWEEN_LOGS:
            return
        self._read_at = now
        for pod in staging:
            path = f"/api/v1/namespaces/{self.stage.namespace}/pods/{pod.name}/log"
            with suppress(ClusterUnreachable):
                words = self.stage.api.read_text(path, container="stage", tailLines="1").strip()
                self._progress[pod.place[0]] = words.partition("Z ")[2] or words

    def _doing(self, progress: Mapping[str, str]) -> str:
        """One line: "1 of 2 volumes staged; h100-0 (pod stage-0): staging"."""
        waiting = [pod for pod in self._pods if not pod.over and pod.place[0] not in self._done]
        said = [f"{len(self._done)} of {len(self.names)} volumes staged"]
        if len(waiting) <= _MOST_NAMED:
            for pod in waiting:
                how_far = progress.get(pod.place[0]) if pod.doing == "staging" else None
                said.append(f"{pod.where}: {pod.doing}" + (f", {how_far}" if how_far else ""))
        else:
            said.append(f"{len(waiting)} more are being staged")
        return "; ".join([*said, *self._failures.obstacles[:_MOST_NAMED]])


def _condition(job: Mapping[str, Any], kind: str) -> dict[str, str] | None:
    """The condition of a Job, where it is met."""
    conditions: Sequence[dict[str, str]] = job.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind and each["status"] == "True"), None)


def _given_up(reasons: Sequence[str], advice: str) -> pulumi.RunError:
    return pulumi.RunError("\n  ".join(["the weights cannot be staged:", *reasons, advice]))
