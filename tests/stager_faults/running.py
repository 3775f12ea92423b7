"""Runs the stager as its pod would: as a process of its own, told by arguments and environment only."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
MIB = 1024 * 1024


@dataclass(frozen=True)
class Ended:
    """How a run ended."""

    status: int
    log: str
    message: str
    """The termination message."""


class Stager:
    """A running stager; `environment` is added to a bare one, in which no token and no proxy is set."""

    def __init__(self, arguments: Sequence[str | Path], *, log_directory: Path, **environment: str) -> None:
        self._message = log_directory / f"termination-{os.urandom(4).hex()}"
        self._message.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stager", *map(str, arguments), "--termination-log", str(self._message)],
            cwd=CHECKOUT,
            env={"PATH": os.environ["PATH"], "HOME": str(log_directory), **environment},
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait(self, seconds: float = 60) -> Ended:
        """The end of the run."""
        _, log = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, log, self._message.read_text())


def manifest_of(directory: Path) -> dict[str, Any]:
    """The manifest, which must be there."""
    manifest: dict[str, Any] = json.loads((directory / ".heavylift/manifest.json").read_text())
    return manifest


def is_marked_complete(directory: Path) -> bool:
    """Whether there is a manifest."""
    return (directory / ".heavylift/manifest.json").exists()
