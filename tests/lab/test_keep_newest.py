"""Prunes old revisions only after the new one serves: on the real node, with three revisions and two stacks."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from lab.lifecycle import Lab
from lab.project import Answer
from lab.site import CHECKOUT
from tests.lab.kubectl import Kubectl
from tests.lab.serving import FIRST, SECOND, THIRD, Served, dev_stack, pinned
from tests.lab.sharing import with_own_state

PRUNE = "app.kubernetes.io/component=prune"
MakeStack = Callable[..., Served]


@pytest.fixture
def stack(lab: Lab, hub: HubClient, kubectl: Kubectl, settings: dict[str, str], tmp_path: Path) -> Iterator[MakeStack]:
    """Creates a stack `dev` with its own namespace and Pulumi state, on the same disk as the other stack."""
    made: list[Served] = []

    def make(namespace: str, **weights: int) -> Served:
        home = tmp_path / f"{namespace}-home"
        home.mkdir()
        own = {**with_own_state(settings, home), "HF_ENDPOINT": hub.url}
        project = dev_stack(CHECKOUT, tmp_path / namespace, own, namespace, pinned("acme/model", FIRST))
        served = Served(project, kubectl, lab, namespace)
        served.root = made[0].root if made else served.root
        project.configure(weights={"path": served.root, **weights})
        made.append(served)
        return served

    yield make
    for served in reversed(made):
        served.remove()


def serve_revision(served: Served, revision: str) -> str:
    """Runs `up` with another revision, and returns the digest that the server mounts."""
    served.project.configure(model=pinned("acme/model", revision))
    up = served.project.up()
    assert up.status == 0, up
    return served_digest(served)


def served_digest(served: Served) -> str:
    """Returns the digest in the server's Deployment."""
    [deployment] = served.get("deployments")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    words = " ".join(container.get("command", []) + container.get("args", []))
    return words.partition("/weights/")[2][:16]


def wait_for_pruning(served: Served, condition: str = "complete") -> None:
    """Waits until the prune Job has a condition."""
    served.kubectl.wait(f"--for=condition={condition}", "job", "-n", served.namespace, "-l", PRUNE, seconds=180)


def prune_log(served: Served) -> str:
    """Returns the log of the newest prune Job."""
    return served.kubectl("logs", "-n", served.namespace, "-l", PRUNE, "--tail=-1")


def users(served: Served, digest: str) -> list[str]:
    """Returns the stacks that mark a directory as in use."""
    return served.lab.on_node("real-0", "ls", f"{served.root}/{digest}/.heavylift/users").split()


class Witness:
    """Watches a change of revision: the old directory must exist until the new revision serves."""

    def __init__(self, served: Served, old: str) -> None:
        self._served, self._old = served, old
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.looks = 0
        self.lost_early = False

    def __enter__(self) -> "Witness":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            present = self._old in self._served.digests()
            self.looks += 1
            if not present and not self._new_one_serves():
                self.lost_early = True

    def _new_one_serves(self) -> bool:
        [deployment] = self._served.get("deployments")
        ready = deployment["status"].get("readyReplicas", 0)
        return served_digest(self._served) != self._old and bool(ready)


def test_the_newest_are_kept_for_each_stack_through_three_revisions_and_a_rollback(
    stack: MakeStack, hub: HubClient
) -> None:
    ours = stack("keep-newest-ours", keep_newest=1)
    first = serve_revision(ours, FIRST)
    wait_for_pruning(ours)
    assert ours.digests() == {first}

    with Witness(ours, first) as witness:
        second = serve_revision(ours, SECOND)
        wait_for_pruning(ours)
    assert witness.looks > 10
    assert not witness.lost_early
    assert ours.digests() == {second}, prune_log(ours)
    assert ours.ask()
    clean = ours.project.preview("--expect-no-changes")
    assert clean.status == 0, clean

    theirs = stack("keep-newest-theirs")
    hub.clear_requests()
    assert serve_revision(theirs, SECOND) == second
    assert hub.bytes_sent() == 0
    third = serve_revision(ours, THIRD)
    wait_for_pruning(ours)
    assert ours.digests() == {second, third}
    assert users(ours, second) == ["keep-newest-theirs%2Fdev"]
    assert theirs.ask()

    hub.clear_requests()
    assert serve_revision(ours, SECOND) == second
    wait_for_pruning(ours)
    assert hub.bytes_sent() == 0, "a rollback to what is kept fetches nothing"
    assert ours.digests() == {second}
    assert len(users(ours, second)) == 2
    assert ours.ask()


def test_a_pruning_that_fails_leaves_up_green_and_is_made_anew_by_the_next_one(stack: MakeStack) -> None:
    ours = stack("keep-newest-failing", keep_newest=1)
    first = serve_revision(ours, FIRST)
    wait_for_pruning(ours)
    obstacle = f"{ours.root}/{first}/.heavylift/lease.99"
    ours.lab.on_node("real-0", "mkdir", obstacle)
    second = serve_revision(ours, SECOND)
    assert ours.ask()
    wait_for_pruning(ours, "failed")
    assert ours.digests() == {first, second}
    [pod, *_] = ours.pods("prune")
    [status] = pod["status"]["containerStatuses"]
    assert "lease.99" in status["state"]["terminated"]["message"]

    ours.lab.on_node("real-0", "rmdir", obstacle)
    steps = steps_on_prune_jobs(ours.project.preview("--json"))
    assert steps, "the next preview shows that it failed"
    again = ours.project.up()
    assert again.status == 0, again
    wait_for_pruning(ours)
    assert ours.digests() == {second}


def steps_on_prune_jobs(preview: Answer) -> list[str]:
    """Returns the steps of a preview for the prune Jobs."""
    assert preview.status == 0, preview
    steps = json.loads(preview.output[preview.output.index("{") :])["steps"]
    return [step["op"] for step in steps if "::prune-" in step["urn"] and step["op"] != "same"]
