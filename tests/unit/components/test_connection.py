"""Every kubeconfig that kubectl takes leads to the cluster, or says in one sentence why it does not."""

import json
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from components.cluster.api import ClusterApi, ClusterUnreachable
from tests.unit.components.api_server import api_server, kubeconfig

ANSWER: dict[str, Any] = {"kind": "Namespace"}
DOOR = "/api/v1/namespaces/kube-system"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """Of a server that answers whoever brings the token `sample`."""
    with api_server({DOOR: ANSWER}, status=403) as api:
        yield int(api._kubeconfig["clusters"][0]["cluster"]["server"].rpartition(":")[2])


def way(port: int, user: dict[str, Any], **cluster: Any) -> ClusterApi:
    document = kubeconfig(port)
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"] |= cluster
    return ClusterApi(document)


def refusal(api: ClusterApi) -> str:
    with pytest.raises(ClusterUnreachable) as caught:
        api.read(DOOR)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def plugin(folder: Path, script: str, **settings: Any) -> dict[str, Any]:
    """A user whose credentials a script prints."""
    file = folder / "plugin"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file), **settings}}


def credential(**status: str) -> str:
    text = json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})
    return f"cat <<'END'\n{text}\nEND"


def test_a_token_in_a_file_that_ends_with_a_line_break_is_read(port: int, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("sample\n")
    assert way(port, {"tokenFile": str(tmp_path / "token"), "token": "stale"}).read(DOOR) == ANSWER


def test_a_token_file_that_is_not_there_is_named(port: int, tmp_path: Path) -> None:
    assert f"{tmp_path}/none" in refusal(way(port, {"tokenFile": f"{tmp_path}/none"}))


def test_a_plugin_gives_the_token(port: int, tmp_path: Path) -> None:
    assert way(port, plugin(tmp_path, credential(token="sample"))).read(DOOR) == ANSWER


def test_a_plugin_is_asked_again_when_its_token_has_expired(port: int, tmp_path: Path) -> None:
    soon = (datetime.now(UTC) - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    count = f"echo x >> {tmp_path}/asked\n"
    api = way(port, plugin(tmp_path, count + credential(token="sample", expirationTimestamp=soon)))
    assert [api.read(DOOR), api.read(DOOR)] == [ANSWER, ANSWER]
    assert (tmp_path / "asked").read_text() == "x\nx\n"


def test_a_plugin_that_fails_is_the_reason_and_not_an_anonymous_refusal(port: int, tmp_path: Path) -> None:
    words = refusal(way(port, plugin(tmp_path, "echo 'the session has expired: run login' >&2; exit 255")))
    assert "failed: exec: process returned 255. the session has expired: run login" in words
    assert "of user 'test'" in words


def test_a_plugin_that_is_missing_is_named_with_how_to_install_it(port: int) -> None:
    settings = {"command": "no-such-plugin", "installHint": "see\nhttps://example.com"}
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **settings}}
    assert refusal(way(port, user)) == (
        "the plugin no-such-plugin of user 'test' is not installed; see https://example.com"
    )


@pytest.mark.parametrize("printed", ["echo nonsense", "echo '{}'", credential(), credential(clientKeyData="x")])
def test_a_plugin_that_prints_something_else_is_named(port: int, tmp_path: Path, printed: str) -> None:
    assert "plugin" in refusal(way(port, plugin(tmp_path, printed)))


def test_a_plugin_that_asks_questions_is_refused(port: int, tmp_path: Path) -> None:
    words = refusal(way(port, plugin(tmp_path, credential(token="sample"), interactiveMode="Always")))
    assert "asks questions" in words


def test_credentials_of_no_use_are_named_and_nobody_goes_on_without(port: int) -> None:
    stale = {"auth-provider": {"name": "oidc", "config": {"id-token": "no-token"}}}
    assert "log in again" in refusal(way(port, stale))


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "https://127.0.0.1:1", "certificate-authority-data": "no base64"},
        {"server": "https://127.0.0.1:1", "certificate-authority": "/not/there"},
        {"proxy-url": "127.0.0.1:1"},
        {"proxy-url": "socks5://127.0.0.1:1"},
        {"server": "https://no-such-host.invalid"},
    ],
)
def test_what_leads_nowhere_gets_one_line(port: int, cluster: dict[str, Any]) -> None:
    assert refusal(way(port, {"token": "sample"}, **cluster))


def test_a_cluster_behind_a_socks_proxy_is_reached_through_it(port: int) -> None:
    with socks_proxy() as (proxy, hosts):
        assert way(port, {"token": "sample"}, **{"proxy-url": f"socks5://127.0.0.1:{proxy}"}).read(DOOR) == ANSWER
    assert hosts == [f"127.0.0.1:{port}"]


def test_a_server_below_a_path_is_reached(port: int) -> None:
    api = way(port, {"token": "sample"}, server=f"http://127.0.0.1:{port}/api/v1/")
    assert api.read("/namespaces/kube-system") == ANSWER


@contextmanager
def socks_proxy() -> Iterator[tuple[int, list[str]]]:
    """A SOCKS 5 proxy (RFC 1928) for one connection to an IPv4 address: its port, and where it was led."""
    hosts: list[str] = []

    def serve(listener: socket.socket) -> None:
        client, _ = listener.accept()
        with client:
            client.recv(2 + client.recv(2, socket.MSG_PEEK)[1])
            client.sendall(b"\x05\x00")
            request = client.recv(10)
            host, port = socket.inet_ntoa(request[4:8]), int.from_bytes(request[8:10], "big")
            hosts.append(f"{host}:{port}")
            with socket.create_connection((host, port)) as server:
                client.sendall(b"\x05\x00\x00\x01" + request[4:10])
                _pass_on(client, server)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield listener.getsockname()[1], hosts
        thread.join(5)


def _pass_on(client: socket.socket, server: socket.socket) -> None:
    while True:
        ready, _, _ = select.select([client, server], [], [], 5)
        for source, target in ((client, server), (server, client)):
            if source in ready:
                data = source.recv(65536)
                if not data:
                    return
                target.sendall(data)
        if not ready:
            return
