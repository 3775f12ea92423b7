"""Helpers for tests of a served model: the stack `dev` on the real node, and hubs on the host."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.build.images import MODEL_FILE
from lab.demo import Target
from lab.lifecycle import Lab
from lab.project import Project
from lab.site import CHECKOUT, Site
from tests.lab.kubectl import Kubectl
from tests.lab.sharing import with_own_state

WEIGHTS = "/var/lib/heavylift/weights"
FIRST, SECOND, THIRD = "1" * 40, "2" * 40, "3" * 40
TOKEN = "hf_labtoken"
FILLER = "filler.safetensors"
FILLER_BYTES = 2 * 1024**3


def own_hub(site: Site) -> dict[str, Any]:
    """Returns the table of a test's hub: the real model at three commits, with a 2 GiB file, and gated."""
    model = {"disk": str(site.directory / MODEL_FILE)}
    first = {MODEL_FILE: model, "README.md": {"text": "the first revision\n"}, "config.json": {"text": "{}\n"}}
    second = {**first, "README.md": {"text": "the second revision\n"}}
    third = {**first, "README.md": {"text": "the third revision\n"}}
    filler = {"generate": {"seed": 1, "size": FILLER_BYTES}}
    return {
        "repositories": {
            "acme/model": {
                "revisions": [
                    {"commit": FIRST, "branches": ["main"], "files": first},
                    {"commit": SECOND, "files": second},
                    {"commit": THIRD, "files": third},
                ]
            },
            "acme/large": {"revisions": [{"commit": FIRST, "branches": ["main"], "files": {**first, FILLER: filler}}]},
            "acme/gated": {"gated": True, "revisions": [{"commit": FIRST, "branches": ["main"], "files": first}]},
        },
        "tokens": [{"token": TOKEN, "user": "reader", "gated": ["acme/gated"]}],
    }


def pinned(repository: str, revision: str, *more: str) -> dict[str, Any]:
    """Returns `heavylift:model` with the real model, a small file and `more`, at a commit."""
    include = [MODEL_FILE, "README.md", *more]
    return {"repository": repository, "revision": revision, "allow_unpinned": False, "include": include}


class Served:
    """The stack `dev` of one test, with its own namespace and directory."""

    def __init__(self, project: Project, kubectl: Kubectl, lab: Lab, namespace: str) -> None:
        self.project, self.kubectl, self.lab, self.namespace = project, kubectl, lab, namespace
        self.root = f"{WEIGHTS}/{namespace}"

    def get(self, kind: str) -> list[dict[str, Any]]:
        """Returns all objects of a kind in the namespace."""
        found: list[dict[str, Any]] = self.kubectl.get(kind, "-n", self.namespace)["items"]
        return found

    def pods(self, part: str) -> list[dict[str, Any]]:
        """Returns the pods of `stage` or `server`."""
        return [pod for pod in self.get("pods") if pod["metadata"]["name"].startswith(f"{part}-")]

    def on_disk(self) -> list[str]:
        """Returns everything below the test's weights directory on the real node."""
        return self.lab.on_node("real-0", "find", self.root, "-type", "f").split()

    def digests(self) -> set[str]:
        """Returns the staged directories on the real node."""
        return set(self.lab.on_node("real-0", "ls", self.root).split())

    def shell(self, script: str) -> str:
        """Runs a shell script in the only staged directory of the real node."""
        [digest] = self.digests()
        return self.lab.on_node("real-0", "sh", "-c", f"cd {self.root}/{digest} && {script}")

    def ask(self) -> str:
        """Asks the server a question through the Service, and returns its answer."""
        target = Target(self.lab.site.kubeconfig, "lab", self.project.directory, self.project.environment)
        return target.ask(f"http://dev.{self.namespace}.svc:8080/v1", "The capital of France is", tokens=4)

    def remove(self) -> None:
        """Destroys the stack, and removes its namespace and its weights."""
        destroyed = self.project.destroy()
        assert destroyed.status == 0, destroyed
        self.kubectl("delete", "namespace", self.namespace, "--ignore-not-found")
        self.lab.on_node("real-0", "rm", "-rf", self.root)

    def stage_log(self) -> str:
        """Returns the log of the newest stager pod."""
        pod = max(self.pods("stage"), key=lambda pod: pod["metadata"]["creationTimestamp"])
        return self.kubectl("logs", "-n", self.namespace, pod["metadata"]["name"], "-c", "stage")


def dev_stack(
    checkout: Path, directory: Path, environment: Mapping[str, str], namespace: str, model: Mapping[str, Any]
) -> Project:
    """Copies the program with the stack `dev` on `real-0`, which serves `model` from the test's own directory."""
    project = Project.copy(checkout, directory, environment, "dev")
    project.configure(
        cluster={"namespace": namespace},
        nodes={"kind": "bare-metal", "names": ["real-0"], "gpus_per_node": 0},
        model=model,
        weights={"path": f"{WEIGHTS}/{namespace}"},
    )
    return project


@contextmanager
def own_stack(
    lab: Lab, kubectl: Kubectl, settings: Mapping[str, str], hub: str, folder: Path, namespace: str
) -> Iterator[Served]:
    """A stack `dev` with the first revision of the real model and a Pulumi state of its own, removed in the end."""
    own = {**with_own_state(settings, folder), "HF_ENDPOINT": hub}
    project = dev_stack(CHECKOUT, folder / "program", own, namespace, pinned("acme/model", FIRST))
    served = Served(project, kubectl, lab, namespace)
    yield served
    served.remove()
