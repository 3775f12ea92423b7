"""Several nodes share one download: each byte leaves the hub once, and a faulty node costs only time."""

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from lab.hub.client import HubClient, running_hub
from stager.fleet import identity
from stager.listing import select
from stager.lockfile import read_lock

from .fleet import REPOSITORY, SECRET, SIZES, Nodes, repository
from .running import MIB

MakeNodes = Callable[[int], Nodes]


@pytest.fixture(scope="module")
def fleet_hub() -> Iterator[HubClient]:
    with running_hub({"repositories": {REPOSITORY: repository()}}) as hub:
        yield hub
        hub.close()


@pytest.fixture
def nodes(fleet_hub: HubClient, tmp_path: Path) -> MakeNodes:
    def make(count: int) -> Nodes:
        made = Nodes(fleet_hub, tmp_path, count)
        fleet_hub.clear_faults()
        fleet_hub.clear_requests()
        return made

    return make


def end(*stagers: subprocess.Popen[bytes]) -> list[int]:
    try:
        return [stager.wait(timeout=100) for stager in stagers]
    finally:
        for stager in stagers:
            stager.kill()


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_three_nodes_fetch_one_copy_together_and_then_end(nodes: MakeNodes) -> None:
    fleet = nodes(3)
    fleet.hub.fault("slow", path="/storage/*", bytes_per_second=8 * MIB)
    assert end(*[fleet.start(node) for node in range(3)]) == [0, 0, 0]
    assert all(fleet.is_complete(node) for node in range(3))
    assert fleet.hub.bytes_sent() <= 1.05 * fleet.total
    assert end(fleet.start(1)) == [0], "what is complete needs nobody"


def test_a_node_that_comes_late_takes_all_from_the_others(nodes: MakeNodes) -> None:
    fleet = nodes(3)
    early = [fleet.start(node, "--peer-seconds", "6") for node in range(2)]
    wait_until(lambda: all("stays for the nodes" in fleet.log(node) for node in range(2)))
    fleet.hub.clear_requests()
    assert end(fleet.start(2), *early) == [0, 0, 0]
    assert fleet.is_complete(2)
    assert fleet.hub.bytes_sent() == 0


def test_the_files_of_a_node_that_dies_are_fetched_by_the_others(nodes: MakeNodes) -> None:
    fleet = nodes(4)
    fleet.hub.fault("slow", path="/storage/*", bytes_per_second=4 * MIB)
    stagers = [fleet.start(node, "--peer-seconds", "5") for node in range(4)]
    wait_until(lambda: len(list(fleet.tree(3).glob("*.safetensors"))) > 0)
    stagers[3].kill()
    stagers[3].wait()
    stagers[3].wait()
    assert end(*stagers[:3]) == [0, 0, 0]
    assert all(fleet.is_complete(node) for node in range(3))
    assert fleet.hub.bytes_sent() <= 1.6 * fleet.total, "not every node fetches what the dead one had to"


def test_a_node_with_other_bytes_is_found_out_and_banished(nodes: MakeNodes) -> None:
    fleet = nodes(2)
    with liar(fleet) as address:
        addresses = ["http://127.0.0.1:" + str(fleet.ports[0]), address]
        stager = fleet.start(0, "--peer-seconds", "2", addresses=addresses)
        assert end(stager) == [0]
    assert fleet.is_complete(0)
    assert "node-1: gave wrong bytes of" in fleet.log(0)


def test_nodes_that_cannot_reach_each_other_stage_from_the_hub(nodes: MakeNodes) -> None:
    fleet = nodes(2)
    nowhere = ["http://127.0.0.1:9", "http://127.0.0.1:9"]
    own = [[f"http://127.0.0.1:{fleet.ports[0]}", nowhere[1]], [nowhere[0], f"http://127.0.0.1:{fleet.ports[1]}"]]
    stagers = [fleet.start(node, "--peer-seconds", "1", addresses=own[node]) for node in range(2)]
    assert end(*stagers) == [0, 0]
    assert fleet.is_complete(0)
    assert fleet.is_complete(1)
    assert "node-1: no answer for 1 s; the others fetch what it was to fetch" in fleet.log(0)


def test_a_stager_gives_verified_files_to_those_who_know_the_secret(nodes: MakeNodes) -> None:
    fleet = nodes(2)
    names = list(SIZES)
    fleet.hub.fault("stall", path=f"*{names[-1]}*", offset=100, seconds=3600)
    stager = fleet.start(0, "--peer-seconds", "1", "--stall-seconds", "100")
    base = f"http://127.0.0.1:{fleet.ports[0]}/{identity(read_lock(fleet.lock))}"
    wait_until(lambda: len(list(fleet.tree(0).glob("*.safetensors"))) == len(SIZES) - 1)
    listed = [file.path for file in select(read_lock(fleet.lock), []).files]
    done, stuck = listed.index(names[0]), listed.index(names[-1])

    assert ask(f"{base}/files/{done}", "Range: bytes=5-9", secret=SECRET) == (206, fleet.truth[names[0]][5:10])
    assert ask(f"{base}/files/{stuck}", "Range: bytes=5-9", secret=SECRET)[0] == 503, "not verified yet"
    assert done in json.loads(ask(f"{base}/status?since=0&node=1", secret=SECRET)[1])["have"]
    for secret in ("", "another-secret-of-16", SECRET + "x", SECRET[:-1], "\u00e9" * 20):
        assert ask(f"{base}/files/{done}", "Range: bytes=5-9", secret=secret)[0] == 401
        assert ask(f"{base}/status?since=0&node=1", secret=secret)[0] == 401
    for path in (
        "files/999",
        "files/-1",
        "files/..",
        "files/.heavylift/manifest.json",
        "status",
        "status?since=x&node=1",
        "",
    ):
        assert ask(f"{base}/{path}", "Range: bytes=5-9", secret=SECRET)[0] == 404, path
    for wanted in ("", "bytes=9-5", "bytes=0-99999999999", "bytes=-5", "bytes=0-1,3-4", "bytes=²-³"):
        assert ask(f"{base}/files/{done}", *([f"Range: {wanted}"] if wanted else []), secret=SECRET)[0] == 416, wanted
    stager.kill()
    stager.wait()


def ask(url: str, *headers: str, secret: str) -> tuple[int, bytes]:
    request = urllib.request.Request(url, headers=dict(header.split(": ", 1) for header in headers))
    request.add_header("Authorization", f"Bearer {secret}")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


class liar:
    """A node with the secret that offers all files, and sends zeros."""

    def __init__(self, fleet: Nodes) -> None:
        listing = select(read_lock(fleet.lock), [])

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                if "/status" in self.path:
                    since = int(self.path.partition("since=")[2].partition("&")[0])
                    status = {"run": "1", "have": list(range(len(listing.files)))[since:], "progress": 1, "done": True}
                    self.answer(200, json.dumps(status).encode())
                    return
                file = listing.files[int(self.path.rpartition("/")[2])]
                start, end = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
                where = f"bytes {start}-{end}/{file.size}"
                self.answer(206, bytes(end + 1 - start), **{"Content-Range": where})

            def answer(self, status: int, body: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
