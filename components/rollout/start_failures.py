"""What speaks against a server's start, remembered from look to look, until it is enough to give the server up.

A container that fails once may succeed the next time; an image or a node that is missing may come. So each is given its
patience. Endings are counted by a pod's place in the server: a group that failed as a whole has new pods, which start
counting at 0.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from components.rollout.obstacles import Obstacle
from components.rollout.pod_report import Ending, PodReport

ENDINGS = {"fabric": 2, "verify": 2, "engine": 3, "pod": 3}
"""A container that failed this often is given up. A check says the same each time; an engine may have had bad luck."""

_TITLES = {
    "fabric": "the fabric check",
    "verify": "the check of the weights",
    "engine": "the engine",
    "requirements": "the installation of the stager's requirements",
    "stage": "the stager",
}

_LAST_LINES = 20
"""Of a container's last words. The kubelet keeps 80 lines or 2 KiB of a log, 4 KiB of what a check writes itself."""

_MOST_SHOWN = 4
"""Of different failures; those that ended first come first, since the others of a group end because of them."""


class StartFailures:
    """All that went wrong since the watch began."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], int] = {}
        self._failures: Counter[tuple[tuple[str, str], str]] = Counter()
        self._last: dict[tuple[tuple[str, str], str], tuple[PodReport, Ending]] = {}
        self._since: dict[str, float] = {}
        self._obstacles: Mapping[str, Obstacle] = {}

    def note_endings(self, pods: Sequence[PodReport], began: datetime) -> None:
        """Counts what ended since the last look; `began`: when the first look was, by the cluster's clock.

        The reason of a failure before that may have been mended since, so that such failures alone are never enough: of
        a container that is at rest the next attempt decides.
        """
        for pod in pods:
            for ending in pod.endings:
                key, before = (pod.place, ending.container), self._counted.get((pod.uid, ending.container), 0)
                self._counted[pod.uid, ending.container] = ending.times
                if ending.times <= before:
                    continue
                self._last[key] = pod, ending
                if ending.started > began:
                    self._failures[key] += ending.times - before
                elif ending.at_rest:
                    self._failures[key] = max(self._failures[key], min(ending.times, _limit(ending.container) - 1))

    def note_obstacles(self, obstacles: Mapping[str, Obstacle], now: float) -> None:
        """Replaces what is in the way, by the pod that it is in the way of; a clock runs for each as long as it is."""
        self._since = {key: self._since.get(key, now) for key in obstacles}
        self._obstacles = obstacles

    @property
    def obstacles(self) -> list[str]:
        """What is in the way now."""
        return sorted({obstacle.text for obstacle in self._obstacles.values()})

    def given_up(self, now: float) -> list[str]:
        """What the server is given up for, each several lines; empty: there is still hope."""
        if any(times >= _limit(container) for (_, container), times in self._failures.items()):
            return self.endings()
        return self.stuck(now)

    def stuck(self, now: float) -> list[str]:
        """What has been in the way for longer than it is borne."""
        spent = {
            obstacle.text for key, obstacle in self._obstacles.items() if now - self._since[key] >= obstacle.patience
        }
        return sorted(spent)

    def endings(self) -> list[str]:
        """The last failure of each container that failed, those of the same words together."""
        together: dict[tuple[str, str, str], list[PodReport]] = {}
        for pod, ending in sorted(self._last.values(), key=lambda last: last[1].finished):
            together.setdefault((ending.container, ending.status, ending.message), []).append(pod)
        return ["\n    ".join(_told(pods, *what)) for what, pods in list(together.items())[:_MOST_SHOWN]]

    def first(self) -> tuple[str, str] | None:
        """The container that was the first to fail, and its pod; None: none did."""
        if not self._last:
            return None
        pod, ending = min(self._last.values(), key=lambda last: last[1].finished)
        return ending.container, pod.name


def _limit(container: str) -> int:
    return ENDINGS.get(container, ENDINGS["engine"])


def _told(pods: Sequence[PodReport], container: str, status: str, message: str) -> Iterator[str]:
    where = ", ".join(pod.where for pod in pods)
    title = _TITLES.get(container, container)
    yield f"{where}: {status}" if container == "pod" else f"{title} failed on {where}: exit status {status}"
    yield from message.splitlines()[-_LAST_LINES:]
