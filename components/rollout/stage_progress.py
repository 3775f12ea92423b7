"""The pods that stage weights over successive polls: what they do, how far they are, and why they fail.

`stage_watch` and `daemon_set_watch` decide what that means for a Job and for a DaemonSet.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pulumi

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.pods.labels import selector
from components.rollout.obstacles import GiveUpAfter, Obstacles
from components.rollout.pod_report import PodReport, report
from components.rollout.start_failures import StartFailures

MAX_NAMED = 4
"""Pods that a progress message names. If there are more, it counts them."""

_LOG_INTERVAL_SECONDS = 10.0
"""The stager logs its progress this often."""

MEND = "To do: mend that, and run `pulumi up` again; it goes on where it stopped."
TOO_SLOW = (
    "To do: state the bandwidth that there is in heavylift:stage.bandwidth, from which the deadline follows, and run "
    "`pulumi up` again; it goes on where it stopped."
)


@dataclass(frozen=True)
class Staging:
    """The stage of one component."""

    api: ClusterApi
    namespace: str
    labels: Mapping[str, str]
    """Labels that select its pods, and its Jobs."""
    seconds: int
    """Fail after this long; longer than a Job's own deadline."""

    @property
    def selector(self) -> str:
        """The labels, as a label selector."""
        return selector(self.labels)


class StageProgress:
    """What earlier polls of the pods have found."""

    def __init__(self, staging: Staging, total: str, give_up_after: GiveUpAfter) -> None:
        """`total`: what is to be staged, such as `2 volumes`."""
        self._staging, self._total, self._give_up_after = staging, total, give_up_after
        self.obstacles = Obstacles(staging.api, staging.namespace, give_up_after)
        self.failures = StartFailures()
        self.began = self._answered = time.monotonic()
        self._lines: dict[tuple[str, str], str] = {}
        self._read_at = 0.0
        self._told, self._told_at, self._stages = "", 0.0, ""

    def read_pods(self) -> list[PodReport]:
        """Returns all pods of the stage. Raises ClusterUnreachable."""
        path = f"/api/v1/namespaces/{self._staging.namespace}/pods"
        found = self._staging.api.read(path, labelSelector=self._staging.selector)["items"]
        self._answered = time.monotonic()
        return [report(pod) for pod in found]

    def require_answer(self, reason: ClusterUnreachable) -> None:
        """Raises pulumi.RunError if the cluster has not answered for too long."""
        silent = time.monotonic() - self._answered
        if silent >= self._give_up_after.unreachable:
            raise pulumi.RunError(
                "whether the weights are staged is not known: the cluster has not answered for "
                f"{silent:.0f} s ({reason})"
            )

    def read_logs(self, pods: Sequence[PodReport]) -> None:
        """Reads the last log line of each staging pod, unless there are too many."""
        now = time.monotonic()
        staging = [pod for pod in pods if pod.doing == "staging" and not pod.terminating]
        if len(staging) > MAX_NAMED or now - self._read_at < _LOG_INTERVAL_SECONDS:
            return
        self._read_at = now
        for pod in staging:
            path = f"/api/v1/namespaces/{self._staging.namespace}/pods/{pod.name}/log"
            with suppress(ClusterUnreachable):
                words = self._staging.api.read_text(path, container="stage", tailLines="1").strip()
                self._lines[pod.group_index] = words.partition("Z ")[2] or words

    def last_line(self, job: str) -> str | None:
        """Returns the last log line of a Job's pod, which may be gone. None: none was read."""
        return next((line for (name, _), line in self._lines.items() if name == job), None)

    def doing(self, done: int, waiting: Sequence[PodReport], *, with_lines: bool = True) -> str:
        """One line: "1 of 2 volumes staged; h100-0 (pod stage-0): staging"."""
        said = [f"{done} of {self._total} staged"]
        if len(waiting) <= MAX_NAMED:
            for pod in waiting:
                line = self._lines.get(pod.group_index) if with_lines and pod.doing == "staging" else None
                said.append(f"{pod.where}: {pod.doing}" + (f", {line}" if line else ""))
        else:
            said.append(f"{len(waiting)} more are being staged")
        return "; ".join([*said, *self.failures.obstacles[:MAX_NAMED]])

    def news(self, done: int, waiting: Sequence[PodReport]) -> tuple[str, bool] | None:
        """A message, and whether only the log lines changed. None: unchanged, or the last message is too recent."""
        now = time.monotonic()
        stages, words = self.doing(done, waiting, with_lines=False), self.doing(done, waiting)
        if words == self._told or (self._told and now - self._told_at < self._give_up_after.report_seconds):
            return None
        only_lines = stages == self._stages
        self._told, self._told_at, self._stages = words, now, stages
        return words, only_lines

    def result(self, done: int) -> str | None:
        """The last message. None: all was staged at the first poll."""
        return self.doing(done, ()) if self._told else None


def given_up(reasons: Sequence[str], advice: str) -> pulumi.RunError:
    """Returns the error of a stage that cannot succeed."""
    return pulumi.RunError("\n  ".join(["the weights cannot be staged:", *reasons, advice]))
