"""Whether many groups cost more each than few: one program with up to 32 groups of two nodes, 512 GPUs.

`make bench-scale`. Takes the stack `h100x16` up with 8, 16 and 32 replicas on simulated nodes of the lab, with the
real engine, scheduler and LeaderWorkerSet controller, and prints the seconds of preview, up and destroy, and those of
up for each group. Ends with an error when a group of 32 costs clearly more than one of 8.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from kubernetes.client import V1Node

from lab import cluster, engine
from lab.lifecycle import Lab
from lab.project import Answer, Project
from lab.simulated import SimulatedNodes, manifest, profile
from lab.site import CHECKOUT, Site

GROUPS = (8, 16, 32)
REFERENCE, LARGEST = 8, 32
GROWTH_LIMIT = 1.5
"""Of the time for each group, from `REFERENCE` to `LARGEST`: room for a machine that others use too."""

READY_SECONDS = 120


def main() -> int:
    """Exit status 0, or 1 when the time for each group grows."""
    lab = Lab()
    was_up = lab.up
    lab.start()
    try:
        with simulated_nodes(lab.site, 2 * LARGEST) as names, tempfile.TemporaryDirectory() as directory:
            print("groups  GPUs  preview s  up s  up s per group  destroy s")
            seconds = {groups: measure(lab.site, Path(directory), names, groups) for groups in GROUPS}
    finally:
        if not was_up:
            lab.stop()
    growth = seconds[LARGEST] / seconds[REFERENCE]
    print(f"a group of {LARGEST} takes {growth:.2f} times as long as one of {REFERENCE}, limit {GROWTH_LIMIT}")
    return growth > GROWTH_LIMIT


@contextmanager
def simulated_nodes(site: Site, count: int) -> Iterator[list[str]]:
    """So many nodes with eight H100 each; removed afterwards."""
    api, simulated = cluster.core(site), SimulatedNodes(site)
    names = [f"scale-{index}" for index in range(count)]
    try:
        for name in names:
            simulated.delete(name)
            api.create_node(cast(V1Node, manifest(name, profile("2x8h100"))))
        for name in names:
            ready = f"node {name} did not become Ready"
            cluster.wait_until(lambda name=name: cluster.is_ready(cluster.node(api, name)), READY_SECONDS, ready)  # type: ignore[misc]
        yield names
    finally:
        for name in names:
            simulated.delete(name)


def measure(site: Site, directory: Path, names: list[str], groups: int) -> float:
    """Prints the row of so many groups and returns the seconds of `up` for each of them."""
    own = {key: value for key, value in engine.settings(site).items() if not key.endswith("_IMAGE")}
    project = Project.copy(CHECKOUT, directory / "program", own, "h100x16")
    project.configure(
        cluster={"namespace": "bench-scale"}, nodes={"names": names[: 2 * groups]}, engine={"replicas": groups}
    )
    preview, up, destroy = (seconds(action) for action in (project.preview, project.up, project.destroy))
    print(f"{groups:6}  {16 * groups:4}  {preview:9.1f}  {up:4.1f}  {up / groups:14.2f}  {destroy:9.1f}", flush=True)
    return up / groups


def seconds(action: Callable[[], Answer]) -> float:
    """How long a command takes that must succeed."""
    start = time.perf_counter()
    answer = action()
    if answer.status:
        raise SystemExit(f"bench-scale: {answer}")
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
