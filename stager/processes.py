"""How many processes fetch the files of one run, and which files each of them gets."""

from __future__ import annotations

import contextlib
import heapq
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from stager.listing import RemoteFile
from stager.stage_request import MOST_PROCESSES

CORES_PER_PROCESS = 8
"""One process rarely keeps more cores busy: for about a tenth of the time over TLS it holds the interpreter's lock."""
PROCESS_BYTES = 256 * 1024 * 1024
LARGE_BYTES = 64 * 1024 * 1024
LEAST_BYTES = 1024 * 1024 * 1024
"""A worker starts in half a second of processor time, which fewer bytes do not earn."""
# https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files
_CPU_LIMIT = Path("/sys/fs/cgroup/cpu.max")


def process_count(missing_bytes: Iterable[int], *, cores: float, memory: int) -> int:
    """How many processes to fetch files with, of which the volume lacks so many bytes each; 1: this one alone."""
    missing = list(missing_bytes)
    large = sum(count >= LARGE_BYTES for count in missing)
    if sum(missing) < LEAST_BYTES:
        return 1
    of_cores = min(cores, max(2, cores / CORES_PER_PROCESS))
    return max(1, min(MOST_PROCESSES, int(of_cores), memory // PROCESS_BYTES, large))


def usable_cores() -> float:
    """The cores that this process may use: those of its affinity or, if lower, its container's limit."""
    cores = float(len(os.sched_getaffinity(0)))
    with contextlib.suppress(OSError, ValueError):  # not there, or "max"
        quota, period = _CPU_LIMIT.read_text().split()
        cores = min(cores, int(quota) / int(period))
    return cores


def shares(files: Sequence[RemoteFile], count: int) -> list[tuple[RemoteFile, ...]]:
    """`files` in `count` shares of about equal bytes, each in the order of `files`; leaves out empty shares."""
    loads = [(0, share) for share in range(count)]
    share_of: dict[str, int] = {}
    for file in sorted(files, key=lambda file: -file.size):
        load, share = heapq.heappop(loads)
        share_of[file.path] = share
        heapq.heappush(loads, (load + file.size, share))
    found = [tuple(file for file in files if share_of[file.path] == share) for share in range(count)]
    return [share for share in found if share]
