"""Stagers as forks of this process, which has imported all that they need: to import takes longer than to stage.

Each is a process of its own: signals, leases and open files are as in a pod.
"""

import importlib
import multiprocessing
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.small_blocks import run

_FORK = multiprocessing.get_context("fork")


@contextmanager
def environment_of_stagers(variables: Mapping[str, str]) -> Iterator[None]:
    """Gives this process the environment of its stagers: the hub's library reads it when it is imported."""
    with patch.dict(os.environ, {"PATH": os.environ["PATH"], **variables}, clear=True):
        importlib.import_module("stager.hub")
        yield


class ForkedStager:
    """A running stager. Its output goes to the file `log`."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        self._log = log
        log.unlink(missing_ok=True)
        self._process = _FORK.Process(target=_run, args=(arguments, log))
        self._process.start()

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the stager has ended."""
        if self._process.pid is not None and self._process.exitcode is None:
            os.kill(self._process.pid, number)

    def wait(self, seconds: float) -> int | None:
        """Waits for the end. Returns the exit status, or minus the signal's number. None: it still runs."""
        self._process.join(seconds)
        return self._process.exitcode

    def log(self) -> str:
        """Returns the output so far."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""


def _run(arguments: Sequence[str], log: Path) -> None:
    output, nothing = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), os.open(os.devnull, os.O_RDWR)
    for descriptor, target in ((nothing, 0), (nothing, 1), (output, 2)):
        os.dup2(descriptor, target)
    run(arguments)
