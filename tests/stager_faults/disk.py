"""A disk for one test: a file behind a loop device. The test can make its power fail, or its writes for some time.

It is mounted in the namespaces of one script. When the script ends, also by a signal, the kernel ends all of its
processes, and removes mounts and loop device. Needs root.
"""

import os
import shutil
import subprocess
from pathlib import Path

from .running import CHECKOUT

# The backing file lies in memory. Blocks that nobody wrote yet are holes in it, so that writing them needs memory that
# `disk_fails` takes away: then the disk gives errors, as a thin volume that is full. What the file system notes of
# itself is written before, and small files and folders lie in their inodes, so that only contents are lost.
PRELUDE = """
set -u
backing=$WORK/backing; mkdir -p $backing $VOLUME
mount -t tmpfs -o size=${SIZE_MIB}m backing $backing
truncate -s $((SIZE_MIB - 8))M $backing/disk
mkfs.ext4 -q -F -O inline_data -I 1024 -N 2000 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 $backing/disk
dd if=$backing/disk of=$backing/disk bs=1M conv=notrunc status=none  # no holes: it may have made some
BLOCK=$(dumpe2fs -h $backing/disk 2>/dev/null | sed -n 's/^Block size: *//p')
# The kernel frees a loop device that `mount` made with its last mount, so with this namespace, however the script ends.
take_up() { mount -o loop $backing/disk $VOLUME; device=$(findmnt -no SOURCE $VOLUME); }
take_up
disk_fails() {
    sync -f $VOLUME
    dumpe2fs $device 2>/dev/null | sed -n 's/^ *Free blocks: *//p' | tr ',' '\\n' | tr -d ' ' | grep -- - |
    while IFS=- read first last; do
        fallocate -p -o $((first * BLOCK)) -l $(((last - first + 1) * BLOCK)) $backing/disk
    done
    dd if=/dev/zero of=$backing/filler bs=64k status=none 2>/dev/null || true
}
disk_works() { rm $backing/filler; }
reboot() { umount $VOLUME; take_up; }
power_fails() {  # what is on the disk at this moment, mounted at $WORK/after
    cp --sparse=always $backing/disk $WORK/image; mkdir -p $WORK/after; mount -o loop $WORK/image $WORK/after
}
"""


def can_have_a_disk() -> bool:
    """Returns whether this user can create and mount loop devices."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("losetup", "mkfs.ext4", "dumpe2fs", "fallocate", "unshare"))):
        return False
    return subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode == 0


def with_disk(
    script: str, work: Path, *, size_mib: int, seconds: float = 300, **environment: object
) -> subprocess.CompletedProcess[str]:
    """Runs `script` with a new disk at `$VOLUME`. Files in `$WORK` stay.

    Raises `TimeoutExpired` after `seconds`.
    """
    settings = {"WORK": work, "VOLUME": work / "volume", "SIZE_MIB": size_mib, **environment}
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", PRELUDE + script],
        cwd=CHECKOUT,
        env={"PATH": os.environ["PATH"], "HOME": str(work), **{key: str(value) for key, value in settings.items()}},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
