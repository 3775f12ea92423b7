"""The wait for a server, as somebody with kubectl would wait: until all of its pods are ready, or it is plain why not.

Pulumi's own wait knows no LeaderWorkerSet, and sees of a Deployment neither why its pod does not start: it would go on
for as long as a model may take to load. This one says what the pods go through, and ends early with their own words. It
goes by pods alone, which carry the digest of their template: what a controller reports may be of the template before.
It only looks; what it gives up stays, and goes on trying.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

import pulumi

from components.cluster.api import ClusterApi, ClusterUnreachable
from components.rollout.first_answer import NoAnswer, NotAsked, first_answer
from components.rollout.obstacles import Obstacle, Obstacles, Patience
from components.rollout.pod_report import PodReport, report
from components.rollout.start_failures import StartFailures
from components.rollout.workload import changed_since

AWAITED_HERE = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
"""Annotation of an object that Pulumi takes for ready as soon as it is there. `pulumi.com/skipAwait` would not do: with
it Pulumi does not await the end of a Deployment either (pulumi-kubernetes 4.25, `allowsSkipAwaitWithDelete`)."""

_MOST_NAMED = 4
"""More pods are counted, not named, where it is said what they do."""

_ADVICE = {
    "fabric": "mend the node, or take it out of heavylift:nodes.names, and run `pulumi up` again.",
    "verify": (
        "stage the weights again: `kubectl delete job -n {namespace} -l app.kubernetes.io/instance={instance},"
        "app.kubernetes.io/component=stage`, then `pulumi up --refresh`."
    ),
    "engine": (
        "correct heavylift:engine and run `pulumi up` again; all that it said: "
        "`kubectl logs -n {namespace} {pod} -c engine --previous`."
    ),
}
_FORMER_KIND = (
    "To do: the server was of another kind before the change, and holds what this one waits for; end it: "
    "`kubectl delete {kind} -n {namespace} -l app.kubernetes.io/instance={instance},"
    "app.kubernetes.io/component=server`, and run `pulumi up` again."
)
"""Pulumi removes what a program no longer has when all else is done, which then would never be."""
_FAILED_ANSWER = (
    "To do: correct heavylift:engine and run `pulumi up` again; all that it said: "
    "`kubectl logs -n {namespace} {pod} -c engine`, with `--previous` where it ended of it."
)
_STAYS = "The server stays as it is and goes on trying; the next `pulumi up` waits for it again."


@dataclass(frozen=True)
class Server:
    """What is waited for."""

    api: ClusterApi
    namespace: str
    instance: str
    """Name of the stack."""
    labels: Mapping[str, str]
    """Labels by which its pods are found."""
    version: str
    """Digest of the template of its pods."""
    port: int
    """Where it answers."""
    pods: int
    """How many there must be."""
    seconds: int
    """It is given up when for so long no more of them have become ready than before."""


async def warn_if_gone(server: Server, workload: str) -> None:
    """Warns where what makes the pods was changed behind Pulumi's back: a preview has no other way to know."""
    with suppress(ClusterUnreachable):
        change = await asyncio.to_thread(changed_since, server.api, server.namespace, workload, server.pods)
        if change:
            pulumi.warn(f"the server does not run: {change}")


async def until_it_serves(
    server: Server, workload: str, say: Callable[[str], None], patience: Patience | None = None
) -> str:
    """Waits until all pods of the object named `workload` are ready; tells `say` what they go through.

    Returns whether they answer: `yes`, or `unknown: <reason>` where they could not be asked.
    Raises pulumi.RunError with the reason when they cannot start, or do not within the time that the plan gives them.
    """
    watch = _Watch(server, workload, patience or Patience())
    while not await asyncio.to_thread(watch.look):
        if words := watch.news():
            say(words)
        await asyncio.sleep(watch.patience.between_looks)
    answer = await asyncio.to_thread(watch.ask)
    if words := watch.last_words(answer):
        say(words)
    return f"unknown: {answer}" if isinstance(answer, str) else "yes"


