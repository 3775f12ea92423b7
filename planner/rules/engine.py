"""The engine's release against the model, and arguments that it does not know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from config.catalogue import engine_flags
from planner.case import Case
from planner.finding import Finding, rejected, warning
from planner.versions import Version

OWNED_FLAGS = {
    "--tensor-parallel-size": "tensor_parallel",
    "--pipeline-parallel-size": "pipeline_parallel",
    "--data-parallel-size": "data_parallel",
    "--enable-expert-parallel": "expert_parallel",
    "--decode-context-parallel-size": "decode_context_parallel",
    "--max-model-len": "max_model_len",
    "--max-num-seqs": "max_num_seqs",
    "--max-num-batched-tokens": "max_num_batched_tokens",
    "--kv-cache-dtype": "kv_cache_dtype",
    "--gpu-memory-utilization": "gpu_memory_utilization",
    "--block-size": "block_size",
    "--quantization": "quantization",
    "--mm-encoder-tp-mode": "mm_encoder_tp_mode",
    "--language-model-only": "language_model_only",
}
"""Flags that the plan sets itself, and the request's field for each: given twice, plan and engine would disagree."""


UNCOUNTED_FLAGS = {
    "--cpu-offload-gb",
    "--enable-lora",
    "--enforce-eager",
    "--kv-cache-memory-bytes",
    "--num-gpu-blocks-override",
    "--speculative-config",
    "--spec-method",
    "--spec-model",
}
"""Flags that change what a GPU holds: a draft model and its own cache layer, adapters, weights in host memory."""


def check_engine(case: Case) -> Iterator[Finding]:
    """Findings about the release and its arguments."""
    yield from _release(case)
    yield from check_arguments("vllm", case.request.extra_args)


def _release(case: Case) -> Iterator[Finding]:
    serving, version = case.subject.serving, case.version
    works, recipe = serving.vllm_works_since, serving.vllm_recipe_minimum
    if works and version < Version.parse(works):
        yield rejected(
            "engine_too_old",
            f"vLLM {version} is older than {works}, the first known to serve {case.subject.name} ({serving.source}).",
            f"Use vLLM {recipe or works} or newer.",
        )
    elif recipe and version < Version.parse(recipe):
        yield warning(
            "engine_older_than_recipe",
            f"vLLM {version} is older than {recipe}, which the recipe of {case.subject.name} asks for.",
        )


def check_arguments(engine: str, arguments: Iterable[str]) -> Iterator[Finding]:
    """Arguments that an engine does not have, or that the plan sets itself."""
    known = engine_flags(engine)
    flags, short, gone = set(known["flags"]), known.get("short_forms", {}), known.get("removed", {})
    for argument in arguments:
        given = argument.split("=", 1)[0]
        if not given.startswith("-") or _is_number(given):
            continue
        # A switch `--x` may be turned off by `--no-x`, and a nested value set by `--x.key`.
        flag = short.get(given, given).split(".", 1)[0]
        positive = flag.replace("--no-", "--", 1)
        if positive in gone:
            yield rejected(
                "argument_gone", f"{given} is {gone[positive]} in {engine} {known['version']}.", "Remove it."
            )
        elif flag not in flags and positive not in flags and not known["complete"]:
            yield warning("argument_not_checked", f"{given} is not among the flags of {engine} that are listed here.")
        elif flag not in flags and positive not in flags:
            close = get_close_matches(flag, flags, n=2, cutoff=0.6)
            fix = f"Did you mean {' or '.join(close)}?" if close else "Remove it."
            yield rejected("argument_not_known", f"{given} is not a flag of {engine} {known['version']}.", fix)
        elif engine == "vllm" and flag in UNCOUNTED_FLAGS:
            yield warning("argument_not_counted", f"{given} changes what a GPU holds, and the plan does not count it.")
        elif engine == "vllm" and positive in OWNED_FLAGS:
            yield rejected(
                "argument_of_the_plan",
                f"{given} is set by the plan; given as an extra argument the plan would not know it.",
                f"Use the setting {OWNED_FLAGS[positive]}.",
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
