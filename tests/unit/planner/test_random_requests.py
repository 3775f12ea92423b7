"""Random requests: no traceback, and no verdict that a short check of its own contradicts.

The suite draws 150. For more: `HEAVYLIFT_RANDOM_REQUESTS=20000 .venv/bin/python -m pytest <this file> -n 0`.
HEAVYLIFT_CHECKPOINTS names a directory of checkpoints to draw from as well.
"""

import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from config.catalogue import gpus, models
from config.checkpoint.attention import GroupedAttention
from config.checkpoint.model_spec import ModelSpec, find_model
from config.engine_name import EngineName
from engines.plan import Plan
from engines.vllm.flags import FLAGS
from planner import FitRequest, fit
from planner.fit import plan_only
from planner.report.summary import summary
from tests.unit.planner.asking import DATA

_COUNT = int(os.environ.get("HEAVYLIFT_RANDOM_REQUESTS", "300"))
_SEED = int(os.environ.get("HEAVYLIFT_RANDOM_SEED", "1"))
_ORACLE = DATA.parent / "oracle" / "configs.json"

_DRAWS: dict[str, tuple[Any, ...]] = {
    "gpus_per_node": (1, 2, 3, 4, 5, 6, 8, 12, 16),
    "nodes": (1, 1, 1, 2, 3),
    "tensor_parallel": (None, None, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16),
    "pipeline_parallel": (None, None, None, 1, 2, 3, 5),
    "data_parallel": (None, None, None, 2, 3, 4, 8),
    "expert_parallel": (False, False, True),
    "prefill_context_parallel": (None, None, None, None, None, 2, 3),
    "decode_context_parallel": (None, None, None, 2, 3, 8),
    "max_model_len": (None, 1, 4096, 32_768, 131_072, 262_144, 1_000_000),
    "max_num_seqs": (None, None, 1, 16, 1024),
    "max_num_batched_tokens": (None, None, 1, 2048, 16_384, 131_072),
    "kv_cache_dtype": (None, None, None, "fp8", "fp8_e5m2", "nvfp4", "fp8_ds_mla", "q8_0"),
    "gpu_memory_utilization": (None, None, 0.5, 0.98),
    "block_size": (None, None, 16, 48, 128),
    "quantization": (None, None, None, "fp8", "awq"),
    "mm_encoder_tp_mode": (None, None, "data"),
    "language_model_only": (False, False, True),
    "enable_prefix_caching": (True, True, False),
    "enforce_eager": (False, False, True),
    "redundant_experts": (None, None, None, None, 0, 8, 31),
    "cpu_offload_gb": (None, None, None, None, 8.0, 500.0),
    "kv_offload": (*[None] * 15, 64 * 2**30),
    "max_num_queued_reqs": (*[None] * 14, 8, 4096),
    "load_format": (*[None] * 15, "instanttensor"),
    "sleep_idle_seconds": (*[None] * 7, 600),
    "host_memory_bytes": (None, 2**40),
    "max_loras": (None, None, None, None, None, 2),
    "max_lora_rank": (None, None, None, None, None, 24, 64),
    "speculative_tokens": (None, None, None, None, 1, 3),
    "yarn_factor": (None, None, None, None, 2.0),
    "yarn_original_context": (None, None, None, None, None, 8192),
    "engine_version": (None, None, None, "0.6.5", "0.11.0", "0.20.2", "0.28.0"),
    "expert_offload": (False, False, True),
}
_HARMLESS = (("--seed", "1"), ("--no-enable-flashinfer-autotune",), ("--scheduling-policy=priority",))
_NOT_COUNTED = (
    *(("--enable-prompt-embeds",), ("--dtype", "float32"), ("--limit-mm-per-prompt", "{}"), ("-O3",), ("-pcp", "2")),
    *(("--hf_overrides", "{}"), ("--speculative-config.method=mtp",), ("--kv-cache-memory-bytes", "1")),
)
_LLAMA_ARGUMENTS = (
    *(("-ts", "3,1"), ("-ts", "1"), ("-ncmoe", "7"), ("-ot", "exps=CPU"), ("--swa-full",), ("-ub", "4096")),
    *(("-sm", "row"), ("--threads", "4"), ("--lora", "a.gguf")),
)

