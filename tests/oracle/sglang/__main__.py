"""Answers pairs for one kind of GPU by SGLang's own code: `python -m tests.oracle.sglang h200`."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from tests.oracle.engine import absent, gpu
from tests.oracle.engine.answers import Answer, in_fork, said, serve
from tests.oracle.engine.layouts import answers
from tests.oracle.sglang import compiled


def start(kind: gpu.Gpu) -> Answer:
    """Imports SGLang, and what pairs need of it, so that each fork has it."""
    absent.install(compiled.PACKAGES, compiled.EXTENSIONS, {**answers(kind.level, kind.units), **compiled.ANSWERS})
    gpu.install(kind)
    compiled.install()
    from tests.oracle.sglang import build

    build.install()
    _import_early()
    return _answer


def _import_early() -> None:
    import sglang.srt.model_executor.pool_configurator
    import sglang.srt.models.registry  # noqa: F401 -- imports every model
    import torch

    torch.set_num_threads(1)


def _answer(pair: dict[str, Any]) -> dict[str, Any]:
    """All pipeline stages of a pair."""
    stages: list[dict[str, Any]] = []
    for rank in pair["ranks"]:
        stage = in_fork(lambda rank=rank: _stage(pair, rank))  # type: ignore[misc]
        if isinstance(stage, str):
            return {"key": pair["key"], "error": stage}
        stages.append(stage)
    return {"key": pair["key"], "stages": stages, "cache": _whole_cache(stages)}


def _whole_cache(stages: list[dict[str, Any]]) -> dict[str, Any]:
    """The server's cache: the fewest tokens of all stages (mem_cache/kv_cache_configurator.py
    `_apply_token_constraints`), or the first error."""
    caches = [stage.pop("cache") for stage in stages]
    for stage, cache in zip(stages, caches, strict=True):
        if "error" in cache:
            return {"error": cache["error"]}
        stage["bytes_per_token"] = cache.pop("bytes_per_token")
    least = min(caches, key=lambda cache: cache["tokens"])
    return {name: least[name] for name in ("dtype", "page", "tokens")}


def _stage(pair: dict[str, Any], rank: int) -> dict[str, Any]:
    from sglang.srt.runtime_context import get_schedule

    from tests.oracle.sglang import build, cache

    arguments = build.published(pair["directory"], pair["arguments"], rank)
    model, config, answer = build.built(arguments, rank)
    answer["fraction"] = get_schedule().mem_fraction_static
    try:
        answer["cache"] = cache.planned(arguments, model, config, pair["kv_bytes"])
    except Exception as error:
        traceback.print_exc()
        answer["cache"] = {"error": said(error)}
    return answer


if __name__ == "__main__":
    serve(lambda: start(gpu.GPUS[sys.argv[1]]))
