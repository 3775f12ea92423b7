"""Runs kubectl on the lab's cluster."""

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab.cluster.client import wait_until
from lab.cluster.control_plane import kubectl


class Kubectl:
    """Calls the lab's kubectl with the lab's kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = [str(kubectl()), "--kubeconfig", str(kubeconfig)]

    def __call__(self, *words: str, text: str | None = None) -> str:
        """Runs kubectl and returns its output. Raises an error with kubectl's message."""
        answer = subprocess.run([*self._command, *words], input=text, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    def apply(self, *manifests: dict[str, Any], namespace: str = "default") -> None:
        """Applies manifests."""
        content = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self("apply", "-n", namespace, "-f", "-", text=json.dumps(content))

    def get(self, *words: str) -> dict[str, Any]:
        """Runs `kubectl get … -o json`."""
        found: dict[str, Any] = json.loads(self("get", *words, "-o", "json"))
        return found

    def wait(self, *words: str, seconds: int = 90) -> None:
        """Runs `kubectl wait`."""
        self("wait", f"--timeout={seconds}s", *words)

    @contextmanager
    def definitions(self, folder: Path) -> Iterator[None]:
        """The custom resource definitions in a folder's YAML files, until the end of the block.

        `kubectl wait` fails on a definition that has no conditions yet.
        """
        files = [word for file in sorted(folder.glob("*.yaml")) for word in ("-f", str(file))]
        self("apply", "--server-side", *files)
        wait_until(lambda: self._established(*files), 60, "the definitions were not established")
        yield
        self("delete", *files)

    def _established(self, *files: str) -> bool:
        found = self.get(*files)
        return all(
            any(
                condition["type"] == "Established" and condition["status"] == "True"
                for condition in definition["status"]["conditions"] or []
            )
            for definition in found.get("items", [found])
        )

    def logs_until(self, wanted: str, *words: str, seconds: float = 60) -> str:
        """Waits until the log of a pod contains `wanted`, and returns the log."""
        deadline = time.monotonic() + seconds
        log = ""
        while time.monotonic() < deadline:
            try:
                log = self("logs", *words)
            except AssertionError:
                log = ""
            if wanted in log:
                return log
            time.sleep(0.5)
        raise AssertionError(f"{wanted!r} did not appear within {seconds} s; the log says:\n{log}")
