"""Several processes fetch the files of one run: as right, as prompt and as harmless as one."""

import os
import signal
import time
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import SHARD, RunStager, StartStager
from .running import MIB, Stager, is_marked_complete, manifest_of
from .test_ended_by_signal import wait_until

TWO = ("--processes", "2")


def workers_of(stager: Stager) -> list[int]:
    """Returns the worker processes, once both are there."""
    found: list[int] = []

    def both() -> bool:
        of_threads = [path.read_text() for path in Path(f"/proc/{stager.process.pid}/task").glob("*/children")]
        children = " ".join(of_threads).split()
        found[:] = [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]
        return len(found) == 2

    wait_until(both)
    return found


def is_running(process: int) -> bool:
    """Returns whether the process runs; one that has ended may still have its number."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_two_processes_fetch_each_byte_once(stage: RunStager, hub: HubClient, tmp_path: Path) -> None:
    ended = stage(*TWO)
    assert ended.status == 0, ended.log
    assert "fetching with 2 processes" in ended.log
    assert ended.log.count("hash is right") == 2, "what workers say is said"
    assert "100% re-used" not in ended.log
    assert 2 * SHARD < hub.bytes_sent() < 2 * SHARD + 1000
    assert manifest_of(tmp_path / "tree")["source"] == f"hub {hub.url}"
    assert problems(tmp_path / "tree", full=True) == []


def test_both_processes_fetch_at_the_same_time(start: StartStager, hub: HubClient) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=20e6)
    stager = start(*TWO, "--streams", "2")
    workers = workers_of(stager)

    def written(worker: int) -> int:
        lines = Path(f"/proc/{worker}/io").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("wchar")).split()[1])

    wait_until(lambda: all(written(worker) > 5 * MIB for worker in workers))
    assert stager.wait().status == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_all_processes_within_seconds(
    start: StartStager, hub: HubClient, tmp_path: Path, number: signal.Signals
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=10e6)
    stager = start(*TWO)
    workers = workers_of(stager)
    wait_until(lambda: hub.bytes_sent() > 10 * MIB)
    for process in (stager.process.pid, *workers):  # a terminal sends SIGINT to all
        os.kill(process, number)
    began = time.monotonic()
    ended = stager.wait(20)
    assert time.monotonic() - began < 8, "2 s, and some for a busy machine"
    assert (ended.status, ended.message) == (143, "stager: stopped; the next run goes on from here")
    assert "Traceback" not in ended.log
    assert not any(map(is_running, workers))
    assert not is_marked_complete(tmp_path / "tree")
    hub.clear_faults()
    resumed = start(*TWO)
    assert resumed.wait().status == 0
    assert problems(tmp_path / "tree", full=True) == []


def test_workers_end_with_a_parent_that_is_killed(start: StartStager, hub: HubClient) -> None:
    hub.fault("stall", path="/storage/*", offset=MIB, seconds=60)
    stager = start(*TWO)
    workers = workers_of(stager)
    wait_until(lambda: hub.bytes_sent() > MIB)
    stager.process.kill()
    wait_until(lambda: not any(map(is_running, workers)), seconds=5)


def test_a_worker_that_is_killed_ends_the_run_and_the_next_goes_on(
    start: StartStager, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=40e6)
    stager = start(*TWO, "--streams", "2")
    workers = workers_of(stager)
    wait_until(lambda: hub.bytes_sent() > 70 * MIB)
    os.kill(workers[0], signal.SIGKILL)
    ended = stager.wait(20)
    assert ended.status == 75
    assert ended.message == (
        "stager: a worker process was ended by SIGKILL; SIGKILL often means that the memory is used up"
    )
    assert not any(map(is_running, workers))
    hub.clear_faults()
    hub.clear_requests()
    resumed = start(*TWO).wait()
    assert resumed.status == 0, resumed.log
    assert hub.bytes_sent() <= SHARD, "most of it was there"
    assert problems(tmp_path / "tree", full=True) == []


def test_files_that_fail_in_different_processes_are_all_named(stage: RunStager, hub: HubClient, tmp_path: Path) -> None:
    hub.fault("flip", path="/storage/*model-00001*", offset=MIB)
    hub.fault("flip", path="/storage/*model-00002*", offset=MIB)
    ended = stage(*TWO)
    assert ended.status == 1
    assert all(f"model-0000{place}-of-00002.safetensors: wrong content from hub" in ended.message for place in (1, 2))
    assert not is_marked_complete(tmp_path / "tree")


def test_a_source_that_does_not_answer_one_of_them_ends_the_run(stage: RunStager, hub: HubClient) -> None:
    hub.fault("status", path="*model-00001*", status=403)
    ended = stage(*TWO)
    assert ended.status == 1, ended.log
    assert "model-00001-of-00002.safetensors: " in ended.message
    assert "Traceback" not in ended.log


def test_a_parent_that_was_frozen_longer_than_its_lease_damages_nothing(
    start: StartStager, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=10e6)
    frozen = start(*TWO)
    workers = workers_of(frozen)
    wait_until(lambda: hub.bytes_sent() > 10 * MIB)
    frozen.process.send_signal(signal.SIGSTOP)
    hub.clear_faults()
    successor = start(*TWO).wait()
    assert successor.status == 0, successor.log
    assert "is at work in" in successor.log
    frozen.process.send_signal(signal.SIGCONT)
    assert "Traceback" not in frozen.wait().log
    assert not any(map(is_running, workers))
    assert problems(tmp_path / "tree", full=True) == []


def test_workers_that_run_on_while_their_parent_is_frozen_write_nothing_once_the_lease_is_over(
    start: StartStager, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=5e6)
    frozen = start(*TWO)
    workers_of(frozen)
    wait_until(lambda: hub.bytes_sent() > 5 * MIB)
    frozen.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5)  # the lease has two seconds

    def sizes() -> list[int]:
        return [path.stat().st_size for path in sorted((tmp_path / "tree/.heavylift/parts").rglob("*"))]

    before = sizes()
    time.sleep(1)
    assert sizes() == before
    frozen.process.send_signal(signal.SIGCONT)
    assert frozen.wait().status == 75


def test_a_fleet_is_one_process(stage: RunStager, tmp_path: Path) -> None:
    lock = tmp_path / "lock.json"
    peers = [option for name in "ab" for option in ("--peer", f"{name}=http://{name}:1234")]
    ended = stage("--lock", lock, *peers, "--node", "a", "--processes", "2", STAGER_FLEET_SECRET="s" * 16)
    assert ended.status == 2
    assert ended.message == "stager: --processes 2 with --peer: expected 1, which serves the other nodes too"
