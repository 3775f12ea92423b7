"""A stager that is ended, at any byte, loses next to nothing; one that is asked to end does so within seconds."""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import SHARD, StartStager
from .running import MIB, is_marked_complete

LARGE = 6 * SHARD
REFETCHED_PER_STREAM = 64 * MIB


def wait_until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for it, or fail."""
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
