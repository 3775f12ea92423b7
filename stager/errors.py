"""What can go wrong while staging, by who can do something about it: the person, the server in a moment, or nobody."""

from __future__ import annotations


class StagerError(Exception):
    """The run ends; the text is one line for the person who reads the log or `pulumi up`."""


class WrongUsage(StagerError):
    """The command line itself says nothing that could be done."""


class Stopped(StagerError):
    """The run was told to end (SIGTERM); what is on the volume is kept and the next run goes on from it."""


class Unanswered(StagerError):
    """The run ends because a server did not answer, or not in time; a later one may go better."""


class SourceTrouble(Exception):
    """A source failed in passing and may be asked again.

    `wait` is the number of seconds for which the server itself asked to be left alone, if it did.
    """

    def __init__(self, text: str, wait: float | None = None) -> None:
        super().__init__(text)
        self.wait = wait


class SourceRefusal(Exception):
    """A source does not have this file, or not as expected; asking again would not help."""
