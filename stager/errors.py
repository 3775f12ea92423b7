"""The errors of staging, by the remedy: a person acts, a retry helps, or nothing does."""

from __future__ import annotations

from collections.abc import Mapping


class StagerError(Exception):
    """Ends the run; the text is one line for the log and `pulumi up`."""


class FilesFailed(StagerError):
    """Ends the run: some files cannot be had, or are wrong wherever they come from.

    `failures`: the reason of each path.
    """

    def __init__(self, failures: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{path}: {reason}" for path, reason in sorted(failures.items())))
        self.failures = dict(failures)


class WrongUsage(StagerError):
    """The command line is not valid."""


class Stopped(StagerError):
    """A signal (SIGTERM) ended the run; the next run continues from the volume."""


class Unanswered(StagerError):
    """Ends the run: a server did not answer in time; a later run may succeed."""


class NoCredentials(StagerError):
    """Ends the run: no AWS credentials reached this pod. They come at its start, so that only a new pod helps."""


class SourceTrouble(Exception):
    """A transient error of a source; a retry may help.

    `wait`: seconds that the server asks to wait. None: not stated.
    """

    def __init__(self, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.wait = wait


class SourceRefusal(Exception):
    """A source lacks this file, or has another one; a retry does not help."""
