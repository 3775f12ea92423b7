"""A volume that is full, fills up or is read-only: one clear line, and the next run continues.

The volumes are file systems in memory, mounted in a mount namespace of the test's own.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.hub.client import HubClient
from stager.verify import problems

from .conftest import COMMIT
from .running import CHECKOUT

STAGE = (
    f"{shlex.quote(sys.executable)} -m stager stage --directory $VOLUME/tree --repository acme/model "
    f"--revision {COMMIT} --lease-seconds 2 --streams 2 --termination-log $MESSAGE"
)


def can_mount() -> bool:
    """Returns whether this user can create a mount namespace."""
    try:
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not can_mount(), reason="needs unshare -rm, to mount a file system of its own")


class Volume:
    """A directory, and a shell in which it is a file system of a given size."""

    def __init__(self, directory: Path, hub: HubClient) -> None:
        self._hub = hub
        self._directory = directory
        self.message = directory / "message"

    def run(self, script: str, *, size_mib: int) -> subprocess.CompletedProcess[str]:
        """Runs `script` with a new volume at `$VOLUME`. `$STAGE` stages into it. Files at `$KEEP` stay."""
        volume = self._directory / "volume"
        volume.mkdir()
        self.message.touch()
        return subprocess.run(
            ["unshare", "-rm", "bash", "-c", f"mount -t tmpfs -o size={size_mib}m volume $VOLUME\n{script}"],
            cwd=CHECKOUT,
            env={
                "PATH": os.environ["PATH"],
                "HF_ENDPOINT": self._hub.url,
                "VOLUME": str(volume),
                "KEEP": str(self._directory / "kept"),
                "MESSAGE": str(self.message),
                "STAGE": STAGE,
                "HOME": str(self._directory),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def volume(tmp_path: Path, hub: HubClient) -> Volume:
    return Volume(tmp_path, hub)


def test_too_little_room_is_refused_before_the_first_byte(volume: Volume, hub: HubClient) -> None:
    ended = volume.run('eval "$STAGE"', size_mib=100)
    assert ended.returncode == 1
    message = volume.message.read_text()
    assert "needs 150,994,981 more bytes, the volume has" in message
    assert "too few; prune old revisions" in message
    assert hub.bytes_sent() == 0


def test_a_volume_that_fills_up_half_way_ends_the_run_cleanly_and_is_resumed_with_room(
    volume: Volume, hub: HubClient, tmp_path: Path
) -> None:
    hub.fault("slow", path="/storage/*", bytes_per_second=8e6)
    script = """
    eval "$STAGE" & stager=$!
    until [ -n "$(find $VOLUME -path '*/parts/*' -size +33M)" ]; do sleep 0.05; done
    head -c 1G /dev/zero > $VOLUME/somebody-else 2>/dev/null
    wait $stager; echo "first: $?"
    cp $MESSAGE $KEEP.message
    rm $VOLUME/somebody-else
    eval "$STAGE"; echo "second: $?"
    cp -r $VOLUME/tree $KEEP
    """
    ended = volume.run(script, size_mib=150)
    assert "first: 1" in ended.stdout, ended.stderr
    assert "second: 0" in ended.stdout, ended.stderr
    assert "the volume is full; make room and run again" in (tmp_path / "kept.message").read_text()
    assert "Traceback" not in ended.stderr
    assert problems(tmp_path / "kept", full=True) == []
    share = re.search(r"(\d+)% re-used$", ended.stderr.strip())
    assert share is not None
    assert int(share[1]) >= 40, "one block of each file at least"


def test_a_volume_without_inodes_is_told_from_a_full_one(volume: Volume, hub: HubClient) -> None:
    script = """
    mount -t tmpfs -o size=200m,nr_inodes=12 few $VOLUME
    i=0; while touch $VOLUME/other-$i 2>/dev/null && [ $i -lt 4 ]; do i=$((i + 1)); done
    eval "$STAGE"
    """
    ended = volume.run(script, size_mib=200)
    assert ended.returncode == 1, ended.stderr
    assert "room for bytes, but none for another file (inodes: df -i)" in volume.message.read_text()
    assert "Traceback" not in ended.stderr


def test_a_volume_that_is_mounted_read_only_is_said_to_be(volume: Volume) -> None:
    ended = volume.run('mount -o remount,ro $VOLUME; eval "$STAGE"', size_mib=200)
    assert ended.returncode == 1
    assert "mounted read-only" in volume.message.read_text()
    assert "Traceback" not in ended.stderr


def test_a_complete_tree_on_a_read_only_volume_is_enough(volume: Volume) -> None:
    script = 'eval "$STAGE" && mount -o remount,ro $VOLUME && eval "$STAGE"'
    ended = volume.run(script, size_mib=200)
    assert ended.returncode == 0, ended.stderr
    assert "already staged" in ended.stderr


def test_a_volume_without_room_for_a_lease_is_said_to_be_and_pruned_with_room(volume: Volume) -> None:
    script = """
    eval "$STAGE"; mkdir $VOLUME/0000000000000000; mv $VOLUME/tree/* $VOLUME/tree/.heavylift $VOLUME/0000000000000000
    head -c 1G /dev/zero > $VOLUME/somebody-else 2>/dev/null
    $PRUNE; echo "first: $?"
    rm $VOLUME/0000000000000000/notes/deep.txt
    $PRUNE; echo "second: $?"
    ls $VOLUME
    """
    prune = f"{shlex.quote(sys.executable)} -m stager prune $VOLUME --keep-newest 0"
    ended = volume.run(script.replace("$PRUNE", prune), size_mib=200)
    assert "no room even for a lease; remove one file by hand" in ended.stderr
    assert "first: 1" in ended.stdout
    assert "second: 0" in ended.stdout, ended.stderr
    assert "0000000000000000" not in ended.stdout.splitlines()


def test_a_read_only_volume_that_cannot_be_marked_is_enough_and_said(volume: Volume) -> None:
    script = 'eval "$STAGE" && mount -o remount,ro $VOLUME && eval "$STAGE --user heavylift/h200"'
    ended = volume.run(script, size_mib=200)
    assert ended.returncode == 0, ended.stderr
    assert "not marked for heavylift/h200, since the volume may only be read here" in ended.stderr
    assert "already staged" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root, to give up its powers")
def test_a_directory_of_somebody_else_is_said_to_be(volume: Volume, tmp_path: Path, hub: HubClient) -> None:
    (tmp_path / "tree").mkdir()
    os.chown(tmp_path / "tree", 65534, 65534)
    command = STAGE.replace("$VOLUME", str(tmp_path)).replace("$MESSAGE", str(volume.message))
    volume.message.touch()
    subprocess.run(
        ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *shlex.split(command)],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "HF_ENDPOINT": hub.url, "HOME": str(tmp_path)},
        check=False,
    )
    assert "no permission to write" in volume.message.read_text()
    assert hub.bytes_sent() == 0
