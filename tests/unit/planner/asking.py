"""Short ways to ask the planner, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from config.catalogue import find_gpu
from config.checkpoint.model_spec import find_model
from engines.vllm.memory.stages import tensors_by_group
from engines.vllm.resolved_request import ResolvedRequest, resolve
from planner import FitRequest, Plan, fit

DATA = Path(__file__).parents[2] / "data" / "planner"
GIB = 2**30


def plan(model: str, gpu: Any = "h200", **settings: Any) -> Plan:
    """The plan of a model on a GPU; without one, `None`."""
    return fit(FitRequest(model=model, gpu=gpu, **settings))


def codes(planned: Plan) -> set[str]:
    """Codes of a plan's problems."""
    return {problem.code for problem in planned.problems}


def warning_codes(planned: Plan) -> set[str]:
    """Codes of a plan's warnings."""
    return {warning.code for warning in planned.warnings}


def texts(planned: Plan) -> str:
    """All that a plan's problems and their fixes say."""
    return " ".join(f"{problem.message} {problem.fix}" for problem in planned.problems)


def resolved_request(model: str, gpu: str = "h200", **settings: Any) -> ResolvedRequest:
    """A request with its defaults resolved."""
    return resolve(FitRequest(model=model, gpu=gpu, **settings), find_model(model), find_gpu(gpu))


def weights_gib(model: str, stage: int = 0, **settings: Any) -> float:
    """GiB of the checkpoint's tensors on one GPU of a stage."""
    return sum(tensors_by_group(resolved_request(model, **settings), stage).values()) / GIB


def derivation() -> dict[str, Any]:
    """Groups and sizes that were worked out apart from the planner."""
    loaded: dict[str, Any] = json.loads((DATA / "derivation.json").read_text())
    return loaded
