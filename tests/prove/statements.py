"""What is proved of a server of real vLLM, each statement with its figure."""

import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from config.catalogue import engine_flags
from config.engine_name import EngineName
from engines.process import DEREGISTRATION_SECONDS, EXIT_SECONDS
from engines.vllm.process import KEYED
from lab import project
from tests.lab.reaching import Reaching, client
from tests.metric_queries import asked, queries_of, series_of
from tests.prove.command_lines import committed_lines, flags_of
from tests.prove.server import API_PORT, EnginePod, Listening
from tests.prove.stacks import CONTEXT, REPOSITORY, Stack

NO_CAPABILITIES = "0" * 16
STREAM_SECONDS = 25
"""Longer than the 15 s after which vLLM gets SIGTERM."""
MEASURED_TOKENS = 500
FRAMEWORK_PAGES = ("/docs", "/openapi.json", "/redoc")
"""Pages that FastAPI adds, which `/openapi.json` does not list."""
PROTECTED = ("/v1", "/inference")
"""Where vLLM asks for the key."""
OUTSIDE = "outside"


class Statements:
    """Prints one line for each statement, and remembers the false ones."""

    def __init__(self) -> None:
        self.proven, self.false, self.unproven = 0, list[str](), list[str]()

    def prove(self, statement: str, figure: object, *, holds: bool) -> None:
        """Prints a statement with its figure."""
        if holds:
            self.proven += 1
        else:
            self.false.append(statement)
        print(f"{'proven' if holds else 'FALSE':<8} {statement}: {figure}", flush=True)

    def leave(self, statement: str, figure: object) -> None:
        """Prints a statement that cannot be proved here."""
        self.unproven.append(statement)
        print(f"{'unproven':<8} {statement}: {figure}", flush=True)


def prove_answers(said: Statements, stack: Stack, up: project.Answer, leader: EnginePod) -> dict[str, Any]:
    """The server starts and answers, and only clients with the key get an answer. Returns the list of models."""
    first = re.search(r"first answer after ([\d.]+ s)", up.output)
    said.prove("`pulumi up` got a first answer", first[1] if first else up, holds=first is not None)
    healthy = leader.ask("/health", with_key=False)
    said.prove("/health answers without the key", f"HTTP {healthy.status}", holds=healthy.status == 200)
    listed: dict[str, Any] = leader.ask("/v1/models").content
    names = [model["id"] for model in listed["data"]]
    said.prove("the model is served under the repository's name", names, holds=names == [REPOSITORY])
    question = {"messages": [{"role": "user", "content": "1 + 1 ="}], "model": REPOSITORY}
    body = {**question, "max_tokens": 8, "ignore_eos": True}
    began = time.monotonic()
    chat = leader.ask("/v1/chat/completions", body)
    tokens = chat.content.get("usage", {}).get("completion_tokens")
    figure = f"{tokens} tokens in {time.monotonic() - began:.1f} s"
    said.prove("a chat completion has the tokens that were asked for", figure, holds=tokens == 8)
    refused = leader.ask("/v1/chat/completions", body, with_key=False).status
    said.prove("a chat completion without the key is refused", f"HTTP {refused}", holds=refused == 401)
    return listed


def prove_arguments(said: Statements, pod: EnginePod) -> list[str]:
    """vLLM's own parser takes the command lines of all committed stacks. Returns its flags."""
    lines = [(name, line) for name, group in committed_lines().items() for line in group]
    parsed = pod.run("parse_arguments.py", json.dumps([line for _, line in lines]))
    flags: list[str] = parsed["flags"]
    own = flags_of(pod.engine["args"])
    figure = f"{len(own)} flags: {' '.join(sorted(own))}"
    said.prove("this server's flags are the parser's", figure, holds=own <= set(flags))
    faults = {name: fault for (name, _), fault in zip(lines, parsed["faults"], strict=True) if fault}
    figure = f"{len(lines)} lines of {len(committed_lines())} stacks" if not faults else f"{faults}"
    said.prove("the parser accepts the command lines of all committed stacks", figure, holds=not faults)
    newer = set(engine_flags(EngineName.VLLM).flags) - set(flags)
    release = engine_flags(EngineName.VLLM).version
    if newer:
        said.leave(f"flags of vLLM {release} that this release does not have", " ".join(sorted(newer)))
    return flags


