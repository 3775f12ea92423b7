"""Processes of the lab: commands, and programs that run as long as the lab."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from lab.errors import LabError

PR_SET_PDEATHSIG = 1


def run(
    *command: str | Path,
    text: str | None = None,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """Runs a command with `text` on its standard input and returns its output.

    Raises LabError with the command and the end of its output if the command fails.
    """
    words = [str(word) for word in command]
    answer = subprocess.run(
        words,
        input=text,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        raise LabError(
            f"{' '.join(words[:6])} failed with status {answer.returncode}:\n{answer.stderr.strip()[-2000:]}"
        )
    return answer.stdout


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent ends. Call it in the child before `exec`."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@dataclass(frozen=True)
class Program:
    """A command line that runs as long as the lab."""

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)

    def start(self, logs: Path) -> "subprocess.Popen[bytes]":
        """Starts the program and appends its output to `<logs>/<name>.log`."""
        with (logs / f"{self.name}.log").open("ab") as log:
            words = [str(word) for word in self.command]
            return subprocess.Popen(
                words,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
