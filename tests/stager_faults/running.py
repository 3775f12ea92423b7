"""Runs the stager as its pod does: as a separate process, with arguments and environment only."""

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
    """The result of a run."""

    status: int
    log: str
    message: str
    """The termination message."""


class Stager:
    """A running stager. Its environment is `environment`, PATH and HOME."""

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
        """Waits for the end of the run, and returns its result."""
        _, log = self.process.communicate(timeout=seconds)
        return Ended(self.process.returncode, log, self._message.read_text())


def manifest_of(directory: Path) -> dict[str, Any]:
    """Returns the manifest, which must exist."""
    manifest: dict[str, Any] = json.loads((directory / ".heavylift/manifest.json").read_text())
    return manifest


def is_marked_complete(directory: Path) -> bool:
    """Returns whether a manifest exists."""
    return (directory / ".heavylift/manifest.json").exists()