def prove_restricted(said: Statements, pod: EnginePod, found: dict[str, Any]) -> None:
    """Every process of the pod has the rights of the level `restricted`, by the kernel's own account."""
    processes = found["processes"]
    names = sorted({process["Name"] for process in processes})
    users = {word for process in processes for word in process["Uid"].split()}
    said.prove(
        f"{pod.name}: no process is root", f"uid {users}, {len(processes)} processes {names}", holds="0" not in users
    )
    capabilities = {process[name] for process in processes for name in ("CapEff", "CapBnd")}
    said.prove(f"{pod.name}: no process has a capability", capabilities, holds=capabilities == {NO_CAPABILITIES})
    gains = {process["NoNewPrivs"] for process in processes}
    said.prove(f"{pod.name}: no process can gain rights", f"NoNewPrivs {gains}", holds=gains == {"1"})
    seccomp = {process["Seccomp"] for process in processes}
    said.prove(f"{pod.name}: system calls are filtered", f"Seccomp {seccomp}", holds=seccomp == {"2"})
    writable = found["root_is_writable"]
    said.prove(f"{pod.name}: the root is read-only", f"writable: {writable}", holds=not writable)


def prove_metrics(said: Statements, leader: EnginePod) -> str:
    """The dashboard and the alerts ask for metrics that the server has. Returns the page."""
    page = leader.ask("/metrics", with_key=False).text
    wanted = {name for expression in queries_of(EngineName.VLLM).expressions() for name in asked(expression)}
    own = {name for name in wanted if name.startswith("vllm:")}
    missing = sorted(own - series_of(page))
    figure = f"missing: {missing}" if missing else f"{len(own)} of {len(series_of(page))} series"
    said.prove("each metric of the dashboard and the alerts is on the server's page", figure, holds=not missing)
    return page


def prove_open_paths(said: Statements, leader: EnginePod) -> dict[str, list[int]]:
    """The preview names the paths that need no key. Returns the HTTP status of each route without and with the key."""
    described = leader.ask("/openapi.json", with_key=False).content["paths"]
    routes = [(path, method.upper()) for path, methods in described.items() for method in methods]
    routes += [(page, "GET") for page in FRAMEWORK_PAGES]
    statuses = {}
    for path, method in routes:
        body: dict[str, object] | None = {} if method == "POST" else None
        filled = re.sub(r"{\w+}", "none", path)
        asked_twice = [leader.ask(filled, body, method=method, with_key=key).status for key in (False, True)]
        statuses[f"{method} {path}"] = asked_twice
    closed = {route.split()[1] for route, (without, _) in statuses.items() if without == 401}
    protected = {path for path, _ in routes if path.startswith(PROTECTED)}
    said.prove("vLLM asks for the key below /v1 and /inference only", f"{len(closed)} paths", holds=closed == protected)
    locked_out = sorted(route for route, (_, with_key) in statuses.items() if with_key == 401)
    said.prove("the key opens every path", locked_out or f"{len(statuses)} routes", holds=not locked_out)
    opened = {path for path, _ in routes} - closed
    named = set(KEYED.open_paths)
    said.prove("the open paths that a preview names are open", " ".join(sorted(named)), holds=named <= opened)
    prompt = {"model": REPOSITORY, "prompt": "1", "max_tokens": 1}
    computed = leader.ask("/invocations", prompt, with_key=False).status
    said.prove("/invocations computes without the key", f"HTTP {computed}", holds=computed == 200)
    print(f"{'':<8} open, and not named: {' '.join(sorted(opened - named))}")
    return statuses