class _Watch:
    """What was seen of one server so far."""

    def __init__(self, server: Server, workload: str, patience: Patience) -> None:
        self.server, self.workload, self.patience = server, workload, patience
        self._in_the_way = Obstacles(server.api, server.namespace, patience)
        self._failures = StartFailures()
        self._pods: Sequence[PodReport] = ()
        self._others: Sequence[PodReport] = ()
        self._most_ready = 0
        self._began: datetime | None = None
        self._answered = self._advanced = time.monotonic()
        self._told, self._told_at = "", 0.0

    def look(self) -> bool:
        """Looks once; True: the server serves. Raises pulumi.RunError when it will not."""
        now = time.monotonic()
        try:
            pods = self._read_pods()
        except ClusterUnreachable as reason:
            self._bear(reason, now)
            return False
        self._answered = now
        self._began = self._began or self.server.api.answered_at
        self._pods = [pod for pod in pods if pod.version == self.server.version]
        self._others = [pod for pod in pods if pod.version != self.server.version]
        if self._ready >= self.server.pods:
            self._failures.note_obstacles({}, now)
            return True
        if len(self._staying) < self.server.pods:
            self._require_workload()
        self._failures.note_endings(self._pods, self._began)
        self._failures.note_obstacles(dict(self._obstacles(self._began)), now)
        self._judge(now)
        return False

    def ask(self) -> float | str:
        """Asks each server for one token: the most seconds that one took, or why nothing is known of it.

        Raises pulumi.RunError when one fails.
        """
        slowest = 0.0
        for pod in self._staying:
            if pod.is_worker:
                continue
            try:
                seconds = first_answer(self.server.api, self.server.namespace, pod.name, self.server.port)
            except NotAsked as reason:
                return str(reason)
            except NoAnswer as words:
                raise pulumi.RunError(
                    f"the server is ready, and fails at its first answer:\n  {pod.where}: {words}\n  "
                    + _FAILED_ANSWER.format(namespace=self.server.namespace, pod=pod.name)
                ) from None
            slowest = max(slowest, seconds)
        return slowest

    def news(self) -> str | None:
        """What the pods go through, where that is other than what was said last, and that is a while ago."""
        now, words = time.monotonic(), self._doing()
        if words == self._told or (self._told and now - self._told_at < self.patience.between_words):
            return None
        self._told, self._told_at = words, now
        return words

    def last_words(self, answer: float | str) -> str | None:
        """That it serves, and what came of the question; None: all was well from the first look on."""
        if isinstance(answer, str):
            return f"{self._doing()}; whether it answers is not known: {answer}"
        return f"{self._doing()}; first answer after {answer:.2f} s" if self._told else None

    @property
    def _staying(self) -> list[PodReport]:
        return [pod for pod in self._pods if not (pod.leaving or pod.over)]

    @property
    def _ready(self) -> int:
        return sum(pod.ready for pod in self._staying)

    def _read_pods(self) -> list[PodReport]:
        selector = ",".join(f"{name}={value}" for name, value in self.server.labels.items())
        path = f"/api/v1/namespaces/{self.server.namespace}/pods"
        return [report(pod) for pod in self.server.api.read(path, labelSelector=selector)["items"]]

    def _require_workload(self) -> None:
        """Pods that are missing will come, unless what makes them was changed behind Pulumi's back."""
        with suppress(ClusterUnreachable):
            server = self.server
            if change := changed_since(server.api, server.namespace, self.workload, server.pods):
                raise pulumi.RunError(f"the server does not run: {change}")

    def _bear(self, reason: ClusterUnreachable, now: float) -> None:
        silent = now - self._answered
        if silent >= self.patience.unheard_of:
            raise pulumi.RunError(
                f"whether the server starts is not known: the cluster has not answered for {silent:.0f} s ({reason})"
            )

    def _obstacles(self, began: datetime) -> Iterator[tuple[str, Obstacle]]:
        """What is in the way of each pod, by its identity, or of all those that are not there."""
        missing = self.server.pods - len(self._staying)
        leaving = [pod for pod in [*self._pods, *self._others] if pod.leaving]
        yield from self._in_the_way.of([pod for pod in self._staying if pod.node or not leaving])
        if missing > 0 or any(pod.node is None for pod in self._staying):
            yield from self._in_the_way.of(leaving)
        if missing > 0 and (warning := self._in_the_way.warnings.of_making(self.workload, began)):
            yield "", Obstacle(f"{missing} of its pods cannot be made: {warning}", self.patience.obstacle)

    def _judge(self, now: float) -> None:
        if self._ready > self._most_ready:
            self._most_ready, self._advanced = self._ready, now
        heading, reasons = "the server cannot start", self._failures.given_up(now)
        if not reasons and now - self._advanced >= self.server.seconds:
            heading = f"the server was given {self.server.seconds} s by the plan, and is not ready"
            reasons = [self._doing(), *self._failures.endings()]
        if reasons:
            raise pulumi.RunError("\n  ".join([f"{heading}:", *reasons, *self._advice(reasons), _STAYS]))

    def _advice(self, reasons: Sequence[str]) -> Iterator[str]:
        names = {"namespace": self.server.namespace, "instance": self.server.instance}
        first = self._failures.first()
        if first and not set(reasons).isdisjoint(self._failures.endings()):
            container, pod = first
            if advice := _ADVICE.get(container):
                yield "To do: " + advice.format(**names, pod=pod)
        groups = self.server.pods > 1
        if any(bool(pod.place[0]) is not groups and not pod.over for pod in self._others):
            yield _FORMER_KIND.format(**names, kind="deployment" if groups else "leaderworkerset")

    def _doing(self) -> str:
        """One line: "1 of 2 pods ready; h100-0 (pod server-0): loading"."""
        waiting = [pod for pod in self._staying if not pod.ready]
        said = [f"{self._ready} of {self.server.pods} pods ready"]
        if len(waiting) <= _MOST_NAMED:
            said += [f"{pod.where}: {pod.doing}" for pod in waiting]
        else:
            said += [f"{count} {doing}" for doing, count in sorted(Counter(pod.doing for pod in waiting).items())]
        return "; ".join([*said, *self._failures.obstacles[:_MOST_NAMED]])
