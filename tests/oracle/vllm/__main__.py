"""Answers pairs for one kind of GPU by vLLM's own code: `python -m tests.oracle.vllm h200`."""

from __future__ import annotations

import contextlib
import pickle
import sys
import traceback
from typing import Any

from tests.oracle.engine import absent, gpu
from tests.oracle.engine.answers import Answer, in_fork, said, serve
from tests.oracle.engine.layouts import answers
from tests.oracle.vllm import compiled, platform


def start(kind: gpu.Gpu) -> Answer:
    """Imports vLLM, and what pairs need of it, so that each fork has it."""
    absent.install(compiled.PACKAGES, compiled.EXTENSIONS, answers(kind.level, kind.units))
    compiled.install(kind.level)
    gpu.install(kind)
    platform.install(kind)
    from tests.oracle.vllm import build

    build.install()
    _import_early()
    return _answer


def _import_early() -> None:
    import torch
    import vllm.engine.arg_utils
    import vllm.model_executor.models.deepseek_v2
    import vllm.v1.core.kv_cache_planning  # noqa: F401
    from vllm.model_executor.layers.quantization import QUANTIZATION_METHODS, get_quantization_config

    torch.set_num_threads(1)
    for method in QUANTIZATION_METHODS:
        with contextlib.suppress(ImportError):
            get_quantization_config(method)


def _answer(pair: dict[str, Any]) -> dict[str, Any]:
    """All pipeline stages of a pair, and the cache of the whole engine."""
    stages: list[dict[str, Any]] = []
    specs: list[bytes] = []
    answer: dict[str, Any] = {"key": pair["key"]}
    for rank in pair["ranks"]:
        last = rank == pair["ranks"][-1]
        built = in_fork(lambda rank=rank, last=last: _stage(pair, rank, specs, last=last))  # type: ignore[misc]
        if isinstance(built, str):
            return answer | {"error": built}
        stage, of_stage, cache = built
        stages.append(stage)
        specs.append(of_stage)
        if cache is not None:
            answer["cache"] = cache
    return answer | {"stages": stages}


def _stage(pair: dict[str, Any], rank: int, before: list[bytes], *, last: bool) -> tuple[Any, Any, Any]:
    """One stage: its answer, its layers' pickled specs, and, of the last stage, the engine's cache."""
    from vllm.config import set_current_vllm_config

    from tests.oracle.vllm import build, cache

    config = build.engine_config(pair["directory"], pair["arguments"], rank)
    with set_current_vllm_config(config):
        _model, answer = build.built(config, rank)
        try:
            specs = cache.layer_specs(config)
            answer["backends"] = cache.backends(config)
            answer["cache_layers"] = cache.described_layers(specs)
            pickled = pickle.dumps(specs)
            engine = cache.planned(config, [*before, pickled], pair["kv_bytes"]) if last else None
        except Exception as error:
            traceback.print_exc()
            return answer, pickle.dumps({}), {"error": said(error)}
        if engine is not None:
            engine["max_model_len"] = config.model_config.max_model_len
            engine["max_num_batched_tokens"] = config.scheduler_config.max_num_batched_tokens
    return answer, pickled, engine


if __name__ == "__main__":
    serve(lambda: start(gpu.GPUS[sys.argv[1]]))
