"""Several stagers that share one download. Each is a process with its own directory and port."""

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
    """Returns the model, in the format of the hub's table."""
    files: dict[str, object] = {
        name: {"generate": {"seed": 40 + n, "size": s}} for n, (name, s) in enumerate(SIZES.items())
    }
    files |= {name: {"text": text} for name, text in TEXTS.items()}
    return {"revisions": [{"commit": COMMIT, "branches": ["main"], "files": files}]}


class Nodes:
    """`count` nodes, whose volumes are folders of `place`. `module`: the Python module that runs as the stager."""

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
        """Returns the directory of node `node`."""
        return self.place / f"node-{node}" / "tree"

    def log(self, node: int) -> str:
        """Returns the log of all runs of the node."""
        return self._log(node).read_text()

    def _log(self, node: int) -> Path:
        return self.place / f"log-{node}"

    def command(self, node: int, *options: object, addresses: Sequence[str] | None = None) -> list[str]:
        """Returns the command line of node `node`.

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
        self,
        node: int,
        *options: object,
        secret: str = SECRET,
        addresses: Sequence[str] | None = None,
        within: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Starts a stager on node `node`. `within`: a command that runs it, such as `ip netns exec n0`."""
        with self._log(node).open("a") as log:
            return subprocess.Popen(
                [*within, *self.command(node, *options, addresses=addresses)],
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
        """Returns whether the full check passes, and all bytes are those of the hub."""
        tree = self.tree(node)
        whole = problems(tree, full=True, repository=REPOSITORY, revision=COMMIT) == []
        return whole and all((tree / name).read_bytes() == content for name, content in self.truth.items())


def free_ports(count: int) -> list[int]:
    """Returns ports that are free at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [free.getsockname()[1] for free in sockets]
    for free in sockets:
        free.close()
    return ports
