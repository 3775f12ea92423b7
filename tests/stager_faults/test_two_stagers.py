"""One writer for each directory: the second waits and finds all files staged, or takes over after a dead one."""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.errors import StagerError, Stopped
from stager.lease import Lease
from stager.verify import problems

from .conftest import SHARD, StartStager
from .small_share import Share
from .test_ended_by_signal import wait_until

QUICK = 2.0


def test_a_second_stager_waits_says_for_whom_and_finds_the_work_done(start: StartStager, hub: HubClient) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=40e6)
    first = start()
    wait_until(lambda: hub.bytes_sent() > 0)
    second = start()
    ended = second.wait()
    assert first.wait().status == 0
    assert ended.status == 0
    assert f"process {first.process.pid}" in ended.log
    assert "is at work in" in ended.log
    assert "already staged" in ended.log
    assert hub.bytes_sent() < 2 * SHARD + 1000


def test_four_stagers_at_once_fetch_every_byte_once(start: StartStager, hub: HubClient) -> None:
    stagers = [start() for _ in range(4)]
    assert [stager.wait().status for stager in stagers] == [0, 0, 0, 0]
    assert hub.bytes_sent() < 2 * SHARD + 1000


def test_a_waiting_stager_can_be_stopped(start: StartStager, hub: HubClient) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=5e6)
    first = start()
    wait_until(lambda: hub.bytes_sent() > 0)
    second = start()
    time.sleep(1.5)
    second.process.send_signal(signal.SIGTERM)
    assert second.wait(5).status == 143
    assert first.process.poll() is None


@pytest.fixture
def stop_event() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def lease(directory: Path, stop_event: threading.Event, said: list[str] | None = None, seconds: float = QUICK) -> Lease:
    said = [] if said is None else said
    return Lease(directory, say=said.append, stop_event=stop_event, seconds=seconds)


def test_a_lease_that_is_given_back_is_taken_at_once(tmp_path: Path, stop_event: threading.Event) -> None:
    with lease(tmp_path, stop_event):
        pass
    began = time.monotonic()
    with lease(tmp_path, stop_event):
        assert time.monotonic() - began < QUICK / 2


def test_a_lease_whose_counter_stands_still_is_taken_over(tmp_path: Path, stop_event: threading.Event) -> None:
    child = os.fork()
    if child == 0:
        lease(tmp_path, stop_event).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    began = time.monotonic()
    said: list[str] = []
    with lease(tmp_path, stop_event, said) as taken:
        assert time.monotonic() - began >= QUICK
        taken.require()
    assert len(said) == 1
    assert f"process {child}" in said[0]


def test_a_living_holder_is_waited_for_however_long_it_takes(tmp_path: Path, stop_event: threading.Event) -> None:
    with lease(tmp_path, stop_event):
        impatient = threading.Event()
        threading.Timer(3 * QUICK, impatient.set).start()
        with pytest.raises(Stopped):
            lease(tmp_path, impatient).__enter__()


def test_a_holder_that_was_frozen_finds_that_it_lost_the_lease(tmp_path: Path, stop_event: threading.Event) -> None:
    frozen = lease(tmp_path, stop_event, seconds=7200)
    frozen.__enter__()
    frozen.require()
    with lease(tmp_path, stop_event):
        frozen._bump()
        with pytest.raises(StagerError, match="another stager"):
            frozen.require()


def test_a_holder_that_could_not_renew_in_time_does_not_write(tmp_path: Path, stop_event: threading.Event) -> None:
    held = lease(tmp_path, stop_event, seconds=0.3)
    held.__enter__()
    held._done.set()
    time.sleep(0.3)
    with pytest.raises(StagerError, match="could not be renewed"):
        held.require()


