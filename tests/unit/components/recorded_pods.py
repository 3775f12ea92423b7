"""Pods and events as a real API server described them, and the few changes that make other moments of them."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

_RECORDED = json.loads((Path(__file__).parents[2] / "data/pods/recorded.json").read_text())

VERSION = "0123456789abcdef"


def recorded_pod(
    moment: str, *, name: str = "server-0", version: str = VERSION, before: bool = False, **place: str
) -> dict[str, Any]:
    """A recorded pod under the name and of the template of a test; `group` and `worker` are its numbers in a group.

    What failed in it began after the test, unless it is said to be `before`.
    """
    pod: dict[str, Any] = deepcopy(_RECORDED["pods"][moment])
    for status in pod["status"].get("initContainerStatuses", []) + pod["status"].get("containerStatuses", []):
        for state in (status["state"], status["lastState"]):
            if "terminated" in state and not before:
                state["terminated"]["startedAt"] = "2999-01-01T00:00:00Z"
    pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}", "annotations": {"server.heavylift/template": version}}
    for word, number in place.items():
        pod["metadata"]["labels"][f"leaderworkerset.sigs.k8s.io/{word}-index"] = number
    return pod


def recorded_event(moment: str, **about: str) -> dict[str, Any]:
    """A recorded warning, about the object of a test."""
    event: dict[str, Any] = deepcopy(_RECORDED["events"][moment])
    event["involvedObject"] |= about
    return event


def loading(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod, whose engine runs and is not ready yet."""
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition["status"] = "False"
    return pod


def ended_again(pod: dict[str, Any], container: str, times: int = 1) -> dict[str, Any]:
    """The pod, of which a container has ended so many times more."""
    for status in pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]:
        if status["name"] == container:
            status["restartCount"] += times
    return pod
