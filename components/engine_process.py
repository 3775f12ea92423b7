"""The engine's process in the server's pod: what to start, and where it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class EngineProcess:
    """One engine's command line, environment and port."""

    command: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    port: int
    """Port on which the engine answers, `/health` included: 200 as soon as it can take requests."""
