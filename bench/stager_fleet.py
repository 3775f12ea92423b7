"""Nodes that share one download: `python -m bench.stager_fleet`.

1, 2, 4 and 8 stagers on this machine stage the same files, from the lab's hub, whose line to all of them together is
capped; between them the line is open. Shown are the bytes that left the hub, in copies of the weights, and the time,
against the bound: the weights over the capped line once. All nodes share the machine's cores, so that the exchange
takes processor time that on nodes of their own it would not.
"""

import argparse
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from lab.hub.client import running_hub
from tests.stager_faults.fleet import REPOSITORY, Nodes, repository

RUN_SECONDS = 300


def run(nodes: Nodes, count: int, *, share: bool) -> float:
    """Returns the seconds until `count` nodes have all files, with a shared download or one download per node."""
    for node in range(count):
        shutil.rmtree(nodes.tree(node), ignore_errors=True)
    addresses = [f"http://127.0.0.1:{port}" for port in nodes.ports[:count]]
    began = time.monotonic()
    started = []
    for node in range(count):
        if share and count > 1:
            started.append(nodes.start(node, addresses=addresses))
        else:
            started.append(nodes.start(node, addresses=[]))
    for process in started:
        if process.wait(RUN_SECONDS):
            raise RuntimeError(f"a node failed: {[nodes.log(node) for node in range(count)]}")
    return time.monotonic() - began


def row(nodes: Nodes, count: int, cap: float, *, share: bool) -> str:
    """Returns a row of the table."""
    nodes.hub.clear_requests()
    seconds = run(nodes, count, share=share)
    copies = nodes.hub.bytes_sent() / nodes.total
    bound = nodes.total / cap
    how = "shared" if share and count > 1 else "each alone"
    return f"| {count} | {how} | {copies:.3f} | {seconds:.1f} | {bound:.1f} | {seconds / bound:.2f} |"


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.stager_fleet", description=__doc__)
    parser.add_argument("--megabytes-per-second", type=float, default=0.6, help="of the hub's line")
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 2, 4, 8])
    options = parser.parse_args()
    cap = options.megabytes_per_second * 1e6
    with (
        tempfile.TemporaryDirectory() as directory,
        running_hub({"repositories": {REPOSITORY: repository()}}) as hub,
    ):
        nodes = Nodes(hub, Path(directory), max(options.nodes))
        hub.fault("slow", path="/storage/*", bytes_per_second=cap)
        print(f"{nodes.total / 1e6:.1f} MB in {len(nodes.truth)} files, hub line {cap / 1e6:g} MB/s\n", flush=True)
        print("| nodes | download | copies from the hub | seconds | bound, s | times the bound |")
        print("|---|---|---|---|---|---|")
        for count in options.nodes:
            print(row(nodes, count, cap, share=True), flush=True)
        print(row(nodes, min(2, max(options.nodes)), cap, share=False), flush=True)


if __name__ == "__main__":
    try:
        main()
    except subprocess.TimeoutExpired as late:
        raise SystemExit(f"a node did not end: {late}") from None
