"""What to stage, and from where: the arguments of `python -m stager stage`.

Needs only the standard library, so that a command line is parsed before a client is imported.
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
MOST_PROCESSES = 8
PEER_TIMEOUT_SECONDS = 60.0
"""After this time without answer or progress, a node loses its files to the others."""


def default_mirror_streams() -> int:
    """For `mirror`, whose streams hold whole parts in memory: two for each core, at least 8, at most 16.

    Each stream is a thread, and on few cores more threads cost more than they gain: 16 instead of 4 streams on two
    cores took 14% more CPU time for 2 GiB from a nearby server, measured in November 2026.
    """
    return max(8, min(16, 2 * len(os.sched_getaffinity(0))))


@dataclass(frozen=True)
class Membership:
    """The members of a fleet, in the same order on all nodes, and which one this node is."""

    members: tuple[tuple[str, str], ...]
    """Name and address (http://host:port) of each."""
    me: str
    port: int
    """The port of this node."""
    secret: str = field(repr=False)
    """Only members know it."""
    timeout_seconds: float = PEER_TIMEOUT_SECONDS

    @property
    def place(self) -> int:
        """This node's place among the members."""
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
    """Unset: found from the rate."""
    processes: int | None = None
    """Unset: by the cores, the memory, and what is missing."""
    stall_seconds: float = DEFAULT_STALL_SECONDS
    lease_seconds: float = LEASE_SECONDS
    fleet: Membership | None = None
    require_credentials: bool = False
    """Whether to end if there are no AWS credentials, instead of trying the other sources."""
