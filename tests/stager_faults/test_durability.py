"""The files of a manifest are on the disk, also after a power failure and after failed writes."""

import hashlib
import json
import random
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import COMMIT
from .disk import can_have_a_disk, with_disk
from .running import MIB

pytestmark = pytest.mark.skipif(not can_have_a_disk(), reason="needs root, to make a disk of its own")

PYTHON = shlex.quote(sys.executable)
CONTENTS = {
    "model.gguf": random.Random(1).randbytes(40 * MIB + 5),
    "deep/below/config.json": b"{}",
    "empty": b"",
}
STAGE = (
    f"{PYTHON} -m stager stage --directory $VOLUME/new/tree --repository acme/model --revision {COMMIT} "
    "--lock $WORK/lock --lease-seconds 2 --streams 1 --source '{share}/{path}'"
)
VERIFY = f"{PYTHON} -I stager/verify.py"
RIGHT = "for f in model.gguf deep/below/config.json empty; do cmp $WORK/share/$f {tree}/$f || exit; done; true"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Creates a directory with the files, and their lock."""
    files = []
    for name, content in CONTENTS.items():
        (tmp_path / "share" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "share" / name).write_bytes(content)
        files.append({"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()})
    lock = {"version": 1, "repository": "acme/model", "revision": COMMIT, "commit": COMMIT, "files": files}
    (tmp_path / "lock").write_text(json.dumps({**lock, "total_bytes": sum(map(len, CONTENTS.values()))}))
    return tmp_path


def run(script: str, work: Path) -> str:
    """Runs the script, and returns both of its outputs."""
    script = script.replace("STAGE", STAGE.replace("{share}", f"{work}/share")).replace("VERIFY", VERIFY)
    ended = with_disk(script.replace("RIGHT", RIGHT), work, size_mib=200)
    assert "Traceback" not in ended.stderr
    return ended.stdout + ended.stderr


COPIED_BY_HAND = "mkdir -p $VOLUME/new/tree; cp $WORK/share/model.gguf $VOLUME/new/tree/"


@pytest.mark.parametrize("before", ["true", COPIED_BY_HAND], ids=["fetched", "copied by hand"])
def test_after_a_power_failure_all_that_the_manifest_lists_is_there(work: Path, before: str) -> None:
    script = f"{before}; STAGE; power_fails; VERIFY $WORK/after/new/tree --full; {RIGHT} && echo all is right"
    said = run(script.replace("{tree}", "$WORK/after/new/tree"), work)
    assert "(full)" in said, said
    assert "all is right" in said


def test_bytes_that_the_disk_lost_while_its_writes_failed_are_fetched_again(work: Path) -> None:
    """The page cache still holds the bytes, and no later `fsync` reports the failure."""
    script = f"""
    disk_fails; STAGE && echo "no failure"; disk_works; STAGE; reboot
    VERIFY $VOLUME/new/tree --full; {RIGHT} && echo all is right
    """
    said = run(script.replace("{tree}", "$VOLUME/new/tree"), work)
    assert re.search(r"input/output error; the disk or|the volume is full; make room", said), said
    assert "no failure" not in said
    assert "(full)" in said, said
    assert "all is right" in said


def test_bytes_that_were_copied_while_writes_failed_are_fetched_again(work: Path) -> None:
    """The kernel reported the failure to the program that copied the file, and to no other."""
    script = f"""
    mkdir -p $VOLUME/new/tree; disk_fails
    cp $WORK/share/model.gguf $VOLUME/new/tree/; sync $VOLUME/new/tree/model.gguf && echo "no failure"
    disk_works; cmp $WORK/share/model.gguf $VOLUME/new/tree/model.gguf && echo "memory has it"
    STAGE; reboot
    VERIFY $VOLUME/new/tree --full; {RIGHT} && echo all is right
    """
    said = run(script.replace("{tree}", "$VOLUME/new/tree"), work)
    assert "no failure" not in said
    if "memory has it" not in said:
        pytest.skip("memory was short, and has forgotten what the disk never got")
    assert "(full)" in said, said
    assert "all is right" in said


def test_a_full_check_reads_the_disk_and_not_the_memory(work: Path) -> None:
    script = """
    STAGE; disk_fails
    cp $WORK/share/model.gguf $VOLUME/new/other; sync $VOLUME/new/other || echo "a write failed"
    disk_works; mv $VOLUME/new/other $VOLUME/new/tree/model.gguf
    cmp $WORK/share/model.gguf $VOLUME/new/tree/model.gguf && echo "memory has it"
    VERIFY $VOLUME/new/tree --full || echo refused
    """
    said = run(script, work)
    assert "a write failed" in said
    if "memory has it" not in said:
        pytest.skip("memory was short, and has forgotten what the disk never got")
    assert "model.gguf: SHA-256 is" in said, said
    assert "refused" in said


def test_a_script_that_is_killed_leaves_no_loop_device(tmp_path: Path) -> None:
    """A fuzzer that gets SIGTERM kills its script; a stopped process must not keep the disk."""
    with pytest.raises(subprocess.TimeoutExpired):
        with_disk("sleep 100 & kill -STOP $!; touch $WORK/begun; wait", tmp_path, size_mib=30, seconds=5)
    assert (tmp_path / "begun").exists()
    deadline = time.monotonic() + 20
    while str(tmp_path) in subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout:
        assert time.monotonic() < deadline
        time.sleep(0.05)
