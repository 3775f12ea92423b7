"""The stager with blocks of 64 KiB instead of 32 MiB: a small file then crosses as many borders as a large one."""

import os

import stager.jobs
import stager.part
import stager.ranges
import stager.source

BLOCK_BYTES = 64 * 1024
CHUNK_BYTES = 16 * 1024


def shrink() -> None:
    """Make blocks and pieces small in this process."""
    for module in (stager.part, stager.jobs):
        vars(module)["BLOCK_BYTES"] = BLOCK_BYTES
    for module in (stager.ranges, stager.source):
        vars(module)["CHUNK_BYTES"] = CHUNK_BYTES


if __name__ == "__main__":
    from stager.__main__ import main

    shrink()
    os._exit(main())
