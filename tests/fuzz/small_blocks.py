"""The stager with blocks of 64 KiB instead of 32 MiB, so that a small file has as many blocks as a large one.

Its waits after errors are ten times shorter, and its lease, unless stated, a hundred times. It also logs the number of
received bytes.
"""

import os
import sys
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection

import stager.__main__
import stager.command_line
import stager.jobs
import stager.part
import stager.ranges
import stager.retry
import stager.source
import stager.stage
import stager.worker
import stager.workers
from stager.content_hash import Buffer

RECEIVED = "bytes received: "
BLOCK_BYTES = 64 * 1024
CHUNK_BYTES = 16 * 1024
WAITS_SHORTER = 10
LEASE_SECONDS = 0.6


def shrink() -> None:
    """Makes blocks, pieces and waits small in this process."""
    vars(stager.command_line)["LEASE_SECONDS"] = LEASE_SECONDS
    for module in (stager.part, stager.jobs):
        vars(module)["BLOCK_BYTES"] = BLOCK_BYTES
    for module in (stager.ranges, stager.source):
        vars(module)["CHUNK_BYTES"] = CHUNK_BYTES
    waits = tuple(wait / WAITS_SHORTER for wait in stager.retry.JOB_RETRIES.waits)
    object.__setattr__(stager.retry.JOB_RETRIES, "waits", waits)  # default arguments hold this very object


class CountingPart(stager.part.Part):
    """Counts the bytes that arrived for all files. A dropped connection may have sent more."""

    received = 0
    _counting = threading.Lock()

    def write(self, offset: int, content: Buffer) -> None:
        """Writes and counts."""
        with self._counting:
            CountingPart.received += len(content)
        super().write(offset, content)


def small_work(order: stager.worker.Order, connection: Connection) -> None:
    """Does what a worker process does, with small blocks. It does not count bytes."""
    shrink()
    stager.worker.work(order, connection)


def run(arguments: Sequence[str]) -> None:
    """Runs the stager's command line, and ends this process."""
    shrink()
    vars(stager.stage)["Part"] = CountingPart
    vars(stager.workers)["work"] = small_work
    status = stager.__main__.main(arguments)
    print(f"{RECEIVED}{CountingPart.received}", file=sys.stderr, flush=True)
    os._exit(status)


if __name__ == "__main__":
    run(sys.argv[1:])