def test_of_many_waiters_only_one_takes_over_an_abandoned_lease(tmp_path: Path, stop_event: threading.Event) -> None:
    child = os.fork()
    if child == 0:
        lease(tmp_path, stop_event).__enter__()
        os._exit(0)
    os.waitpid(child, 0)
    holding, most = 0, 0
    lock = threading.Lock()

    def hold() -> None:
        nonlocal holding, most
        with lease(tmp_path, stop_event):
            with lock:
                holding += 1
                most = max(most, holding)
            time.sleep(0.05)
            with lock:
                holding -= 1

    threads = [threading.Thread(target=hold) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert len(list((tmp_path / ".heavylift").iterdir())) == 1, "nothing but the last lease is left behind"


def test_a_waiter_whose_directory_is_moved_away_makes_it_anew(tmp_path: Path, stop_event: threading.Event) -> None:
    place, elsewhere = tmp_path / "place", tmp_path / "elsewhere"
    said: list[str] = []
    holder, waiter = lease(place, stop_event), lease(place, stop_event, said)
    holder.__enter__()
    waiting = threading.Thread(target=waiter.__enter__)
    waiting.start()
    wait_until(lambda: bool(said))
    holder.move_directory(elsewhere)
    waiting.join()
    before = (place / ".heavylift/lease.1").read_text()
    holder.release()
    assert (place / ".heavylift/lease.1").read_text() == before, "the mover writes nothing where it is no longer"
    waiter.require()
    waiter.release()
    assert [path.name for path in (elsewhere / ".heavylift").glob("lease.*")] == ["lease.1"]


def test_a_holder_that_lost_its_lease_moves_nothing(tmp_path: Path, stop_event: threading.Event) -> None:
    held = lease(tmp_path / "place", stop_event, seconds=0.3)
    held.__enter__()
    held._done.set()
    time.sleep(0.3)
    with pytest.raises(StagerError, match="could not be renewed"):
        held.move_directory(tmp_path / "elsewhere")
    assert (tmp_path / "place").exists()


def test_whoever_waits_says_so_again_and_again(
    tmp_path: Path, stop_event: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stager.lease.REMINDER_SECONDS", 0.5)
    said: list[str] = []
    with lease(tmp_path, stop_event):
        impatient = threading.Event()
        threading.Timer(2, impatient.set).start()
        with pytest.raises(Stopped):
            lease(tmp_path, impatient, said).__enter__()
    assert len(said) >= 3
    assert f"process {os.getpid()}" in said[-1]
    assert f"is at work in {tmp_path}" in said[-1]


def test_a_torn_lease_is_waited_out(tmp_path: Path, stop_event: threading.Event) -> None:
    (tmp_path / ".heavylift").mkdir()
    (tmp_path / ".heavylift/lease.7").write_bytes(b'{"holder": "cut o')
    with lease(tmp_path, stop_event):
        assert (tmp_path / ".heavylift/lease.8").exists()


def test_another_name_of_the_lease_is_not_written_through(tmp_path: Path, stop_event: threading.Event) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    said: list[str] = []
    with lease(tmp_path / "place", stop_event, said, seconds=0.6) as held:
        own = tmp_path / "place/.heavylift/lease.1"
        own.unlink()
        own.hardlink_to(victim)
        wait_until(lambda: bool(said))
        assert said[0] == "lease: another file has its name; trying again"
        time.sleep(0.6)
        with pytest.raises(StagerError, match="could not be renewed"):
            held.require()
    assert victim.read_bytes() == b"precious"


def test_a_holder_that_gave_the_lease_back_may_write_no_more(tmp_path: Path, stop_event: threading.Event) -> None:
    with lease(tmp_path, stop_event) as held:
        held.require()
    with pytest.raises(StagerError, match="lease"):
        held.require()


def test_a_lease_that_is_left_makes_the_next_one_wait_and_take_nothing_over(
    tmp_path: Path, stop_event: threading.Event
) -> None:
    """A write that cannot be interrupted is still running."""
    said: list[str] = []
    with lease(tmp_path, stop_event) as held:
        held.leave()
    with lease(tmp_path, stop_event, said) as successor:
        assert successor.given_back is None
    assert "is at work in" in said[0]


@pytest.mark.parametrize("files_there", [1, 100, 250])
def test_a_holder_that_was_frozen_longer_than_its_lease_damages_nothing(
    start: StartStager, tmp_path: Path, files_there: int
) -> None:
    share = Share(tmp_path, {f"f{number}.bin": random.Random(number).randbytes(5000) for number in range(300)})
    tree = tmp_path / "tree"
    frozen = start(*share.options, "--lease-seconds", "1")
    wait_until(lambda: len(list(tree.glob("*.bin"))) >= files_there)
    frozen.process.send_signal(signal.SIGSTOP)
    ended = start(*share.options, "--lease-seconds", "1").wait()
    assert ended.status == 0, ended.log
    frozen.process.send_signal(signal.SIGCONT)
    assert "Traceback" not in frozen.wait().log
    assert problems(tree, full=True) == []
    assert share.is_in(tree)
