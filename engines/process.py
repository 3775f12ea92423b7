"""The engine's process in a pod: command, environment, port and probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto


class Role(Enum):
    """The role of a pod in its server."""

    ALONE = auto()
    """All of it."""
    LEADER = auto()
    """The first of a group of nodes, which answers for all of them."""
    WORKER = auto()
    """Another of that group, which answers nobody."""


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """What a process is started with, the same for every pod of a server."""

    directory: str
    """Directory of the staged weights, read-only."""
    served_name: str
    """Name under which clients ask for the model."""
    model_file: str | None
    """File within the directory, for an engine that serves one file."""
    arguments: Sequence[str]
    """Arguments that follow from model and plan, the stack's own among them."""
    nodes: int
    """Nodes of the server, one pod on each."""
    ready_seconds: int
    """An engine with a ready time-out of its own gives itself up after this long."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A Kubernetes probe."""

    period_seconds: int
    failure_threshold: int
    timeout_seconds: int = 10


LIVENESS = Probe(period_seconds=30, failure_threshold=3)
"""Our own choice: an engine that is busy with a long prompt answers late, and a restart costs a whole load."""

READINESS = Probe(period_seconds=10, failure_threshold=3)
"""Our own choice: half a minute without an answer takes a pod out of the Service."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """One engine's command line, environment and port."""

    command: Sequence[str]
    arguments: Sequence[str]
    environment: Mapping[str, str]
    port: int
    """Port on which the engine answers HTTP."""
    health_path: str = "/health"
    """Path that answers 200 as soon as the engine can take requests. The startup probe asks it too; how long it may
    take follows from the plan."""
    liveness: Probe = LIVENESS
    readiness: Probe = READINESS
    pod_fields: Mapping[str, str] = field(default_factory=dict)
    """Further environment that the cluster fills in: name of the variable to the path of a pod's field."""
    cache_directories: Mapping[str, str] = field(default_factory=dict)
    """Writable directories that the engine needs, empty at each start: name to mount path."""