_DRAFTED = 0.15
"""Share of the requests that name a draft model."""
_SMALL = ("qwen3-0.6b", "qwen3-1.7b", "llama-3.1-8b", "gemma-3-270m", "gpt-oss-20b")

_read = cache(find_model)
"""Reads each directory once."""


@cache
def _directories(scratch: Path) -> tuple[str, ...]:
    """Directories with the configurations that the oracle knows, and those that the environment names."""
    made = []
    for number, entry in enumerate(json.loads(_ORACLE.read_text(encoding="utf-8"))["models"]):
        directory = scratch / str(number)
        directory.mkdir()
        (directory / "config.json").write_text(json.dumps(entry["config"]), encoding="utf-8")
        made.append(str(directory))
    if given := os.environ.get("HEAVYLIFT_CHECKPOINTS"):
        made += [str(path) for path in sorted(Path(given).iterdir()) if path.is_dir()]
    return tuple(made)


def _draw(chance: random.Random, scratch: Path) -> FitRequest:
    named = [checkpoint.name for model in models() for checkpoint in model.checkpoints]
    settings = {name: chance.choice(values) for name, values in _DRAWS.items()}
    # Half of the settings at their defaults: else hardly any request is without a fault.
    settings = {name: value for name, value in settings.items() if name == "gpus_per_node" or chance.random() < 0.5}
    engine = chance.choice((EngineName.VLLM, EngineName.VLLM, EngineName.VLLM, EngineName.LLAMA_CPP))
    if engine is EngineName.LLAMA_CPP:
        settings.pop("engine_version", None)
        arguments = chance.choice(((), (), *_LLAMA_ARGUMENTS))
    else:
        arguments = chance.choice(((), (), (), *_HARMLESS, *_NOT_COUNTED))
    model = chance.choice((*named, *_directories(scratch)))
    if chance.random() < _DRAFTED:
        # One of three drafts is a checkpoint of any kind; the others are small, as drafts are.
        settings["draft"] = chance.choice((model, *named, *_SMALL) if chance.random() < 1 / 3 else _SMALL)
    return FitRequest(
        model=model,
        gpu=chance.choice([gpu.name for gpu in gpus()]),
        engine=engine,
        extra_args=arguments,
        **settings,
    )


def _objections(request: FitRequest, plan: Plan) -> Iterator[str]:
    """What contradicts a verdict, by reasoning that is not the planner's."""
    if bool(plan.problems) != (plan.verdict in ("rejected", "unknown")):
        yield "problems and verdict disagree"
    if plan.verdict not in ("fits", "tight"):
        return
    model = _read(request.model, request.include)
    if request.language_model_only:
        model = model.without_vision()
    if model.unknown:
        yield f"what is not known is taken as known: {model.unknown}"
    if request.engine is EngineName.VLLM:
        yield from _of_vllm(request, plan, model)
    if plan.context and model.shape.max_context and not request.yarn_factor:
        slots = (request.max_num_seqs or 1) if request.engine is EngineName.LLAMA_CPP else 1
        if plan.context > model.shape.max_context * slots:
            yield "the context is beyond the model"
    if plan.verdict == "fits" and plan.context and (plan.max_context or 0) < plan.context:
        yield "it fits, and the longest context that surely fits is shorter"


