"""Answers pairs for one kind of GPU by SGLang's own code: `python -m tests.oracle.sglang h200`."""

from __future__ import annotations

import sys
from typing import Any

from tests.oracle.engine import absent, gpu
from tests.oracle.engine.answers import Answer, in_fork, serve
from tests.oracle.engine.layouts import answers
from tests.oracle.sglang import compiled


def start(kind: gpu.Gpu) -> Answer:
    """Imports SGLang, and what pairs need of it, so that each fork has it."""
    absent.install(compiled.PACKAGES, compiled.EXTENSIONS, answers(kind.level, kind.units))
    gpu.install(kind)
    from tests.oracle.sglang import build

    build.install()
    return _answer


def _answer(pair: dict[str, Any]) -> dict[str, Any]:
    """All pipeline stages of a pair."""
    stages: list[dict[str, Any]] = []
    for rank in pair["ranks"]:
        stage = in_fork(lambda rank=rank: _stage(pair, rank))  # type: ignore[misc]
        if isinstance(stage, str):
            return {"key": pair["key"], "error": stage}
        stages.append(stage)
    return {"key": pair["key"], "stages": stages}


def _stage(pair: dict[str, Any], rank: int) -> dict[str, Any]:
    from tests.oracle.sglang import build

    arguments = build.published(pair["directory"], pair["arguments"], rank)
    model, config, answer = build.built(arguments, rank)
    return answer


if __name__ == "__main__":
    serve(lambda: start(gpu.GPUS[sys.argv[1]]))
