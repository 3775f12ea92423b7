"""From nothing to a model's answer: takes up the stack `dev` and asks the server a question through its Service.

Run as `python -m lab.demo [--context NAME] [--down]`. Without a context it takes up the lab and uses that; with one it
uses that cluster of the person's own kubeconfig, the public images and the public hub, with the same stack file.
"""

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from config.errors import StackError
from config.stack.kubeconfig import read_kubeconfig
from config.stack.sections import Cluster
from lab import engine
from lab.build.cache import cache_directory
from lab.cluster.control_plane import kubectl
from lab.errors import LabError
from lab.lifecycle import Lab
from lab.processes import run
from lab.project import Project
from lab.site import CHECKOUT
from lab.voice import reminding, say

STACK = "dev"
Result = TypeVar("Result")

QUESTION = "The three largest cities of France are"


@dataclass(frozen=True)
class Target:
    """The cluster that the demo uses, and the directory of its engine."""

    kubeconfig: Path
    context: str
    directory: Path
    environment: Mapping[str, str]

    @classmethod
    def lab(cls) -> "Target":
        """Returns the lab as the target, and starts it if it is not up."""
        site = Lab().start()
        return cls(site.kubeconfig, "lab", site.directory, engine.settings(site))

    @classmethod
    def own(cls, context: str) -> "Target":
        """Returns a context of the user's kubeconfig as the target. Raises LabError, which lists the contexts."""
        kubeconfig = Path(os.environ.get("KUBECONFIG") or Path.home() / ".kube/config").expanduser()
        try:
            read_kubeconfig(Cluster(kubeconfig=str(kubeconfig), context=context))
        except StackError as fault:
            raise LabError(f"{fault}; KUBECONFIG names another file") from None
        directory = cache_directory() / "demo" / context.replace("/", "-")
        own_engine = engine.Engine(directory)
        own_engine.install()
        names = {"HEAVYLIFT_KUBECONFIG": str(kubeconfig), "HEAVYLIFT_KUBE_CONTEXT": context}
        return cls(kubeconfig, context, directory, {**own_engine.settings, **names})

    def project(self) -> Project:
        """Returns a copy of this program with the stack `dev`."""
        return Project.copy(CHECKOUT, self.directory / "program", self.environment, STACK)

    def kubectl(self, *words: str, text: str | None = None) -> dict[str, Any]:
        """Returns kubectl's JSON output."""
        program = shutil.which("kubectl") or kubectl()
        options = ("--kubeconfig", self.kubeconfig, "--context", self.context)
        found: dict[str, Any] = json.loads(run(program, *options, *words, text=text))
        return found

    def ask(self, endpoint: str, question: str, tokens: int = 32) -> str:
        """Returns the server's answer to a chat completion. The request goes through the API server and the Service.

        Retries for 20 s, because a Service gets its endpoints shortly after the pod becomes ready.
        """
        name, namespace, _ = endpoint.removeprefix("http://").split(".", 2)
        port = endpoint.rsplit(":", 1)[1].split("/")[0]
        path = f"/api/v1/namespaces/{namespace}/services/{name}:{port}/proxy/v1/chat/completions"
        message = {"role": "user", "content": question}
        body = json.dumps({"messages": [message], "max_tokens": tokens, "seed": 1, "temperature": 0.7})
        deadline = time.monotonic() + 20
        while True:
            try:
                answer = self.kubectl("create", "--raw", path, "-f", "-", text=body)
            except LabError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(1)
            else:
                return str(answer["choices"][0]["message"]["content"]).strip()


@dataclass
class Stopwatch:
    """The duration of each step, in order."""

    steps: dict[str, float] = field(default_factory=dict)

    def time(self, title: str, action: Callable[[], Result]) -> Result:
        """Prints the title, runs the action and records its duration."""
        say(title)
        started = time.monotonic()
        result = action()
        self.steps[title] = time.monotonic() - started
        return result

    def report(self) -> str:
        """Returns one line for each step."""
        return "\n".join(f"  {seconds:7.1f} s  {title}" for title, seconds in self.steps.items())


def seconds_between(earlier: str, later: str) -> float:
    """Returns the seconds between two timestamps of the API server."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(earlier)).total_seconds()


def inner_steps(target: Target, namespace: str) -> dict[str, float]:
    """Returns the duration of each step within `pulumi up`, from the cluster's timestamps (whole seconds)."""
    job = target.kubectl("get", "jobs", "-n", namespace, "-o", "json")["items"][-1]
    pods = target.kubectl("get", "pods", "-n", namespace, "-o", "json")["items"]
    [server] = [pod for pod in pods if pod["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"]
    [ready] = [each for each in server["status"]["conditions"] if each["type"] == "Ready"]
    return {
        "  of it: weights staged and verified by the Job": seconds_between(
            job["status"]["startTime"], job["status"]["completionTime"]
        ),
        "  of it: weights checked again, model loaded, server ready": seconds_between(
            server["metadata"]["creationTimestamp"], ready["lastTransitionTime"]
        ),
    }


def demonstrate(context: str | None) -> None:
    """Runs `pulumi up`, asks the model, and prints its answer and the duration of each step."""
    watch = Stopwatch()
    title = "use your own cluster" if context else "take up the lab: engine, cluster, hub"
    target = watch.time(title, lambda: Target.own(context) if context else Target.lab())
    project = target.project()
    up = watch.time(
        "pulumi up --stack dev", lambda: project.pulumi("up", "--stack", STACK, "--yes", "--skip-preview", shown=True)
    )
    if up.status:
        raise LabError("`pulumi up --stack dev` failed; its message is above")
    outputs = project.outputs()
    _, namespace, _ = outputs["endpoint"].removeprefix("http://").split(".", 2)
    watch.steps |= inner_steps(target, namespace)
    with reminding("waiting for the model's answer"):
        answer = watch.time("ask the model", lambda: target.ask(outputs["endpoint"], QUESTION))
    print(f"\n{outputs['model']} at {outputs['endpoint']}")
    print("(a base model of 270 million parameters: it continues a text, and knows little)\n")
    print(f"  question  {QUESTION}")
    print(f"  answer    {answer}\n")
    print(watch.report())
    print("\nIt goes on serving. To end it: make demo-down" + (f" CONTEXT={context}" if context else ""))


def remove(context: str | None) -> None:
    """Destroys the stack and removes its engine's directory. Without a context, also stops the lab."""
    if not context and not Lab().up:
        raise LabError("no lab is up, and so no demo")
    target = Target.own(context) if context else Target.lab()
    destroyed = target.project().pulumi("destroy", "--stack", STACK, "--yes", "--skip-preview", shown=True)
    if destroyed.status:
        raise LabError("`pulumi destroy --stack dev` failed; its message is above")
    if context:
        shutil.rmtree(target.directory)
    else:
        Lab().stop()


def main() -> int:
    """Returns 0 if the model answered, or 1 after one error message."""
    parser = argparse.ArgumentParser(prog="python -m lab.demo", description=__doc__)
    parser.add_argument("--context", help="a context of your own kubeconfig, instead of the lab")
    parser.add_argument("--down", action="store_true", help="remove what the demo made")
    arguments = parser.parse_args()
    try:
        (remove if arguments.down else demonstrate)(arguments.context)
    except LabError as problem:
        print(f"demo: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; run it again to go on where it stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
