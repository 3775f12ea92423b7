"""A server with an API key, which unloads an idle model, on a Gateway: llama.cpp's own server on the real node.

No controller runs the Gateway: the API server validates the route by the published definitions.
"""

import json
from collections.abc import Iterator

import pytest

from lab.build.cache import ensure
from lab.build.pieces import GATEWAY_API_PIECE
from lab.cluster.client import wait_until
from lab.hub.client import HubClient
from lab.lifecycle import Lab
from tests.lab.kubectl import Kubectl
from tests.lab.serving import Served, own_stack

NAMESPACE = "api-key"
FIRST_KEY, SECOND_KEY = "first-key-of-32-characters-00001", "second-key-of-32-characters-0002"


@pytest.fixture
def gateway_api(kubectl: Kubectl) -> Iterator[None]:
    """The definitions of Gateways and HTTPRoutes."""
    with kubectl.definitions(ensure(GATEWAY_API_PIECE)):
        yield


@pytest.fixture
def served(
    gateway_api: None,
    lab: Lab,
    hub: HubClient,
    kubectl: Kubectl,
    settings: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Served]:
    with own_stack(lab, kubectl, settings, hub.url, tmp_path_factory.mktemp("program"), NAMESPACE) as made:
        yield made


def set_key(served: Served, key: str) -> None:
    stored = served.project.pulumi("config", "set", "--secret", "heavylift:api_key", key, "--stack", "dev")
    assert stored.status == 0, stored


COMPLETION = ("/v1/completions", "--json", json.dumps({"prompt": "One,", "max_tokens": 1}))


def ask(served: Served, key: str | None, path: str, *options: str) -> str:
    """Returns what `curl` prints of a path, asked in the server's network with a key."""
    [pod] = [pod for pod in served.pods("server") if "deletionTimestamp" not in pod["metadata"]]
    header = ["--header", f"Authorization: Bearer {key}"] if key else []
    address = f"http://{pod['status']['podIP']}:8080{path}"
    return served.lab.on_node("real-0", "curl", "--silent", *header, *options, address)


def status(served: Served, key: str | None, path: str, *body: str) -> int:
    """Returns the HTTP status of a path, asked with a key."""
    return int(ask(served, key, path, "--output", "/dev/null", "--write-out", "%{http_code}", *body))


def wait_until_asleep(served: Served, key: str) -> None:
    """Waits until the server says that its idle model left the memory, which a question about it does not change."""
    wait_until(lambda: bool(json.loads(ask(served, key, "/props"))["is_sleeping"]), 60, "the idle model sleeps")


def test_only_clients_with_the_key_are_answered_and_another_key_starts_the_server_again(served: Served) -> None:
    set_key(served, FIRST_KEY)
    up = served.project.up()
    assert up.status == 0, up
    assert served.project.outputs()["answered"] == "yes", up
    assert [status(served, key, *COMPLETION) for key in (FIRST_KEY, SECOND_KEY, None)] == [200, 401, 401]
    assert [status(served, None, path) for path in ("/health", "/v1/models", "/metrics")] == [200, 401, 401]

    set_key(served, SECOND_KEY)
    expose = {"gateway": f"{NAMESPACE}/public", "hostname": "kimi.example.com"}
    served.project.configure(engine={"sleep_idle_seconds": 2}, expose=expose)
    refused = served.project.preview()
    assert f"heavylift:expose.gateway: '{NAMESPACE}/public' does not exist" in refused.output, refused
    listener = {"name": "https", "port": 80, "protocol": "HTTP"}
    gateway = {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": "public"}}
    spec = {"gatewayClassName": "none", "listeners": [listener]}
    served.kubectl.apply({**gateway, "spec": spec}, namespace=NAMESPACE)
    changed = served.project.up()
    assert changed.status == 0, changed
    wait_until_asleep(served, SECOND_KEY)
    assert status(served, None, "/health") == 200
    assert [status(served, key, *COMPLETION) for key in (FIRST_KEY, SECOND_KEY, None)] == [401, 200, 401]

    [route] = served.get("httproutes")
    [rule] = route["spec"]["rules"]
    assert {match["path"]["type"] for match in rule["matches"]} == {"Exact"}
    assert {match["path"]["value"] for match in rule["matches"]} >= {"/v1/chat/completions", "/v1/models"}
    [service] = served.get("services")
    [backend], [port] = rule["backendRefs"], service["spec"]["ports"]
    assert (backend["name"], backend["port"]) == (service["metadata"]["name"], port["port"])

    state = json.dumps(served.project.outputs())
    assert FIRST_KEY not in state
    assert SECOND_KEY not in state
    for said in (up, changed):
        assert FIRST_KEY not in str(said)
        assert SECOND_KEY not in str(said)
