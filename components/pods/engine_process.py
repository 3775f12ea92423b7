"""The engine's process in the server's pod: what to start, and where it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto


class Role(Enum):
    """A pod's part in the server."""

    ALONE = auto()
    """All of it."""
    LEADER = auto()
    """The first of a group of nodes, which answers for all of them."""
    WORKER = auto()
    """Another of that group, which answers nobody."""


@dataclass(frozen=True)
class EngineProcess:
    """One engine's command line, environment and port."""

    command: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    port: int
    """Port on which the engine answers, `/health` included: 200 as soon as it can take requests."""
