"""Kills, stops, disconnects, delays and corrupts the nodes of a fleet at random, and checks their files.

Each node has its own network namespace, on one bridge with the hub. A fault can disconnect a node from the others, or
from all. After each round, all bytes that the quick check accepts are right, and all nodes complete after the faults.
In rounds without faults, all nodes together fetch one copy from the hub.
`python -m tests.fuzz.fleet --seed 1 --rounds 100`, as root.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.hub.client import HubClient, running_hub
from stager.verify import problems
from tests.fuzz.stager import MOST_ATTEMPTS, UNANSWERED, Round, Wrong
from tests.stager_faults.fleet import CHECKOUT, COMMIT, REPOSITORY, SIZES, Nodes, repository

MOST_NODES = 8
PORT = 8470
RUN_SECONDS = 240
ONE_COPY = 1.05
PATIENCE_SECONDS = 4.0
LONG_PATIENCE_SECONDS = 60.0
"""For rounds without faults: a slow machine must not look like a node that has failed."""
IN_NAMESPACE = "HEAVYLIFT_FUZZ_FLEET"
ENDED = (0, 1, 75, 143, -signal.SIGKILL, -signal.SIGTERM)
HUB_ADDRESS = "10.77.0.254"


def sh(command: str) -> None:
    """Runs one command of `ip` or `bridge`."""
    subprocess.run(command.split(), check=True)


@contextmanager
def networks() -> Iterator[None]:
    """Creates a bridge with `MOST_NODES` network namespaces: n0, n1, ..."""
    sh("ip link set lo up")
    sh("ip link add br0 type bridge")
    sh(f"ip addr add {HUB_ADDRESS}/24 dev br0")
    sh("ip link set br0 up")
    for node in range(MOST_NODES):
        sh(f"ip netns add n{node}")
        sh(f"ip link add v{node} type veth peer name eth0 netns n{node}")
        sh(f"ip link set v{node} master br0 up")
        sh(f"ip -n n{node} addr add 10.77.0.{node + 1}/24 dev eth0")
        for device in ("lo", "eth0"):
            sh(f"ip -n n{node} link set {device} up")
    yield


class Fleet(Nodes):
    """Nodes in network namespaces. `running`: the stager of each started node."""

    def __init__(self, hub: HubClient, place: Path) -> None:
        super().__init__(hub, place, MOST_NODES, module="tests.fuzz.small_blocks")
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.patience = PATIENCE_SECONDS

    def begin(self, node: int, count: int) -> None:
        """Starts the stager of `node`, one of `count`."""
        addresses = [f"http://10.77.0.{other + 1}:{PORT}" for other in range(count)]
        options = ("--peer-seconds", self.patience, "--stall-seconds", self.patience / 2, "--streams", 3)
        within = ("ip", "netns", "exec", f"n{node}")
        self.running[node] = self.start(node, *options, addresses=addresses, within=within)

    def clear(self) -> None:
        """Removes all trees and logs."""
        for node in range(MOST_NODES):
            shutil.rmtree(self.tree(node), ignore_errors=True)
            self._log(node).unlink(missing_ok=True)

    def logs(self) -> str:
        """Returns the logs of all nodes."""
        return "\n".join(f"--- node {node}\n{self.log(node)}" for node in self.running)


def random_hub_fault(chance: random.Random) -> dict[str, Any]:
    """Returns a fault that happens a few times."""
    name = chance.choice(list(SIZES))
    offset = chance.randrange(SIZES[name])
    faults: list[dict[str, Any]] = [
        {"kind": "status", "status": chance.choice([429, 500, 503])},
        {"kind": "reset"},
        {"kind": "flip", "offset": offset},
        {"kind": "truncate", "offset": offset},
        {"kind": "stall", "offset": offset, "seconds": 3.0},
    ]
    path = chance.choice(["/storage/*", f"*{name}*"])
    return {"path": path, "count": chance.randint(1, 3), "after": chance.randint(0, 8), **chance.choice(faults)}


def cut_off_from_each_other(fleet: Fleet, _: int, seconds: float) -> None:
    """Lets all nodes reach only the hub for `seconds`: isolated ports of a bridge do not reach each other."""
    del fleet
    for state in ("on", "off"):
        for node in range(MOST_NODES):
            sh(f"bridge link set dev v{node} isolated {state}")
        time.sleep(seconds if state == "on" else 0)


def cut_off_from_all(fleet: Fleet, node: int, seconds: float) -> None:
    """Disconnects the node for `seconds`."""
    del fleet
    sh(f"ip link set v{node} down")
    time.sleep(seconds)
    sh(f"ip link set v{node} up")


def kill(fleet: Fleet, node: int, _: float) -> None:
    """Kills the node."""
    fleet.running[node].kill()


def stop(fleet: Fleet, node: int, _: float) -> None:
    """Sends SIGTERM to the node."""
    fleet.running[node].terminate()


def freeze(fleet: Fleet, node: int, seconds: float) -> None:
    """Stops the node for `seconds`."""
    fleet.running[node].send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    fleet.running[node].send_signal(signal.SIGCONT)


def corrupt(fleet: Fleet, node: int, _: float) -> None:
    """Changes a byte of a file that the node serves to others."""
    for path in sorted(fleet.tree(node).glob("*.safetensors"))[:1]:
        content = bytearray(path.read_bytes())
        if content:
            content[len(content) // 2] ^= 0xFF
            with path.open("r+b") as file:
                file.write(content)


DEEDS: list[Callable[[Fleet, int, float], None]] = [
    kill,
    kill,
    stop,
    freeze,
    corrupt,
    cut_off_from_each_other,
    cut_off_from_all,
]


def finish(fleet: Fleet, this: Round) -> list[int]:
    """Waits for all nodes, and returns those that succeeded. Fails if a node hangs or crashes."""
    deadline = time.monotonic() + RUN_SECONDS
    well = []
    for node, stager in fleet.running.items():
        try:
            status = stager.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Wrong(f"node {node} hangs\n{fleet.logs()}") from None
        this.note(f"node {node}: status {status}")
        if status not in ENDED or "Traceback" in fleet.log(node):
            raise Wrong(f"node {node} crashed with {status}\n{fleet.logs()}")
        if status == 0:
            well.append(node)
    return well


def play(fleet: Fleet, this: Round) -> None:
    """Plays one round."""
    chance = this.chance
    count = chance.randint(2, MOST_NODES)
    fleet.clear()
    fleet.running.clear()
    fleet.hub.clear_faults()
    fleet.hub.clear_requests()
    deeds = [chance.choice(DEEDS) for _ in range(chance.choice([0, 1, 1, 2, 3]))]
    faults = [random_hub_fault(chance) for _ in range(chance.randint(0, 2) if deeds else 0)]
    late = chance.choice([0, 0, 1]) if count > 2 else 0
    fleet.patience = PATIENCE_SECONDS if deeds or late else LONG_PATIENCE_SECONDS
    fleet.hub.fault("slow", path="/storage/*", bytes_per_second=chance.choice([6e6, 2e7]))
    for fault in faults:
        fleet.hub.fault(**fault)
        this.note(f"fault: {fault}")
    this.note(f"{count} nodes, {late} late")
    for node in range(count - late):
        fleet.begin(node, count)
    for deed in deeds:
        time.sleep(chance.uniform(0.2, 2.0))
        node, seconds = chance.randrange(count - late), chance.choice([0.5, 2.0, 5.0])
        this.note(f"{deed.__name__} node {node}, {seconds} s")
        deed(fleet, node, seconds)
    for node in range(count - late, count):
        fleet.begin(node, count)
    well = finish(fleet, this)
    require_nothing_wrong_is_accepted(fleet, count)
    if not deeds and not late:
        if len(well) < count:
            raise Wrong(f"without faults only {well} ended well\n{fleet.logs()}")
        if fleet.hub.bytes_sent() > ONE_COPY * fleet.total:
            raise Wrong(
                f"{count} nodes: {fleet.hub.bytes_sent() / fleet.total:.3f} copies from the hub\n{fleet.logs()}"
            )
    require_completion(fleet, count, this)


def require_nothing_wrong_is_accepted(fleet: Fleet, count: int) -> None:
    """Fails if the quick check accepts a wrong byte."""
    for node in range(count):
        if problems(fleet.tree(node), repository=REPOSITORY, revision=COMMIT) == [] and not fleet.is_complete(node):
            raise Wrong(f"accepted on node {node}, though wrong\n{fleet.logs()}")


def require_completion(fleet: Fleet, count: int, this: Round) -> None:
    """Fails if a node does not complete without faults."""
    fleet.hub.clear_faults()
    fleet.running.clear()
    well: list[int] = []
    for _ in range(MOST_ATTEMPTS):  # a lease may expire on a busy machine; the Jobs then start their stagers again
        for node in range(count):
            fleet.begin(node, count)
        well = finish(fleet, this)
        if all(stager.returncode != UNANSWERED for stager in fleet.running.values()):
            break
    wrong = [node for node in range(count) if node not in well or not fleet.is_complete(node)]
    if wrong:
        raise Wrong(f"not complete without faults: nodes {wrong}\n{fleet.logs()}")


def enter_namespaces() -> None:
    """Runs this program again in new network and mount namespaces, and ends with its status."""
    script = 'mount -t tmpfs none /run && exec "$@"'
    command = ["unshare", "-n", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "tests.fuzz.fleet", *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=CHECKOUT, env={**os.environ, IN_NAMESPACE: "1"}, check=False).returncode)


def main() -> int:
    """Plays the rounds. Returns 1 after the first that fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.fleet", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    if IN_NAMESPACE not in os.environ:
        enter_namespaces()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the hub goes
    began = time.monotonic()
    with (
        networks(),
        tempfile.TemporaryDirectory() as directory,
        running_hub({"repositories": {REPOSITORY: repository()}}, host=HUB_ADDRESS) as hub,
    ):
        fleet = Fleet(hub, Path(directory))
        for number in range(options.rounds):
            this = Round(number, random.Random(f"{options.seed} {number}"))
            try:
                play(fleet, this)
            except Wrong as wrong:
                print(f"seed {options.seed}, round {number}: {wrong}\n" + "\n".join(this.done))
                return 1
            finally:
                for stager in fleet.running.values():
                    stager.kill()
            print(f"seed {options.seed}: round {number}, {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
