"""The protocol that every engine implements, once in each engine's folder.

Everything that differs between engines is behind it. `engines.registry` returns an engine by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from config.catalogue import Gpu
from config.checkpoint.model_spec import ModelSpec
from config.engine_name import EngineName
from engines.finding import Finding
from engines.plan import Plan
from engines.process import EngineProcess, ProcessStart, Role
from engines.request import FitRequest
from engines.rules.driver import Compatibility


@dataclass(frozen=True, slots=True)
class Metrics:
    """The path of an engine's Prometheus metrics, and the names of those that operators watch.

    `None`: the engine does not count it.
    """

    path: str
    queries: Path
    """File with the panels and alerts (`engines.queries`)."""
    key_header: str | None
    """Header beside `Authorization` with the API key for the path. None: the path is open."""
    requests_running: str
    """Gauge: requests that are computed."""
    requests_waiting: str
    """Gauge: requests in the queue."""
    prompt_tokens: str
    """Counter: tokens of prompts."""
    generated_tokens: str
    """Counter: tokens of answers."""
    steps: str | None
    """Counter: steps of which each gives every running request a token, for an engine that counts the tokens of an
    answer only when it ends. None: `generated_tokens` grows with each token."""
    kv_cache_usage: str | None
    """Gauge: share of the KV cache in use, 0 to 1."""
    time_to_first_token: str | None
    """Histogram: seconds from a request to its first token."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A change of a request that may make it work; the planner plans it before it is suggested."""

    changes: Mapping[str, int | str | bool]
    """Fields of the request and their new values."""
    group: str = ""
    """Of the alternatives with the same word here only the first that works is suggested."""

    def applied(self, request: FitRequest) -> FitRequest:
        """The request with the change made."""
        return replace(request, **self.changes)  # type: ignore[arg-type]


class Engine(Protocol):
    """An inference engine: the formats it reads, its memory, and how its process is started and probed."""

    @property
    def name(self) -> EngineName:
        """As a stack file says it."""

    @property
    def title(self) -> str:
        """As messages say it."""

    @property
    def missing_settings(self) -> frozenset[str]:
        """Fields of the request for which this engine has no setting."""

    @property
    def online_quantization(self) -> frozenset[str]:
        """Methods by which it quantises an unquantised checkpoint while it loads."""

    @property
    def metrics(self) -> Metrics:
        """Its Prometheus metrics."""

    def reads(self, checkpoint_format: str) -> bool:
        """Whether it serves checkpoints of that format (`bf16`, `fp8`, `nvfp4`, `int4`, `mxfp4`, `gguf`)."""

    def expected_version(self, version: str) -> str:
        """The expected form of a version, if `version` is invalid; empty if it is valid."""

    def driver_compatibility(self, version: str, driver: str | None, gpu: Gpu) -> Compatibility:
        """What follows from the nodes' driver and the image of a version."""

    def plan(self, request: FitRequest, model: ModelSpec) -> Plan:
        """The plan of a model: every rule, the memory, the arguments and the verdict."""

    def plan_unknown_model(self, request: FitRequest, why: Finding) -> Plan:
        """The plan of an unknown model; `why` is the finding that says so.

        Covers what does not depend on the model: arguments, GPUs and nodes, disk.
        """

    def weights(self, request: FitRequest, model: ModelSpec) -> tuple[float, ...]:
        """Bytes of weights on the fullest GPU of each pipeline stage, after loading. Empty: not known."""

    def explain(self, request: FitRequest, model: ModelSpec, plan: Plan) -> Iterator[str]:
        """The arithmetic of a plan's memory, line by line, each with its formula and source."""

    def settings_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        """Settings on the same machine that may make a rejected plan fit, smallest change first."""

    def layouts_to_try(self, request: FitRequest, plan: Plan) -> Iterator[Alternative]:
        """Other layouts over the same GPUs."""

    def evidence(self) -> Iterator[str]:
        """Sections of the accuracy document about figures that only this engine has, as lines of Markdown."""

    def process(self, start: ProcessStart, role: Role) -> EngineProcess:
        """The process of one pod. Raises ValueError where `start` lacks what this engine needs."""
