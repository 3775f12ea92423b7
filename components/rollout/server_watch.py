"""Waits until all pods of a server are ready, or fails early with the reason.

Pulumi's own await does not support LeaderWorkerSets, and for a Deployment does not show why a pod fails to start: it
waits as long as the model may take to load. This wait reports progress, and fails with the pods' own messages. It reads
pods only, and identifies them by the digest of their template, because a controller's status can lag behind a change.
Read-only: on timeout the workload is left in place and keeps retrying.
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
from components.pods.labels import selector
from components.rollout.first_answer import ProbeFailed, ProbeInconclusive, ProbeRequest, first_answer
from components.rollout.obstacles import GiveUpAfter, Obstacle, Obstacles
from components.rollout.pod_report import PodReport, report
from components.rollout.silence import Silence
from components.rollout.start_failures import StartFailures
from components.rollout.workload import changed_since

AWAITED_HERE = {"pulumi.com/waitFor": "jsonpath={.metadata.uid}"}
"""Annotation of objects that Pulumi treats as ready once created. `pulumi.com/skipAwait` is not used because it also
disables the wait for deletion of a Deployment (pulumi-kubernetes 4.25, `allowsSkipAwaitWithDelete`)."""

_MAX_NAMED = 4
"""Pods that a progress message names. If there are more, it counts them."""

_STAGE_AGAIN = (
    "stage the weights again: `kubectl delete jobs,pods -n {{namespace}} -l app.kubernetes.io/instance={{instance}},"
    "app.kubernetes.io/component={stage}`, then `pulumi up --refresh`."
)

_ADVICE = {
    "fabric": "mend the node, or take it out of heavylift:nodes.names, and run `pulumi up` again.",
    "verify": _STAGE_AGAIN.format(stage="stage"),
    "verify-draft": _STAGE_AGAIN.format(stage="stage-draft"),
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
"""Pulumi deletes removed resources last, and the new pods wait for the GPUs of the old ones."""
_FAILED_ANSWER = (
    "To do: correct heavylift:engine and run `pulumi up` again; all that it said: "
    "`kubectl logs -n {namespace} {pod} -c engine`, with `--previous` where it ended of it."
)
_STAYS = "The server stays as it is and goes on trying; the next `pulumi up` waits for it again."


@dataclass(frozen=True)
class Server:
    """The server to wait for."""

    api: ClusterApi
    namespace: str
    instance: str
    """Name of the stack."""
    labels: Mapping[str, str]
    """Labels that select its pods."""
    version: str
    """Digest of the pod template."""
    request: ProbeRequest
    """The request for one token, with which each server is asked."""
    pods: int
    """Required number of ready pods."""
    seconds: int
    """Fail if no further pod becomes ready for this long."""


async def warn_if_gone(server: Server, workload: str) -> None:
    """Warns in a preview if the workload was changed outside Pulumi, which a preview does not show."""
    with suppress(ClusterUnreachable):
        change = await asyncio.to_thread(changed_since, server.api, server.namespace, workload, server.pods)
        if change:
            pulumi.warn(f"the server does not run: {change}")


async def wait_until_ready(
    server: Server, workload: str, say: Callable[[str], None], give_up_after: GiveUpAfter | None = None
) -> str:
    """Waits until all pods of `workload` are ready, and passes progress messages to `say`.

    Returns whether the server answers: `yes`, or `unknown: <reason>` if it cannot be probed.
    Raises pulumi.RunError with the reason if the pods cannot start, or are not ready within the plan's time limit.
    """
    watch = _Watch(server, workload, give_up_after or GiveUpAfter())
    while not await asyncio.to_thread(watch.poll):
        if words := watch.progress_message():
            say(words)
        await asyncio.sleep(watch.give_up_after.poll_seconds)
    answer = await asyncio.to_thread(watch.probe)
    if words := watch.final_message(answer):
        say(words)
    return f"unknown: {answer}" if isinstance(answer, str) else "yes"


class _Watch:
    """What earlier polls of one server have found."""

    def __init__(self, server: Server, workload: str, give_up_after: GiveUpAfter) -> None:
        self.server, self.workload, self.give_up_after = server, workload, give_up_after
        self._obstacle_finder = Obstacles(server.api, server.namespace, give_up_after)
        self._failures = StartFailures()
        self._pods: Sequence[PodReport] = ()
        self._others: Sequence[PodReport] = ()
        self._most_ready = 0
        self._began: datetime | None = None
        self._answered = self._advanced = time.monotonic()
        self._told, self._told_at = "", 0.0
        self._silence = Silence()

    def poll(self) -> bool:
        """Reads the pods once. Returns whether all are ready; raises pulumi.RunError if they cannot become ready."""
        now = time.monotonic()
        try:
            pods = self._read_pods()
        except ClusterUnreachable as reason:
            self._check_reachable(reason, now)
            return False
        self._answered = now
        self._began = self._began or self.server.api.answered_at
        self._pods = [pod for pod in pods if pod.version == self.server.version]
        self._others = [pod for pod in pods if pod.version != self.server.version]
        self._silence.note(self._pods, self._others, now)
        if self._ready >= self.server.pods:
            self._failures.note_obstacles({}, now)
            return True
        if len(self._staying) < self.server.pods:
            self._require_workload()
        self._failures.count_failures(self._pods, self._began)
        self._failures.note_obstacles(dict(self._obstacles(self._began)), now)
        self._judge(now)
        return False

    def probe(self) -> float | str:
        """Requests one token from each server. Returns the longest time in seconds, or why a probe was inconclusive.

        Raises pulumi.RunError if a probe fails.
        """
        slowest = 0.0
        for pod in self._staying:
            if pod.is_worker:
                continue
            try:
                seconds = first_answer(self.server.api, self.server.namespace, pod.name, self.server.request)
            except ProbeInconclusive as reason:
                return str(reason)
            except ProbeFailed as words:
                raise pulumi.RunError(
                    f"the server is ready, and fails at its first answer:\n  {pod.where}: {words}\n  "
                    + _FAILED_ANSWER.format(namespace=self.server.namespace, pod=pod.name)
                ) from None
            slowest = max(slowest, seconds)
        return slowest

    def progress_message(self) -> str | None:
        """A progress message. None: unchanged, or the last message is too recent."""
        now, words = time.monotonic(), self._doing()
        if words == self._told or (self._told and now - self._told_at < self.give_up_after.report_seconds):
            return None
        self._told, self._told_at = words, now
        return words

    def final_message(self, answer: float | str) -> str | None:
        """The result, after the wait. None: the server was ready at the first poll."""
        silent = self._silence.words()
        if isinstance(answer, str):
            return f"{self._doing()}{silent}; whether it answers is not known: {answer}"
        return f"{self._doing()}{silent}; first answer after {answer:.2f} s" if self._told or silent else None

    @property
    def _staying(self) -> list[PodReport]:
        return [pod for pod in self._pods if not (pod.terminating or pod.finished)]

    @property
    def _ready(self) -> int:
        return sum(pod.ready for pod in self._staying)

    def _read_pods(self) -> list[PodReport]:
        path = f"/api/v1/namespaces/{self.server.namespace}/pods"
        return [report(pod) for pod in self.server.api.read(path, labelSelector=selector(self.server.labels))["items"]]

    def _require_workload(self) -> None:
        """Raises pulumi.RunError if the workload was changed outside Pulumi and will not create its pods."""
        with suppress(ClusterUnreachable):
            server = self.server
            if change := changed_since(server.api, server.namespace, self.workload, server.pods):
                raise pulumi.RunError(f"the server does not run: {change}")

    def _check_reachable(self, reason: ClusterUnreachable, now: float) -> None:
        silent = now - self._answered
        if silent >= self.give_up_after.unreachable:
            raise pulumi.RunError(
                f"whether the server starts is not known: the cluster has not answered for {silent:.0f} s ({reason})"
            )

    def _obstacles(self, began: datetime) -> Iterator[tuple[str, Obstacle]]:
        """Yields obstacles by pod UID, and one under an empty key for pods that cannot be created."""
        missing = self.server.pods - len(self._staying)
        terminating = [pod for pod in [*self._pods, *self._others] if pod.terminating]
        yield from self._obstacle_finder.of([pod for pod in self._staying if pod.node or not terminating])
        if missing > 0 or any(pod.node is None for pod in self._staying):
            yield from self._obstacle_finder.of(terminating)
        if missing > 0 and (warning := self._obstacle_finder.warnings.of_making(self.workload, began)):
            yield "", Obstacle(f"{missing} of its pods cannot be made: {warning}", self.give_up_after.obstacle)

    def _judge(self, now: float) -> None:
        if self._ready > self._most_ready:
            self._most_ready, self._advanced = self._ready, now
        heading, reasons = "the server cannot start", self._failures.given_up(now)
        if not reasons and now - self._advanced >= self.server.seconds:
            heading = f"the server was given {self.server.seconds} s by the plan, and is not ready"
            reasons = [self._doing(), *self._failures.failures()]
        if reasons:
            raise pulumi.RunError("\n  ".join([f"{heading}:", *reasons, *self._advice(reasons), _STAYS]))

    def _advice(self, reasons: Sequence[str]) -> Iterator[str]:
        names = {"namespace": self.server.namespace, "instance": self.server.instance}
        first = self._failures.first()
        if first and not set(reasons).isdisjoint(self._failures.failures()):
            container, pod = first
            if advice := _ADVICE.get(container):
                yield "To do: " + advice.format(**names, pod=pod)
        groups = self.server.pods > 1
        if any(bool(pod.group_index[0]) is not groups and not pod.finished for pod in self._others):
            yield _FORMER_KIND.format(**names, kind="deployment" if groups else "leaderworkerset")

    def _doing(self) -> str:
        """One line: "1 of 2 pods ready; h100-0 (pod server-0): loading"."""
        waiting = [pod for pod in self._staying if not pod.ready]
        said = [f"{self._ready} of {self.server.pods} pods ready"]
        if len(waiting) <= _MAX_NAMED:
            said += [f"{pod.where}: {pod.doing}" for pod in waiting]
        else:
            said += [f"{count} {doing}" for doing, count in sorted(Counter(pod.doing for pod in waiting).items())]
        return "; ".join([*said, *self._failures.obstacles[:_MAX_NAMED]])
