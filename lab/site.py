"""One lab's directory, addresses, ports and start options.

A lab belongs to a checkout. Its directory is in the cache and carries the checkout's name. `up` writes `site.json` into
it; every other command reads that file.
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
"""Time after which a new process shows its command line."""

# A lab has its own network namespace, so these ports cannot conflict.
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
    "aws": 4566,
}


def directory_of(checkout: Path) -> Path:
    """Returns the directory of the checkout's lab: the checkout's name and a hash of its path."""
    return LABS / f"{checkout.name}-{hashlib.sha256(str(checkout).encode()).hexdigest()[:8]}"


def free_ports() -> dict[str, int]:
    """Returns a free port for each name in `PORTS`, for a lab that shares the host's network."""
    sockets = {name: socket.create_server(("127.0.0.1", 0)) for name in PORTS}
    ports = {name: listener.getsockname()[1] for name, listener in sockets.items()}
    for listener in sockets.values():
        listener.close()
    return ports


@dataclass(frozen=True)
class Site:
    """One lab. `subnet` is n in 10.n.0.0/16. None: no root, and every server listens on 127.0.0.1."""

    directory: Path
    checkout: Path
    subnet: int | None
    ports: dict[str, int]
    pid: int = 0

    @property
    def isolated(self) -> bool:
        """Whether the lab has its own namespaces. Nodes that run containers need them."""
        return self.subnet is not None

    def host(self, last: int) -> str:
        """The address 10.n.0.<last>."""
        return f"10.{self.subnet}.0.{last}"

    @property
    def address(self) -> str:
        """The address of the control plane, hub and S3 server, for the host, nodes and pods."""
        return self.host(1) if self.isolated else "127.0.0.1"

    @property
    def host_address(self) -> str:
        """The host's address in the lab's network."""
        return self.host(254)

    def node_address(self, index: int) -> str:
        """The address of a real node."""
        return self.host(10 + index)

    def pod_network(self, index: int) -> str:
        """The pod network of a real node."""
        return f"10.{self.subnet}.{10 + index}.0/24"

    @property
    def service_network(self) -> str:
        """The network of the Services' cluster IP addresses."""
        return f"10.{self.subnet}.128.0/20" if self.isolated else "10.96.0.0/20"

    @property
    def link(self) -> str:
        """The name of the network link between host and lab."""
        return f"heavylift{self.subnet}"

    def url(self, service: str, scheme: str = "http") -> str:
        """Returns the URL of one of the lab's servers, by its name in `PORTS`."""
        return f"{scheme}://{self.address}:{self.ports[service]}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def logs(self) -> Path:
        """The log directory, with one file for each process."""
        return self.directory / "logs"

    @property
    def running(self) -> bool:
        """Whether the lab's process is alive."""
        if not self.pid:
            return False
        words = Path(f"/proc/{self.pid}/cmdline")
        try:
            command = words.read_bytes()
            if not command:
                # Empty for a moment after the start, and after the end until the parent reaps the process.
                time.sleep(STARTED_SECONDS)
                command = words.read_bytes()
        except OSError:
            return False
        return str(self.directory).encode() in command

    def save(self) -> None:
        """Writes `site.json`."""
        fields = {**asdict(self), "directory": str(self.directory), "checkout": str(self.checkout)}
        (self.directory / "site.json").write_text(json.dumps(fields, indent=2) + "\n")

    def stop(self) -> None:
        """Kills the lab's process. The kernel then ends all other processes of the lab."""
        if self.running:
            os.kill(self.pid, signal.SIGKILL)


def load(directory: Path) -> Site | None:
    """Returns the lab in that directory, running or not. None: no lab."""
    try:
        fields = json.loads((directory / "site.json").read_text())
    except FileNotFoundError:
        return None
    return Site(**{**fields, "directory": Path(fields["directory"]), "checkout": Path(fields["checkout"])})
