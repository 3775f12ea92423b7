"""A server with an API key: llama.cpp's own server on the real node."""

import json
from collections.abc import Iterator

import pytest

from lab.hub.client import HubClient
from lab.lifecycle import Lab
from tests.lab.kubectl import Kubectl
from tests.lab.serving import Served, own_stack

NAMESPACE = "api-key"
FIRST_KEY, SECOND_KEY = "first-key-of-32-characters-00001", "second-key-of-32-characters-0002"


@pytest.fixture
def served(
    lab: Lab, hub: HubClient, kubectl: Kubectl, settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    with own_stack(lab, kubectl, settings, hub.url, tmp_path_factory.mktemp("program"), NAMESPACE) as made:
        yield made


def set_key(served: Served, key: str) -> None:
    stored = served.project.pulumi("config", "set", "--secret", "heavylift:api_key", key, "--stack", "dev")
    assert stored.status == 0, stored


COMPLETION = ("/v1/completions", "--json", json.dumps({"prompt": "One,", "max_tokens": 1}))


def status(served: Served, key: str | None, path: str, *body: str) -> int:
    """Returns the HTTP status of a path, asked in the server's network with a key."""
    [pod] = [pod for pod in served.pods("server") if "deletionTimestamp" not in pod["metadata"]]
    header = ["--header", f"Authorization: Bearer {key}"] if key else []
    address = f"http://{pod['status']['podIP']}:8080{path}"
    shown = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]
    return int(served.lab.on_node("real-0", "curl", *shown, *header, *body, address))


def test_only_clients_with_the_key_are_answered_and_another_key_starts_the_server_again(served: Served) -> None:
    set_key(served, FIRST_KEY)
    up = served.project.up()
    assert up.status == 0, up
    assert served.project.outputs()["answered"] == "yes", up
    assert [status(served, key, *COMPLETION) for key in (FIRST_KEY, SECOND_KEY, None)] == [200, 401, 401]
    assert [status(served, None, path) for path in ("/health", "/v1/models", "/metrics")] == [200, 401, 401]

    set_key(served, SECOND_KEY)
    changed = served.project.up()
    assert changed.status == 0, changed
    assert [status(served, key, *COMPLETION) for key in (FIRST_KEY, SECOND_KEY, None)] == [401, 200, 401]

    state = json.dumps(served.project.outputs())
    assert FIRST_KEY not in state
    assert SECOND_KEY not in state
    for said in (up, changed):
        assert FIRST_KEY not in str(said)
        assert SECOND_KEY not in str(said)
