"""Collects failures and obstacles over successive polls, and decides when they are fatal.

A container that fails once can succeed on its next run, and a missing image or node can appear. Each therefore has a
limit. Failures are counted by the pod's index in its group: re-created pods of a group restart their own counts at 0.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from components.rollout.obstacles import Obstacle
from components.rollout.pod_report import ContainerFailure, PodReport

MAX_FAILURES = {"fabric": 2, "verify": 2, "verify-draft": 2, "engine": 3, "pod": 3}
"""Failures after which a container is fatal. Checks are deterministic; engine crashes can be transient."""

_TITLES = {
    "fabric": "the fabric check",
    "verify": "the check of the weights",
    "verify-draft": "the check of the draft model",
    "engine": "the engine",
    "requirements": "the installation of the stager's requirements",
    "stage": "the stager",
}

_LAST_LINES = 20
"""Lines of a termination message to show. The kubelet keeps 80 lines or 2 KiB of a log, 4 KiB of a message file."""

_MAX_SHOWN = 4
"""Different failures to show, earliest first: later failures in a group are usually a consequence."""


class StartFailures:
    """Failures and obstacles since the watch began."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], int] = {}
        self._failures: Counter[tuple[tuple[str, str], str]] = Counter()
        self._last: dict[tuple[tuple[str, str], str], tuple[PodReport, ContainerFailure]] = {}
        self._since: dict[str, float] = {}
        self._obstacles: Mapping[str, Obstacle] = {}

    def count_failures(self, pods: Sequence[PodReport], began: datetime) -> None:
        """Counts failures since the previous poll. `began` is the time of the first poll, by the cluster's clock.

        Failures before the first poll are never fatal on their own, because their cause can have been corrected since.
        A stopped container gets one more attempt.
        """
        for pod in pods:
            for failure in pod.failures:
                key, before = (pod.group_index, failure.container), self._counted.get((pod.uid, failure.container), 0)
                self._counted[pod.uid, failure.container] = failure.times
                if failure.times <= before:
                    continue
                self._last[key] = pod, failure
                if failure.started > began:
                    self._failures[key] += failure.times - before
                elif failure.stopped:
                    self._failures[key] = max(self._failures[key], min(failure.times, _limit(failure.container) - 1))

    def note_obstacles(self, obstacles: Mapping[str, Obstacle], now: float) -> None:
        """Replaces the current obstacles, by pod UID. An obstacle keeps the time at which it was first seen."""
        self._since = {key: self._since.get(key, now) for key in obstacles}
        self._obstacles = obstacles

    @property
    def obstacles(self) -> list[str]:
        """Current obstacles."""
        return sorted({obstacle.text for obstacle in self._obstacles.values()})

    def given_up(self, now: float) -> list[str]:
        """Fatal failures, each of several lines. Empty while the rollout can still succeed."""
        if any(times >= _limit(container) for (_, container), times in self._failures.items()):
            return self.failures()
        return self.stuck(now)

    def stuck(self, now: float) -> list[str]:
        """Obstacles that have exceeded their timeout."""
        spent = {
            obstacle.text
            for key, obstacle in self._obstacles.items()
            if now - self._since[key] >= obstacle.give_up_after
        }
        return sorted(spent)

    def failures(self) -> list[str]:
        """The last failure of each container; pods with the same message are listed together."""
        together: dict[tuple[str, str, str], list[PodReport]] = {}
        for pod, failure in sorted(self._last.values(), key=lambda last: last[1].finished):
            together.setdefault((failure.container, failure.status, failure.message), []).append(pod)
        return ["\n    ".join(_lines(pods, *what)) for what, pods in list(together.items())[:_MAX_SHOWN]]

    def first(self) -> tuple[str, str] | None:
        """The container that failed first, and its pod. None: no failures."""
        if not self._last:
            return None
        pod, failure = min(self._last.values(), key=lambda last: last[1].finished)
        return failure.container, pod.name


def _limit(container: str) -> int:
    return MAX_FAILURES.get(container, MAX_FAILURES["engine"])


def _lines(pods: Sequence[PodReport], container: str, status: str, message: str) -> Iterator[str]:
    where = ", ".join(pod.where for pod in pods)
    title = _TITLES.get(container, container)
    yield f"{where}: {status}" if container == "pod" else f"{title} failed on {where}: exit status {status}"
    yield from message.splitlines()[-_LAST_LINES:]
