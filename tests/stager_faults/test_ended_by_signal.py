"""A killed stager loses at most two blocks for each stream; after SIGTERM or SIGINT, a stager ends within seconds."""

import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import COMMIT, SHARD, StartStager
from .running import MIB, Stager, is_marked_complete

LARGE = 6 * SHARD
REFETCHED_PER_STREAM = 64 * MIB


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Waits until the condition is true, or fails."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("sent_mib", [1, 100, 210])
def test_a_killed_run_refetches_at_most_64_mib_for_each_stream(
    start: StartStager, hub: HubClient, tmp_path: Path, streams: int, sent_mib: int
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=150e6)
    options = ["--streams", str(streams)]
    first = start(*options, repository="acme/large")
    wait_until(lambda: hub.bytes_sent() >= sent_mib * MIB)
    first.process.kill()
    first.wait()
    assert not is_marked_complete(tmp_path / "tree")
    hub.clear_faults()
    wait_until(lambda: sum(log.bytes for log in hub.requests().values()) == hub.bytes_sent())
    time.sleep(0.2)
    before = hub.bytes_sent()
    hub.clear_requests()
    waited = start(*options, "--stall-seconds", "2", repository="acme/large").wait(120)
    assert waited.status == 0, waited.log
    refetched = before + hub.bytes_sent() - LARGE
    in_flight = 8 * MIB * streams
    assert refetched <= REFETCHED_PER_STREAM * streams + in_flight
    assert problems(tmp_path / "tree", full=True) == []


def test_kept_bytes_that_rotted_meanwhile_are_fetched_again(start: StartStager, hub: HubClient, tmp_path: Path) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=150e6)
    first = start("--streams", "1", repository="acme/large")
    wait_until(lambda: hub.bytes_sent() >= 150 * MIB)
    first.process.kill()
    first.wait()
    part = max((tmp_path / "tree/.heavylift/parts").rglob("*"), key=lambda path: path.stat().st_size)
    with part.open("r+b") as file:
        file.seek(70 * MIB)
        file.write(b"rotten")
    hub.clear_faults()
    hub.clear_requests()
    waited = start("--streams", "1", repository="acme/large").wait(120)
    assert waited.status == 0, waited.log
    assert LARGE - 64 * MIB <= hub.bytes_sent() <= LARGE - 64 * MIB + MIB, "all but the two blocks before it"
    assert problems(tmp_path / "tree", full=True) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("stalled", [False, True])
def test_a_run_that_is_told_to_stop_does_so_within_seconds_and_is_resumed(
    start: StartStager, hub: HubClient, tmp_path: Path, number: signal.Signals, stalled: bool
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=20e6)
    if stalled:
        hub.fault("stall", path="/storage/*", offset=20 * MIB, seconds=60)
    stager = start()
    wait_until(lambda: hub.bytes_sent() >= 15 * MIB)
    time.sleep(2 if stalled else 0)
    stager.process.send_signal(number)
    began = time.monotonic()
    ended = stager.wait(20)
    assert time.monotonic() - began < 8
    assert ended.status == 143
    assert ended.message == "stager: stopped; the next run goes on from here"
    assert "Traceback" not in ended.log
    assert not is_marked_complete(tmp_path / "tree")
    hub.clear_faults()
    resumed = start()
    assert resumed.wait().status == 0
    assert problems(tmp_path / "tree", full=True) == []


def test_a_stager_that_waits_for_its_server_stops_as_well(start: StartStager, hub: HubClient) -> None:
    hub.fault("status", path="/api/models/*", status=429, headers={"Retry-After": "300"})
    stager = start()
    wait_until(lambda: bool(hub.requests()))
    stager.process.send_signal(signal.SIGTERM)
    assert stager.wait(10).status == 143


def test_a_stager_of_which_every_connection_hangs_stops_as_well(start: StartStager, hub: HubClient) -> None:
    hub.fault("stall", path="/storage/*", offset=MIB, seconds=60)
    hub.fault("stall", path="/storage/*", offset=33 * MIB, seconds=60)
    stager = start(repository="acme/large")
    wait_until(lambda: hub.bytes_sent() >= MIB)
    time.sleep(1)
    stager.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert stager.wait(20).status == 143
    assert time.monotonic() - began < 8


SILENT_PHASES = {
    "list of files": ["stage", "--directory", "{tree}", "--repository", "acme/model", "--revision", COMMIT],
    "making a lock": ["lock", "acme/model", "--revision", COMMIT, "--output", "{lock}.new"],
    "mirror": ["mirror", "{lock}", "s3://models/mirror"],
}


@pytest.fixture
def silent_server() -> Iterator[socket.socket]:
    """Yields a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        yield server


@pytest.fixture
def huge_tree(tmp_path: Path) -> Path:
    """Creates a tree with a manifest of version 1 and a sparse file that takes minutes to hash."""
    size, digest = 1 << 38, "0" * 64
    tree = tmp_path / "tree"
    (tree / ".heavylift").mkdir(parents=True)
    with (tree / "model.gguf").open("wb") as file:
        file.truncate(size)
    manifest = {
        "version": 1,
        "repository": "acme/model",
        "revision": COMMIT,
        "commit": COMMIT,
        "files": [{"path": "model.gguf", "size": size, "sha256": digest, "mtime_ns": 1}],
        "total_bytes": size,
        "completed_at": "2026-01-01T00:00:00+00:00",
    }
    (tree / ".heavylift/manifest.json").write_text(json.dumps(manifest))
    return tree


def require_prompt_end(stager: Stager) -> None:
    """Sends SIGTERM, and checks the time until the end. Without the signal, the stager runs for 30 s or more."""
    stager.process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    ended = stager.wait(60)
    assert time.monotonic() - began < 8, "2 s, and some for a busy machine"
    assert ended.status == 143, ended.log
    assert "Traceback" not in ended.log


@pytest.mark.parametrize("phase", SILENT_PHASES)
def test_a_stager_whose_server_never_answers_stops(phase: str, silent_server: socket.socket, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    files = [{"path": "a", "size": 1, "sha256": "0" * 64}]
    head = {"version": 1, "repository": "acme/model", "revision": COMMIT, "commit": COMMIT}
    lock.write_text(json.dumps({**head, "files": files, "total_bytes": 1}))
    arguments = [argument.format(tree=tmp_path / "tree", lock=lock) for argument in SILENT_PHASES[phase]]
    url = f"http://127.0.0.1:{silent_server.getsockname()[1]}"
    s3 = {"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    stager = Stager(arguments, log_directory=tmp_path, HF_ENDPOINT=url, **s3)
    try:
        connection, _ = silent_server.accept()
        with connection:
            require_prompt_end(stager)
    finally:
        stager.process.kill()


@pytest.mark.parametrize("command", ["stage", "verify"])
def test_a_stager_that_hashes_a_tree_stops(command: str, huge_tree: Path, tmp_path: Path) -> None:
    arguments: dict[str, list[str | Path]] = {
        "stage": ["stage", "--directory", huge_tree, "--repository", "acme/model", "--revision", COMMIT],
        "verify": ["verify", huge_tree],
    }
    stager = Stager(arguments[command], log_directory=tmp_path)
    descriptors = Path(f"/proc/{stager.process.pid}/fd")
    try:
        wait_until(lambda: any(place.resolve() == huge_tree / "model.gguf" for place in descriptors.iterdir()))
        require_prompt_end(stager)
    finally:
        stager.process.kill()
    assert is_marked_complete(huge_tree), "nothing was found wrong yet"