def prove_ports(said: Statements, stack: Stack, pods: list[EnginePod], heard: list[Listening]) -> None:
    """A NetworkPolicy closes every port but the API's to other pods, and the ranks of a group reach one another."""
    kubectl, namespace = stack.kubectl, stack.scenario.namespace
    policies = kubectl.get("networkpolicies", "-n", namespace)["items"]
    roles = sorted(policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/component"] for policy in policies)
    said.prove("server and Job have a NetworkPolicy", roles, holds={"server", "stage"} <= set(roles))
    for pod, listening in zip(pods, heard, strict=True):
        print(f"{'':<8} {pod.name} listens: {json.dumps(listening.sockets)}")
    leader, *workers = pods
    answering = [pod.name for pod, listening in zip(pods, heard, strict=True) if API_PORT in listening.reachable]
    said.prove(f"only the leader listens at port {API_PORT}", answering, holds=answering == [leader.name])
    kubectl("create", "namespace", OUTSIDE)
    kubectl.apply(client("stranger", leader.node), namespace=OUTSIDE)
    kubectl.wait("pod", "stranger", "-n", OUTSIDE, "--for=condition=Ready")
    reaches = Reaching(kubectl)
    for pod, listening in zip(pods, heard, strict=True):
        ports = listening.reachable
        reached = [port for port in ports if reaches(OUTSIDE, "stranger", pod.address, port)]
        figure = f"{reached} of {len(ports)} ports"
        expected = [API_PORT] if pod is leader else []
        said.prove(f"a pod outside reaches of {pod.name} the API only", figure, holds=reached == expected)
    for worker in workers:
        ports = heard[0].reachable
        reached = [port for port in ports if reaches(namespace, worker.name, leader.address, port)]
        figure = f"{len(reached)} of {len(ports)} ports"
        said.prove(f"{worker.name} reaches the leader's ports", figure, holds=tuple(reached) == ports)
    kubectl("delete", "namespace", OUTSIDE)


def prove_drain(said: Statements, leader: EnginePod, deleted: EnginePod) -> None:
    """A stream that runs while a pod is deleted ends whole, and the processes end within the grace period.

    Leaves the stream unproven if it took longer than the drain: vLLM then ends it.
    """
    body = {"model": REPOSITORY, "prompt": "1 2 3", "ignore_eos": True}
    began = time.monotonic()
    leader.stream({**body, "max_tokens": MEASURED_TOKENS})
    rate = MEASURED_TOKENS / (time.monotonic() - began)
    tokens = min(round(rate * STREAM_SECONDS), CONTEXT - 100)
    with ThreadPoolExecutor() as clients:
        began = time.monotonic()
        streamed = clients.submit(leader.stream, {**body, "max_tokens": tokens})
        while not leader.running() and not streamed.done():
            time.sleep(0.2)
        ended = clients.submit(deleted.terminated)
        events = streamed.result()
        lasted = time.monotonic() - began
        gone = ended.result()
    whole = bool(events) and events[-1] == "[DONE]" and lasted > DEREGISTRATION_SECONDS
    ending = [json.loads(event) for event in events[-2:-1]] if whole else []
    answered = sum(event["usage"]["completion_tokens"] for event in ending if event.get("usage"))
    longest = leader.grace_seconds - EXIT_SECONDS
    figure = f"{answered or len(events)} of {tokens} tokens in {lasted:.0f} s, of {longest} s at most"
    statement = f"a stream ends whole while {deleted.name} is deleted"
    if lasted < longest or answered == tokens:
        said.prove(statement, figure, holds=answered == tokens)
    else:
        said.leave(statement, figure)
    figure = f"{gone:.0f} s of {deleted.grace_seconds} s"
    said.prove(f"{deleted.name} ends before it would be killed", figure, holds=gone < deleted.grace_seconds)
