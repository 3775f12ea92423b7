"""Compares the cost per group of few and many groups: one program with up to 32 groups of two nodes, 512 GPUs.

`make bench-scale`. Runs `pulumi up` for the stack `h100x16` with 8, 16 and 32 replicas on simulated nodes of the lab,
with the real engine, scheduler and LeaderWorkerSet controller. Prints the seconds of preview, up and destroy, and of up
per group. Fails if up takes more than 1.5 times as long per group with 32 groups as with 8.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lab import engine
from lab.cluster.simulated import SimulatedNodes
from lab.lifecycle import Lab
from lab.project import Answer, Project
from lab.site import CHECKOUT, Site

GROUPS = (8, 16, 32)
REFERENCE, LARGEST = 8, 32
GROWTH_LIMIT = 1.5
"""Limit of the ratio of time per group, `LARGEST` to `REFERENCE`. Allows for other load on the machine."""


def main() -> int:
    """Returns 0, or 1 if the time per group grows beyond the limit."""
    names = [f"scale-{index}" for index in range(2 * LARGEST)]
    with (
        Lab().borrowed() as site,
        SimulatedNodes(site).added("2x8h100", names),
        tempfile.TemporaryDirectory() as directory,
    ):
        print("groups  GPUs  preview s  up s  up s per group  destroy s")
        seconds = {groups: measure(site, Path(directory), names, groups) for groups in GROUPS}
    growth = seconds[LARGEST] / seconds[REFERENCE]
    print(f"a group of {LARGEST} takes {growth:.2f} times as long as one of {REFERENCE}, limit {GROWTH_LIMIT}")
    return growth > GROWTH_LIMIT


def measure(site: Site, directory: Path, names: list[str], groups: int) -> float:
    """Prints the row for a number of groups, and returns the seconds of `up` per group."""
    own = {key: value for key, value in engine.settings(site).items() if not key.endswith("_IMAGE")}
    project = Project.copy(CHECKOUT, directory / "program", own, "h100x16")
    project.configure(
        cluster={"namespace": "bench-scale"}, nodes={"names": names[: 2 * groups]}, engine={"replicas": groups}
    )
    preview, up, destroy = (seconds(action) for action in (project.preview, project.up, project.destroy))
    print(f"{groups:6}  {16 * groups:4}  {preview:9.1f}  {up:4.1f}  {up / groups:14.2f}  {destroy:9.1f}", flush=True)
    return up / groups


def seconds(action: Callable[[], Answer]) -> float:
    """Returns the seconds of a command. The command must succeed."""
    start = time.perf_counter()
    answer = action()
    if answer.status:
        raise SystemExit(f"bench-scale: {answer}")
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
