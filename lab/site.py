"""Where one lab lives: its directory, its addresses and ports, and what it was started with.

A lab belongs to a checkout. Its directory lies in the cache, named by the checkout's path; `site.json` in it is written
by `up` and read by every other command.
"""

import hashlib
import json
import os
import signal
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.build.cache import cache_directory

CHECKOUT = Path(__file__).resolve().parent.parent
LABS = cache_directory() / "labs"

STARTED_SECONDS = 0.05
"""After so long a process that was started shows its words."""

# Inside its own network namespace a lab has every port to itself.
PORTS = {
    "etcd": 2379,
    "etcd-peer": 2380,
    "api": 6443,
    "controller-manager": 10257,
    "scheduler": 10259,
    "kwok": 10247,
    "lws-webhook": 9443,
    "lws-metrics": 8443,
    "lws-health": 8081,
    "hub": 8000,
    "hub-storage": 8001,
    "s3": 7070,
}


def directory_of(checkout: Path) -> Path:
    """The directory of the checkout's lab: a readable name and enough of a hash to tell two checkouts apart."""
    return LABS / f"{checkout.name}-{hashlib.sha256(str(checkout).encode()).hexdigest()[:8]}"


def free_ports() -> dict[str, int]:
    """A port nobody listens on for each of `PORTS`, for a lab that shares the host's network."""
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in PORTS}
    ports = {name: listener.getsockname()[1] for name, listener in sockets.items()}
    for listener in sockets.values():
        listener.close()
    return ports


@dataclass(frozen=True)
class Site:
    """One lab. `subnet` is n in 10.n.0.0/16 and None without root, where everything listens on 127.0.0.1."""

    directory: Path
    checkout: Path
    subnet: int | None
    ports: dict[str, int]
    pid: int = 0

    @property
    def isolated(self) -> bool:
        """Whether it runs in namespaces of its own and so can have nodes that run containers."""
        return self.subnet is not None

    def host(self, last: int, third: int = 0) -> str:
        """The address 10.n.<third>.<last>."""
        return f"10.{self.subnet}.{third}.{last}"

    @property
    def address(self) -> str:
        """Where the control plane, the hub and the S3 server listen, as seen from the host, nodes and pods."""
        return self.host(1) if self.isolated else "127.0.0.1"

    @property
    def host_address(self) -> str:
        """The host's own end of the lab's network."""
        return self.host(254)

    def node_address(self, index: int) -> str:
        """The address of the real node with that index."""
        return self.host(10 + index)

    def pod_network(self, index: int) -> str:
        """The pods of the real node with that index."""
        return f"10.{self.subnet}.{10 + index}.0/24"

    @property
    def service_network(self) -> str:
        """Cluster addresses of Services."""
        return f"10.{self.subnet}.128.0/20" if self.isolated else "10.96.0.0/20"

    @property
    def link(self) -> str:
        """The name of the host's network link to the lab."""
        return f"heavylift{self.subnet}"

    def url(self, service: str, scheme: str = "http") -> str:
        """The address of one of the lab's own services, by its name in `PORTS`."""
        return f"{scheme}://{self.address}:{self.ports[service]}"

    @property
    def kubeconfig(self) -> Path:
        """The cluster's administrator."""
        return self.directory / "kubeconfig"

    @property
    def logs(self) -> Path:
        """One file for each process."""
        return self.directory / "logs"

    @property
    def running(self) -> bool:
        """Whether the process that holds the lab is alive."""
        if not self.pid:
            return False
        words = Path(f"/proc/{self.pid}/cmdline")
        try:
            command = words.read_bytes()
            if not command:
                # A process that has just been started has none for a moment, one that has ended has none for good.
                time.sleep(STARTED_SECONDS)
                command = words.read_bytes()
        except OSError:
            return False
        return str(self.directory).encode() in command

    def save(self) -> None:
        """Writes site.json."""
        fields = {**asdict(self), "directory": str(self.directory), "checkout": str(self.checkout)}
        (self.directory / "site.json").write_text(json.dumps(fields, indent=2) + "\n")

    def stop(self) -> None:
        """Kills the one process that holds everything."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)


def load(directory: Path) -> Site | None:
    """The lab in that directory, running or not; None where there is none."""
    try:
        fields = json.loads((directory / "site.json").read_text())
    except FileNotFoundError:
        return None
    return Site(**{**fields, "directory": Path(fields["directory"]), "checkout": Path(fields["checkout"])})
