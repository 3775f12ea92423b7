"""What to stage, and where from: what `python -m stager stage` is told.

Needs nothing but the standard library, so that a command line is read before a client is imported.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stager.lease import LEASE_SECONDS
from stager.source_name import HUB

DEFAULT_STALL_SECONDS = 30.0
FLEET_SECRET = "STAGER_FLEET_SECRET"  # noqa: S105 - the name of the variable, not a secret
PEER_TIMEOUT_SECONDS = 60.0
"""A node that was silent, or got nowhere, for so long loses its files to the others."""


def default_mirror_streams() -> int:
    """For `mirror`, whose streams hold whole parts in memory: two for each core, at least 8, at most 16.

    Each stream is a thread, and on few cores more of them cost more than they bring: 16 instead of 4 streams on two
    cores took 14% more CPU time for 2 GiB from a server nearby, measured in November 2026.
    """
    return max(8, min(16, 2 * len(os.sched_getaffinity(0))))


@dataclass(frozen=True)
class Membership:
    """Who belongs to a fleet, as all of them are told in the same order, and which of them this one is."""

    members: tuple[tuple[str, str], ...]
    """Name and address (http://host:port) of each."""
    me: str
    port: int
    """Where this one listens."""
    secret: str = field(repr=False)
    """Known to the members only."""
    timeout_seconds: float = PEER_TIMEOUT_SECONDS

    @property
    def place(self) -> int:
        """The place of this one among the members."""
        return [name for name, _ in self.members].index(self.me)


@dataclass(frozen=True)
class StageRequest:
    """What to stage, and where from; the fields are those of `python -m stager stage --help`."""

    directory: Path
    repository: str
    revision: str
    include: Sequence[str] = ()
    lock: Path | None = None
    sources: Sequence[str] = (HUB,)
    native_xet: bool = False
    allow_unpinned: bool = False
    user: str | None = None
    streams: int | None = None
    """Unset: as many as the line rewards."""
    stall_seconds: float = DEFAULT_STALL_SECONDS
    lease_seconds: float = LEASE_SECONDS
    fleet: Membership | None = None
