"""Runs the stager on a disk whose power or writes fail at a random moment.

`python -m tests.fuzz.disk --seed 1 --rounds 100`, as root. After each round, the full check refuses the tree, or all of
its bytes on the disk are right. The next run completes the tree.
"""

import random
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.fuzz.stager import COMMIT, Round, World, Wrong, main
from tests.stager_faults.disk import can_have_a_disk, with_disk

SIZE_MIB = 160
PYTHON = shlex.quote(sys.executable)
# A stager that stands still, and a copy that is like the disk after it was made, are one moment of the disk.
FUNCTIONS = """
export HF_ENDPOINT
stage="$PYTHON -m tests.fuzz.small_blocks stage --directory $VOLUME/new/tree --repository acme/model \
    --revision $COMMIT --lock $LOCK --lease-seconds 1 --streams 3 --stall-seconds 2 $SOURCES"
moment() { until power_fails_once; do umount $WORK/after 2>/dev/null; done; }
power_fails_once() { cp --sparse=always $backing/disk $WORK/image && cmp -s $backing/disk $WORK/image &&
    mkdir -p $WORK/after && mount -o loop $WORK/image $WORK/after; }
judge() {  # $1: the tree
    if $PYTHON -I stager/verify.py $1 --full 2>/dev/null; then
        (cd $TRUTH && find . -type f -exec cmp {} $1/{} \\;) | grep . && echo "WRONG: accepted"
        [ $(find $1 -path $1/.heavylift -prune -o -type f -print | wc -l) = $FILES ] || echo "WRONG: number of files"
    else
        echo refused
    fi
}
complete() {
    $stage 2>$WORK/log || { echo "WRONG: not completed ($?)"; cat $WORK/log; }
    reboot; judge $VOLUME/new/tree | sed 's/refused/WRONG: refused/'
}
"""
POWER_FAILURE = """
$stage 2>$WORK/log & sleep $DELAY; kill -STOP $! 2>/dev/null; moment; kill -KILL $! 2>/dev/null; wait
judge $WORK/after/new/tree
umount $VOLUME; umount $WORK/after; dd if=$WORK/image of=$backing/disk bs=1M conv=notrunc status=none
take_up; complete
"""
WRITE_ERRORS = """
$stage 2>$WORK/log & sleep $DELAY; kill -STOP $! 2>/dev/null; disk_fails; kill -CONT $! 2>/dev/null
sleep $SECONDS_OF_FAILURE; disk_works; wait $!; echo "status $?"; tail -n 1 $WORK/log
reboot; judge $VOLUME/new/tree; complete
"""


def play_on_disk(world: World, this: Round) -> None:
    """Plays one round on a new disk."""
    kind = this.chance.choice([POWER_FAILURE, WRITE_ERRORS])
    truth = world.fill_share()
    by_share = this.chance.random() < 0.5
    settings: dict[str, Any] = {
        "DELAY": f"{_delay(this.chance):.2f}",
        "SECONDS_OF_FAILURE": f"{this.chance.uniform(0.1, 2):.2f}",
        "SOURCES": f"--source {truth}/{{path}}" if by_share else "",
        "HF_ENDPOINT": world.hub.url,
        "PYTHON": PYTHON,
        "COMMIT": COMMIT,
        "LOCK": world.lock,
        "TRUTH": truth,
        "FILES": len(world.truth),
    }
    if not by_share:
        world.hub.clear_faults()
        world.hub.fault("slow", path="/storage/*", bytes_per_second=4e6)
    this.note("power failure" if kind == POWER_FAILURE else "write errors")
    this.note(f"after {settings['DELAY']} s, {'share' if by_share else 'hub'}")
    with tempfile.TemporaryDirectory() as work:
        ended = with_disk(FUNCTIONS + kind, Path(work), size_mib=SIZE_MIB, **settings)
    this.note(ended.stdout + ended.stderr)
    if "WRONG" in ended.stdout or "Traceback" in ended.stderr:
        raise Wrong("after a fault of the disk")


def _delay(chance: random.Random) -> float:
    return chance.uniform(0.3, 3)


if __name__ == "__main__":
    if not can_have_a_disk():
        sys.exit("needs root, to make a disk of its own")
    sys.exit(main(play_on_disk))
