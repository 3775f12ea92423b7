"""Reads the groups of a server over several nodes from the cluster."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tests.lab.kubectl import Kubectl

ANOTHER_REVISION = "1" * 40


class Group:
    """The objects of the stack's server in the cluster."""

    def __init__(self, kubectl: Kubectl, namespace: str) -> None:
        self._kubectl, self._namespace = kubectl, namespace

    def get(self, kind: str) -> list[dict[str, Any]]:
        """Returns all objects of a kind in the namespace, by name."""
        found: list[dict[str, Any]] = self._kubectl.get(kind, "-n", self._namespace)["items"]
        return sorted(found, key=lambda each: str(each["metadata"]["name"]))

    def pods(self) -> list[dict[str, Any]]:
        """Returns the server's pods, leader first."""
        return [pod for pod in self.get("pods") if pod["metadata"]["name"].startswith("server-")]

    def hosts(self) -> set[str]:
        """Returns the nodes of the pods."""
        return {pod["spec"].get("nodeName", "none") for pod in self.pods()}

    def uids(self) -> set[str]:
        """Returns the pods' UIDs, which distinguish a pod from its successor of the same name."""
        return {pod["metadata"]["uid"] for pod in self.pods()}

    def is_ready(self) -> bool:
        """Returns whether all groups are ready."""
        [group] = self.get("leaderworkersets")
        status = group.get("status", {})
        return bool(status.get("readyReplicas") == group["spec"]["replicas"])

    def ready_groups(self) -> dict[str, str]:
        """Returns the number and weights directory of each group with both pods ready and not terminating."""
        pods: dict[str, list[dict[str, Any]]] = {}
        for pod in self.pods():
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
                number = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
                pods.setdefault(number, []).append(pod)
        return {
            number: members[0]["spec"]["containers"][0]["command"][-1]
            for number, members in pods.items()
            if len(members) == 2
        }

    @contextmanager
    def watched(self) -> Iterator[list[set[str]]]:
        """Records which groups are ready while the block runs."""
        seen: list[set[str]] = []
        over = threading.Event()

        def look() -> None:
            while not over.wait(0.2):
                seen.append(set(self.ready_groups()))

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield seen
        finally:
            over.set()
            looking.join()

    def wait_until(self, reached: Callable[[], bool], what: str, seconds: float = 60) -> None:
        """Waits until `reached` holds."""
        deadline = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < deadline, f"{what} within {seconds} s; the pods are on {self.hosts()}"
            time.sleep(0.2)


def moment(text: str) -> datetime:
    """Parses a timestamp of the API server."""
    return datetime.fromisoformat(text)


def ready_since(pod: dict[str, Any]) -> datetime:
    """Returns the time at which a pod became ready."""
    [condition] = [each for each in pod["status"]["conditions"] if each["type"] == "Ready"]
    assert condition["status"] == "True"
    return moment(condition["lastTransitionTime"])


def variables(pod: dict[str, Any]) -> dict[str, str]:
    """Returns the environment variables of a pod's engine that have plain values."""
    [engine] = pod["spec"]["containers"]
    return {each["name"]: each["value"] for each in engine["env"] if "value" in each}