def _of_vllm(request: FitRequest, plan: Plan, model: ModelSpec) -> Iterator[str]:
    sizes, tokens, sequences = plan.layout, request.max_num_batched_tokens, request.max_num_seqs
    contradictions = {
        "an argument that is not counted fits": request.extra_args in _NOT_COUNTED,
        "the layout takes more GPUs than there are": sizes.gpus > request.nodes * request.gpus_per_node,
        "heads cannot be shared": _uneven(model, sizes.tp),
        "decode context parallelism does not divide tensor parallelism": bool(sizes.tp % sizes.dcp),
        "experts of a dense model are spread": request.expert_parallel and model.shape.experts is None,
        "fewer tokens than sequences": bool(tokens and sequences and tokens < sequences),
        "a draft model that vLLM does not start with fits": _wrong_draft(request, plan, model),
        "adapters take too little": _adapters_take_too_little(request, plan, model),
        "weights and overhead are more than the budget": _too_much(plan),
        "the GPUs together hold less than the checkpoint": _too_little(request, plan, model),
    }
    yield from (what for what, is_so in contradictions.items() if is_so)


def _uneven(model: ModelSpec, tp: int) -> bool:
    attention = model.shape.attention
    heads = attention.kv_heads if isinstance(attention, GroupedAttention) else tp
    return bool(model.shape.heads % tp or (heads % tp and tp % heads))


def _wrong_draft(request: FitRequest, plan: Plan, model: ModelSpec) -> bool:
    """A draft model drafts tokens, of the target's vocabulary, on one pipeline stage."""
    if request.draft is None:
        return False
    draft = _read(request.draft, ())
    differs = draft.shape.vocabulary != model.shape.vocabulary
    return differs or not request.speculative_tokens or plan.layout.pp > 1 or draft.is_gguf or bool(draft.unknown)


def _adapters_take_too_little(request: FitRequest, plan: Plan, model: ModelSpec) -> bool:
    """Each adapter has two matrices in bfloat16 beside each layer at the least, one as wide as the hidden state."""
    if request.max_loras is None:
        return False
    without = plan_only(replace(request, max_loras=None, max_lora_rank=None))
    taken = sum(with_.weights_gib - bare.weights_gib for with_, bare in zip(plan.stages, without.stages, strict=True))
    least = request.max_loras * (request.max_lora_rank or 16) * model.shape.hidden * model.shape.layers * 2
    return taken * 2**30 < least * 0.99


def _too_much(plan: Plan) -> bool:
    assert plan.per_gpu is not None
    budget = plan.per_gpu.budget_gib or 0.0
    end = 1 if plan.verdict == "fits" else 0
    return any(stage.weights_gib + stage.overhead_gib[end] > budget + 0.02 for stage in plan.stages)


def _too_little(request: FitRequest, plan: Plan, model: ModelSpec) -> bool:
    """Without the parts that are left out, and where nothing is turned into another format or kept elsewhere."""
    if request.cpu_offload_gb or request.quantization:
        return False
    drafts = _read(request.draft, ()).groups if request.draft else ()
    loaded = sum(group.bytes for group in (*model.groups, *drafts) if group.place not in ("mtp", "vision"))
    held = sum(stage.weights_gib for stage in plan.stages) * 2**30 * plan.layout.tp * plan.layout.dp * plan.layout.pcp
    return held < loaded * 0.99


def test_no_random_request_ends_in_a_traceback_or_in_a_wrong_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["planner.fit"], "find_model", _read)
    chance, wrong, verdicts = random.Random(_SEED), [], set()
    for number in range(_COUNT):
        request = _draw(chance, tmp_path)
        try:
            plan = (fit if number % 10 == 0 else plan_only)(request)
            found = [*_objections(request, plan)]
            if number % 10 == 0:
                assert summary(request, plan).startswith(plan.verdict)
                assert all(problem.fix for problem in plan.problems)
        except Exception as fault:
            found = [f"{type(fault).__name__}: {fault}"]
        else:
            verdicts.add(plan.verdict)
        wrong += [f"{objection}: {request}" for objection in found]
    assert not wrong, "\n".join(wrong[:5])
    assert verdicts >= {"fits", "rejected", "unknown"}


@pytest.mark.parametrize("argument", _NOT_COUNTED)
def test_arguments_that_are_drawn_as_not_counted_are_not_among_the_harmless(argument: tuple[str, ...]) -> None:
    assert argument[0].split("=")[0] not in FLAGS.harmless
