"""Answers pairs for one kind of GPU: `python -m tests.oracle.engine h200`, a pair a line in, an answer a line out.

vLLM is imported once. Each rank is built in a process forked from there, since vLLM keeps its layout for good.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.oracle.engine import absent, gpu


def main(name: str) -> None:
    """Reads pairs from standard input until it ends."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # vLLM prints; answers go alone
    absent.install(gpu.GPUS[name].level, gpu.GPUS[name].units)
    gpu.install(gpu.GPUS[name])
    from tests.oracle.engine import build

    build.install()
    _import_early()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), file=answers, flush=True)


def _import_early() -> None:
    """Imports what pairs need, so that each fork has it."""
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
    start = time.monotonic()
    stages: list[dict[str, Any]] = []
    specs: list[bytes] = []
    answer: dict[str, Any] = {"key": pair["key"]}
    for rank in pair["ranks"]:
        last = rank == pair["ranks"][-1]
        stage, of_stage, cache = _in_fork(lambda rank=rank, last=last: _stage(pair, rank, specs, last=last))  # type: ignore[misc]
        if of_stage is None:
            return answer | {"error": stage["error"]}
        stages.append(stage)
        specs.append(of_stage)
        if cache is not None:
            answer["cache"] = cache
    return answer | {"stages": stages, "seconds": round(time.monotonic() - start, 1)}


def _stage(pair: dict[str, Any], rank: int, before: list[bytes], *, last: bool) -> tuple[Any, Any, Any]:
    """One stage: its answer, its layers' pickled specs, and, of the last stage, the engine's cache."""
    from vllm.config import set_current_vllm_config

    from tests.oracle.engine import build, cache

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
            return answer, pickle.dumps({}), {"error": build.said(error)}
        if engine is not None:
            engine["max_model_len"] = config.model_config.max_model_len
            engine["max_num_batched_tokens"] = config.scheduler_config.max_num_batched_tokens
    return answer, pickled, engine


def _in_fork(work: Callable[[], tuple[Any, Any, Any]]) -> tuple[Any, Any, Any]:
    """What `work` returns, from a process of its own; an error is an answer without specs."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            result = work()
        except BaseException as error:
            traceback.print_exc()
            result = ({"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}, None, None)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    os.waitpid(child, 0)
    if not data:
        return {"error": "its process was killed"}, None, None
    loaded: tuple[Any, Any, Any] = pickle.loads(data)  # noqa: S301 -- from the process forked above
    return loaded


if __name__ == "__main__":
    main(sys.argv[1])
