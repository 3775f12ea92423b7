"""Kills, freezes, cuts off, delays and corrupts the nodes of a fleet at random, and looks what they staged.

Every node has a network of its own: namespaces on a bridge, at whose far side the hub is. A node can lose the others
and keep the hub, or lose all. After every round, whatever a quick check accepts is right in every byte, and once the
faults are over every node completes. Rounds without faults must fetch one copy from the hub, all nodes together.
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
from tests.fuzz.stager import Round, Wrong
from tests.stager_faults.fleet import CHECKOUT, COMMIT, REPOSITORY, SECRET, SIZES, Nodes, repository

MOST_NODES = 8
PORT = 8470
RUN_SECONDS = 240
ONE_COPY = 1.05
PATIENCE_SECONDS = 4.0
LONG_PATIENCE_SECONDS = 60.0
"""Where nothing goes wrong, a busy machine must not look like a node that is gone."""
IN_NAMESPACE = "HEAVYLIFT_FUZZ_FLEET"
ENDED = (0, 1, 75, 143, -signal.SIGKILL, -signal.SIGTERM)
HUB_ADDRESS = "10.77.0.254"


def sh(command: str) -> None:
    """Run one command of `ip` or `bridge`."""
    subprocess.run(command.split(), check=True)


@contextmanager
def networks() -> Iterator[None]:
    """A bridge with `MOST_NODES` namespaces on it, named n0, n1, ..."""
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
    """Nodes in namespaces; `running` has the stager of each that was started."""

    def __init__(self, hub: HubClient, place: Path) -> None:
        super().__init__(hub, place, MOST_NODES, module="tests.fuzz.small_blocks")
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.patience = PATIENCE_SECONDS

    def begin(self, node: int, count: int) -> None:
        """Start the stager of `node`, one of `count`."""
        addresses = [f"http://10.77.0.{other + 1}:{PORT}" for other in range(count)]
        options = ("--peer-seconds", self.patience, "--stall-seconds", self.patience / 2, "--streams", 3)
        with self._log(node).open("a") as log:
            self.running[node] = subprocess.Popen(
                ["ip", "netns", "exec", f"n{node}", *self.command(node, *options, addresses=addresses)],
                cwd=CHECKOUT,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.place),
                    "HF_ENDPOINT": self.hub.url,
                    "STAGER_FLEET_SECRET": SECRET,
                },
                stdout=log,
                stderr=log,
            )

    def clear(self) -> None:
        """No trees, no logs."""
        for node in range(MOST_NODES):
            shutil.rmtree(self.tree(node), ignore_errors=True)
            self._log(node).unlink(missing_ok=True)

    def logs(self) -> str:
        """What all nodes said."""
        return "\n".join(f"--- node {node}\n{self.log(node)}" for node in self.running)


def random_hub_fault(chance: random.Random) -> dict[str, Any]:
    """A fault that strikes a few times."""
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
    """All nodes reach the hub only, for a while: isolated ports of a bridge do not reach each other."""
    del fleet
    for state in ("on", "off"):
        for node in range(MOST_NODES):
            sh(f"bridge link set dev v{node} isolated {state}")
        time.sleep(seconds if state == "on" else 0)


def cut_off_from_all(fleet: Fleet, node: int, seconds: float) -> None:
    """The node reaches nobody, for a while."""
    del fleet
    sh(f"ip link set v{node} down")
    time.sleep(seconds)
    sh(f"ip link set v{node} up")


def kill(fleet: Fleet, node: int, _: float) -> None:
    """The node dies."""
    fleet.running[node].kill()


def stop(fleet: Fleet, node: int, _: float) -> None:
    """The node is told to end."""
    fleet.running[node].terminate()


def freeze(fleet: Fleet, node: int, seconds: float) -> None:
    """The node stands still for a while."""
    fleet.running[node].send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    fleet.running[node].send_signal(signal.SIGCONT)


def corrupt(fleet: Fleet, node: int, _: float) -> None:
    """A file that the node gives to others changes on its disk."""
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
    """Wait for all; nobody hangs or crashes. The nodes that ended well."""
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
    """One round."""
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
    """What the quick check lets pass must be right in every byte."""
    for node in range(count):
        if problems(fleet.tree(node), repository=REPOSITORY, revision=COMMIT) == [] and not fleet.is_complete(node):
            raise Wrong(f"accepted on node {node}, though wrong\n{fleet.logs()}")


def require_completion(fleet: Fleet, count: int, this: Round) -> None:
    """Without faults every node completes."""
    fleet.hub.clear_faults()
    fleet.running.clear()
    for node in range(count):
        fleet.begin(node, count)
    well = finish(fleet, this)
    wrong = [node for node in range(count) if node not in well or not fleet.is_complete(node)]
    if wrong:
        raise Wrong(f"not complete without faults: nodes {wrong}\n{fleet.logs()}")


def enter_namespaces() -> None:
    """Start this program again with networks and names of its own, and end as it ends."""
    script = 'mount -t tmpfs none /run && exec "$@"'
    command = ["unshare", "-n", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "tests.fuzz.fleet", *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=CHECKOUT, env={**os.environ, IN_NAMESPACE: "1"}, check=False).returncode)


def main() -> int:
    """Play the rounds; 1 at the first that shows a fault."""
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
