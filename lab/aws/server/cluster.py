"""The Kubernetes cluster that EKS answers with: the lab's API server, or none."""

import base64
from pathlib import Path
from typing import Any, Protocol

import yaml

from lab.aws.server.store import Record


class Nodes(Protocol):
    """The nodes of a cluster."""

    def add(self, manifest: Record) -> None:
        """Adds a node that is Ready."""

    def remove(self, name: str) -> None:
        """Removes a node if it exists."""


class NoNodes:
    """Nodes of no cluster: for tests of the API alone."""

    def add(self, manifest: Record) -> None:
        """Does nothing."""

    def remove(self, name: str) -> None:
        """Does nothing."""


class Cluster:
    """An API server and its nodes."""

    def __init__(self) -> None:
        self.endpoint = "https://127.0.0.1:1"
        self.authority = base64.b64encode(b"no cluster").decode()
        self.nodes: Nodes = NoNodes()

    def use(self, kubeconfig: Path, nodes: Nodes) -> None:
        """Answers with the cluster of a kubeconfig from now on."""
        content: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
        found = content["clusters"][0]["cluster"]
        self.endpoint = found["server"]
        self.authority = found["certificate-authority-data"]
        self.nodes = nodes


CLUSTER = Cluster()
"""The cluster of this server. Every EKS cluster is this one."""
