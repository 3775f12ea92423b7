"""Locks of the lab that go with what they guard."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lab import lifecycle
from lab.build.cache import lock
from lab.lifecycle import Lab, every_lab
from lab.site import PORTS, Site


def test_a_lock_that_its_holder_removes_is_still_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "lab.lock"
    within: list[str] = []
    most: list[int] = []

    def work(name: str) -> None:
        for _ in range(20):
            with lock(path):
                within.append(name)
                most.append(len(within))
                time.sleep(0.001)
                within.remove(name)
                path.unlink()

    workers = [threading.Thread(target=work, args=(f"worker {number}",)) for number in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(most) == 120
    assert max(most) == 1
    assert not path.exists()


def test_a_lock_is_free_again_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), lock(tmp_path / "lab.lock"):
        raise RuntimeError
    with lock(tmp_path / "lab.lock"):
        pass


def test_taking_down_a_lab_of_which_only_the_lock_is_left_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lifecycle, "LABS", tmp_path)
    (tmp_path / "up-11111111").mkdir()
    for name in ("up-11111111.lock", "of.v1.2-22222222.lock", "network.lock"):
        (tmp_path / name).touch()
    assert [path.name for path in every_lab()] == ["of.v1.2-22222222", "up-11111111"]

    assert Lab(tmp_path / "of.v1.2-22222222").stop() is False
    assert sorted(path.name for path in tmp_path.iterdir()) == ["network.lock", "up-11111111", "up-11111111.lock"]
    assert capsys.readouterr().err == "", "there was no lab to speak of"


def test_clearing_a_dead_lab_leaves_the_control_groups_of_a_running_one_that_has_its_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed: list[Site] = []
    monkeypatch.setattr(lifecycle, "LABS", tmp_path)
    monkeypatch.setattr(lifecycle, "remove_cgroups", removed.append)
    for name in ("dead", "running"):
        (tmp_path / name).mkdir()
    Site(tmp_path / "dead", tmp_path, 64, PORTS).save()
    command = [sys.executable, "-c", "input()", str(tmp_path / "running")]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        Site(tmp_path / "running", tmp_path, 64, PORTS, process.pid).save()
        assert Lab(tmp_path / "dead").stop()
        assert removed == []
        process.kill()
    assert Lab(tmp_path / "running").stop()
    assert [site.directory.name for site in removed] == ["running"]
