"""Prune while stagers run: a stager always ends with a complete directory, and unused directories are removed."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.tree import Tree
from stager.users import marked_ns, users
from stager.verify import problems

from .conftest import LATER, StartStager
from .running import Ended, Stager, is_marked_complete
from .test_ended_by_signal import wait_until

OLD, NEW = "0" * 16, "1" * 16
US, THEM = "heavylift/h200", "heavylift/b200"
StartPrune = Callable[..., Stager]


@pytest.fixture
def mount(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


@pytest.fixture
def prune(mount: Path, tmp_path: Path) -> StartPrune:
    """Starts `prune`, which keeps the newest directory of this user."""

    def start_prune(*options: str) -> Stager:
        what: list[str | Path] = ["prune", mount, "--keep-newest", "1", "--user", US, "--lease-seconds", "2", *options]
        return Stager(what, log_directory=tmp_path)

    return start_prune


def staged(start: StartStager, directory: Path, *users: str, **settings: str) -> Ended:
    for user in users:
        ended = start("--user", user, directory=directory, **settings).wait()
        assert ended.status == 0, ended.log
    return ended


def test_staging_marks_the_directory_and_a_run_that_finds_it_done_marks_it_anew(
    start: StartStager, mount: Path
) -> None:
    staged(start, mount / OLD, US)
    first = marked_ns(Tree(mount / OLD), US)
    again = staged(start, mount / OLD, US, THEM)
    assert "already staged" in again.log
    assert first is not None
    assert (marked_ns(Tree(mount / OLD), US) or 0) > first
    assert users(Tree(mount / OLD)) == [THEM, US]


def test_staging_that_fails_marks_nothing(start: StartStager, mount: Path) -> None:
    assert start("--user", US, "--include", "absent", directory=mount / OLD).wait().status == 1
    assert users(Tree(mount / OLD)) == []


def test_the_old_revision_goes_and_after_a_rollback_the_new_one(
    start: StartStager, prune: StartPrune, mount: Path
) -> None:
    staged(start, mount / OLD, US)
    staged(start, mount / NEW, US, revision=LATER)
    staged(start, mount / OLD, US)
    assert prune("--in-use", OLD).wait().status == 0
    assert [path.name for path in mount.iterdir()] == [OLD]
    assert problems(mount / OLD, full=True) == []


def test_a_directory_that_another_stager_is_at_work_on_is_waited_for(
    start: StartStager, prune: StartPrune, mount: Path, hub: HubClient
) -> None:
    staged(start, mount / OLD, US)
    staged(start, mount / NEW, US, revision=LATER)
    (mount / OLD / "config.json").unlink()
    hub.fault("slow", path="*config.json*", method="GET", bytes_per_second=8)
    hub.clear_requests()
    other = start("--user", THEM, directory=mount / OLD)
    wait_until(lambda: any("config.json" in path for path in map(str, hub.requests())))
    pruning = prune("--in-use", NEW)
    time.sleep(1)
    assert pruning.process.poll() is None
    assert other.wait().status == 0
    assert pruning.wait().status == 0
    assert users(Tree(mount / OLD)) == [THEM]
    assert problems(mount / OLD, full=True) == []


def test_a_pruning_that_waits_can_be_stopped_and_removed_nothing(
    start: StartStager, prune: StartPrune, mount: Path, hub: HubClient
) -> None:
    staged(start, mount / OLD, US)
    staged(start, mount / NEW, US, revision=LATER)
    (mount / OLD / "model-00001-of-00002.safetensors").unlink()
    hub.fault("slow", path="/storage/*", bytes_per_second=5e6)
    hub.clear_requests()
    start("--user", US, directory=mount / OLD)
    wait_until(lambda: hub.bytes_sent() > 0)
    pruning = prune("--in-use", NEW)
    time.sleep(1)
    pruning.process.send_signal(signal.SIGTERM)
    assert pruning.wait(5).status == 143
    assert (mount / OLD / "model-00002-of-00002.safetensors").exists()


def test_a_killed_pruning_leaves_nothing_that_could_be_served_and_the_next_one_ends_it(
    start: StartStager, prune: StartPrune, mount: Path
) -> None:
    staged(start, mount / OLD, US)
    staged(start, mount / NEW, US, revision=LATER)
    pruning = prune("--in-use", NEW)
    wait_until(lambda: not is_marked_complete(mount / OLD))
    pruning.process.kill()
    pruning.wait()
    assert problems(mount / OLD) != []
    assert prune("--in-use", NEW).wait().status == 0
    assert [path.name for path in mount.iterdir()] == [NEW]


def test_whoever_stages_what_is_being_removed_begins_anew_and_loses_nothing(
    start: StartStager, prune: StartPrune, mount: Path
) -> None:
    """Runs removal and stage at the same time, in both orders: the stager always ends with a complete directory."""
    staged(start, mount / NEW, US, revision=LATER)
    for delay in (0.0, 0.15, 0.3, 0.45):
        staged(start, mount / OLD, US)
        os.utime(mount / OLD / ".heavylift/users/heavylift%2Fh200", (1, 1))
        pruning = prune("--in-use", NEW)
        time.sleep(delay)
        stager = start("--user", US, directory=mount / OLD)
        assert pruning.wait().status == 0
        ended = stager.wait()
        assert ended.status == 0, ended.log
        assert problems(mount / OLD, full=True) == []
        assert users(Tree(mount / OLD)) == [US]
