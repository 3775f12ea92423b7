"""Pods that connect to others, where NetworkPolicies are enforced."""

from typing import Any

from tests.lab.kubectl import Kubectl

LISTENER = 9000
LISTEN = f"""
import socket
server = socket.create_server(("", {LISTENER}))
while True:
    server.accept()[0].close()
"""
CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=3).close()
except ConnectionRefusedError:
    pass  # the packet came through, and nobody listens; a policy drops packets
"""
RESOLVE = "import socket, sys; socket.getaddrinfo(sys.argv[1], None)"


def client(name: str, node: str) -> dict[str, Any]:
    """A pod that listens on a port, and from which a test connects to others."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {"name": "main", "image": "heavylift.lab/python:1", "command": ["python3", "-c", LISTEN]},
            ],
        },
    }


class Reaching:
    """Connects from pods to addresses."""

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl

    def address(self, namespace: str, pod: str) -> str:
        """Returns the address of a pod."""
        return str(self._kubectl.get("pod", "-n", namespace, pod)["status"]["podIP"])

    def __call__(self, namespace: str, pod: str, address: str, port: int) -> bool:
        """Whether a pod connects to a port."""
        return self._runs(namespace, pod, CONNECT, address, str(port))

    def resolves(self, namespace: str, pod: str, name: str) -> bool:
        """Whether a pod resolves a name."""
        return self._runs(namespace, pod, RESOLVE, name)

    def _runs(self, namespace: str, pod: str, *words: str) -> bool:
        try:
            self._kubectl("exec", "-n", namespace, pod, "--", "python3", "-c", *words)
        except AssertionError as refusal:
            if not any(fault in str(refusal) for fault in ("TimeoutError", "gaierror")):
                raise
            return False
        return True
