"""A server of real vLLM in a lab: what its pods answer, and what they say of themselves."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from lab.lifecycle import Lab
from tests.lab.kubectl import Kubectl

IN_POD = Path(__file__).parent / "in_pod"
API_PORT = 8000
ANSWER_SECONDS = 300
"""A first completion on two busy cores takes a minute."""
CURL = ("curl", "--silent", "--max-time", str(ANSWER_SECONDS), "--write-out", "\n%{http_code}")
WHATEVER_IT_RETURNS = ("sh", "-c", '"$@" || true', "sh")
"""A stream that broke has told something before."""


@dataclass(frozen=True)
class Answer:
    """A response of the API."""

    status: int
    text: str

    @property
    def content(self) -> Any:
        """The response's JSON."""
        return json.loads(self.text)


@dataclass(frozen=True)
class Listening:
    """The TCP sockets that a pod listens on."""

    sockets: Mapping[str, Mapping[str, int]]
    """Number of sockets by place (`everywhere`, `pod`, `loopback`) and port, or `random` for one of the kernel's."""
    reachable: tuple[int, ...]
    """Ports that are not at the loopback address only."""

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> "Listening":
        """Reads what `read_processes.py` found."""
        lowest, highest = found["random_ports"]
        places: dict[str, Counter[str]] = {}
        for address, port in found["listening"]:
            name = "random" if lowest <= port <= highest else str(port)
            places.setdefault(_place(address), Counter())[name] += 1
        reachable = {port for address, port in found["listening"] if _place(address) != "loopback"}
        return cls({place: dict(sorted(places[place].items())) for place in sorted(places)}, tuple(sorted(reachable)))


class EnginePod:
    """One pod of the server."""

    def __init__(self, kube: Kubectl, lab: Lab, key: str, manifest: Mapping[str, Any]) -> None:
        self._kube, self._lab, self._key = kube, lab, key
        self.name: str = manifest["metadata"]["name"]
        self.namespace: str = manifest["metadata"]["namespace"]
        self.address: str = manifest["status"]["podIP"]
        self.node: str = manifest["spec"]["nodeName"]
        [self.engine] = manifest["spec"]["containers"]
        self.grace_seconds: int = manifest["spec"]["terminationGracePeriodSeconds"]

    def run(self, program: str, text: str = "") -> Any:
        """Runs a program of `in_pod` in the engine's container, and returns the JSON of its last line."""
        words = ("exec", "-i", "-n", self.namespace, self.name, "-c", "engine", "--", "python3", "-c")
        said = self._kube(*words, (IN_POD / program).read_text(), text=text)
        return json.loads(said.strip().splitlines()[-1])

    def ask(self, path: str, body: object = None, *, method: str | None = None, with_key: bool = True) -> Answer:
        """Returns the response of a path of the API, asked from the pod's node."""
        words = ["--request", method or ("GET" if body is None else "POST")]
        words += ["--header", f"Authorization: Bearer {self._key}"] if with_key else []
        words += [] if body is None else ["--json", json.dumps(body)]
        text, _, status = self._lab.on_node(self.node, *CURL, *words, self._url(path)).rpartition("\n")
        return Answer(int(status), text)

    def stream(self, body: Mapping[str, object]) -> list[str]:
        """Returns the events of a completion that is streamed, as far as they came."""
        options = {"stream": True, "stream_options": {"include_usage": True}}
        words = ("--header", f"Authorization: Bearer {self._key}", "--json", json.dumps({**body, **options}))
        said = self._lab.on_node(self.node, *WHATEVER_IT_RETURNS, *CURL, *words, self._url("/v1/completions"))
        return [event.removeprefix("data: ") for event in said.splitlines() if event.startswith("data: ")]

    def running(self) -> int:
        """Returns the number of requests that are computed."""
        lines = self.ask("/metrics").text.splitlines()
        return sum(int(float(line.split()[-1])) for line in lines if line.startswith("vllm:num_requests_running{"))

    def terminated(self) -> float:
        """Deletes the pod and returns the seconds until its last process ended."""
        began = time.monotonic()
        # kubectl watches: to ask again and again would take the processor from the stream.
        self._kube("delete", "pod", "-n", self.namespace, self.name, f"--timeout={self.grace_seconds + 60}s")
        return time.monotonic() - began

    def _url(self, path: str) -> str:
        return f"http://{self.address}:{API_PORT}{path}"


def _place(address: str) -> str:
    parsed = ip_address(address)
    if parsed.is_unspecified:
        return "everywhere"
    return "loopback" if parsed.is_loopback else "pod"
