"""Several stagers that share one download, each a process with a directory and a port of its own."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

from lab.hub.client import HubClient
from stager.verify import problems

CHECKOUT = Path(__file__).parents[2]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "acme/fleet"
SECRET = "a-secret-of-the-fleet"
KIB = 1024
SIZES = {f"model-{number:05d}-of-00012.safetensors": 1024 * KIB + 1000 * number for number in range(1, 13)}
TEXTS = {"config.json": '{"model_type": "lab"}\n', "notes/deep.txt": "below a folder\n", "empty.txt": ""}


def repository() -> dict[str, object]:
    """The model, as the hub's table has it."""
    files: dict[str, object] = {
        name: {"generate": {"seed": 40 + n, "size": s}} for n, (name, s) in enumerate(SIZES.items())
    }
    files |= {name: {"text": text} for name, text in TEXTS.items()}
    return {"revisions": [{"commit": COMMIT, "branches": ["main"], "files": files}]}


class Nodes:
    """`count` nodes, whose volumes are folders of `place`."""

    def __init__(self, hub: HubClient, place: Path, count: int, *, module: str = "stager") -> None:
        self.hub = hub
        self.place = place
        self.ports = free_ports(count)
        self.truth = {name: self._fetch(name) for name in (*SIZES, *TEXTS)}
        self.lock = place / "lock.json"
        self.total = sum(map(len, self.truth.values()))
        self._module = module
        self._write_lock()

    def _fetch(self, name: str) -> bytes:
        with urllib.request.urlopen(f"{self.hub.url}/{REPOSITORY}/resolve/{COMMIT}/{name}") as answer:
            content: bytes = answer.read()
        return content

    def _write_lock(self) -> None:
        files = [
            {"path": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in sorted(self.truth.items())
        ]
        lock = {"version": 1, "repository": REPOSITORY, "revision": COMMIT, "commit": COMMIT, "files": files}
        self.lock.write_text(json.dumps({**lock, "total_bytes": self.total}))

    def tree(self, node: int) -> Path:
        """Where node `node` stages."""
        return self.place / f"node-{node}" / "tree"

    def log(self, node: int) -> str:
        """What the node said so far, over all its runs."""
        return self._log(node).read_text()

    def _log(self, node: int) -> Path:
        return self.place / f"log-{node}"

    def command(self, node: int, *options: object, addresses: Sequence[str] | None = None) -> list[str]:
        """The command line of node `node`.

        `addresses` are where it looks for the others, if not at their ports; with none it is alone.
        """
        if addresses is None:
            addresses = [f"http://127.0.0.1:{port}" for port in self.ports]
        peers = [f"--peer=node-{other}={address}" for other, address in enumerate(addresses)]
        command = [sys.executable, "-m", self._module, "stage", "--directory", self.tree(node), "--lock", self.lock]
        command += ["--repository", REPOSITORY, "--revision", COMMIT, "--lease-seconds", "2"]
        peers += [f"--node=node-{node}"] if peers else []
        return list(map(str, [*command, *peers, *options]))

    def start(
        self, node: int, *options: object, secret: str = SECRET, addresses: Sequence[str] | None = None
    ) -> subprocess.Popen[bytes]:
        """A stager on node `node`."""
        with self._log(node).open("a") as log:
            return subprocess.Popen(
                self.command(node, *options, addresses=addresses),
                cwd=CHECKOUT,
                env={
                    "PATH": os.environ["PATH"],
                    "HOME": str(self.place),
                    "HF_ENDPOINT": self.hub.url,
                    "STAGER_FLEET_SECRET": secret,
                },
                stdout=log,
                stderr=log,
            )

    def is_complete(self, node: int) -> bool:
        """Whether the full check passes, and every byte is that of the hub."""
        tree = self.tree(node)
        whole = problems(tree, full=True, repository=REPOSITORY, revision=COMMIT) == []
        return whole and all((tree / name).read_bytes() == content for name, content in self.truth.items())


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [free.getsockname()[1] for free in sockets]
    for free in sockets:
        free.close()
    return ports
