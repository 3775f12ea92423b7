"""Extra arguments of a stack: what the engine does not have, what the plan or the server sets, what is no argument."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from config.catalogue import engine_flags
from engines.finding import Finding, rejected, warning

OWNED_FLAGS = {
    "vllm": {
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
    },
    "llama.cpp": {
        "--ctx-size": "max_model_len",
        "-c": "max_model_len",
        "--parallel": "max_num_seqs",
        "-np": "max_num_seqs",
        "-ctk": "kv_cache_dtype",
        "-ctv": "kv_cache_dtype",
        "--cpu-moe": "expert_offload",
        "-cmoe": "expert_offload",
    },
}
"""Flags that the plan sets itself, and the request's field for each: given twice, plan and engine would disagree."""

UNCOUNTED_FLAGS = {
    "vllm": {
        "--cpu-offload-gb",
        "--enable-lora",
        "--enforce-eager",
        "--kv-cache-memory-bytes",
        "--num-gpu-blocks-override",
        "--speculative-config",
        "--spec-method",
        "--spec-model",
    },
    "llama.cpp": {
        "--gpu-layers",
        "-ngl",
        "--mmproj",
        "--n-cpu-moe",
        "-ncmoe",
        "--split-mode",
        "-sm",
        "--tensor-split",
        "-ts",
        "--ubatch-size",
        "-ub",
    },
}
"""Flags that change what a GPU holds: a draft model and its own cache layer, adapters, weights in host memory."""

SERVER_FLAGS = {
    "vllm": ("--model", "--served-model-name", "--host", "--port", "--uds"),
    "llama.cpp": ("--model", "-m", "-hf", "--alias", "-a", "--host", "--port"),
}
"""Flags that the server which is deployed sets, or that would lead clients and probes elsewhere."""


def check_arguments(engine: str, arguments: Iterable[str]) -> Iterator[Finding]:
    """Findings about each argument, which is a flag or a value of the flag before it."""
    takes_values = False
    for argument in arguments:
        given = argument.split("=", 1)[0]
        if given.startswith("-") and not _is_number(given):
            takes_values = "=" not in argument
            yield from _flag(engine, given)
        elif not takes_values:
            yield rejected("argument_without_flag", f"{argument!r} follows no flag.", "Name its flag before it.")


def _flag(engine: str, given: str) -> Iterator[Finding]:
    known = engine_flags(engine)
    # A switch `--x` may be turned off by `--no-x`, and a nested value set by `--x.key`.
    flag = known.get("short_forms", {}).get(given, given).split(".", 1)[0]
    positive = flag.replace("--no-", "--", 1)
    if flag in SERVER_FLAGS[engine]:
        yield rejected("argument_of_the_server", f"{given} is set by the server that is deployed.", "Remove it.")
    elif flag == "--api-key":
        text = f"{given} would show in the pod and in the stack's state."
        yield rejected("argument_is_secret", text, "Remove it, and let a gateway before the Service ask for keys.")
    elif flag in UNCOUNTED_FLAGS[engine]:
        yield warning("argument_not_counted", f"{given} changes what a GPU holds, and the plan does not count it.")
    elif positive in OWNED_FLAGS[engine]:
        text = f"{given} is set by the plan; given as an extra argument the plan would not know it."
        yield rejected("argument_of_the_plan", text, f"Use the setting {OWNED_FLAGS[engine][positive]}.")
    elif flag not in known["flags"] and positive not in known["flags"]:
        yield _not_known(engine, known, given, flag)


def _not_known(engine: str, known: dict[str, Any], given: str, flag: str) -> Finding:
    gone = known.get("removed", {}).get(flag.replace("--no-", "--", 1))
    if gone:
        return rejected("argument_gone", f"{given} is {gone} in {engine} {known['version']}.", "Remove it.")
    if not known["complete"]:
        return warning("argument_not_checked", f"{given} is not among the flags of {engine} that are listed here.")
    close = get_close_matches(flag, known["flags"], n=2, cutoff=0.6)
    fix = f"Did you mean {' or '.join(close)}?" if close else "Remove it."
    return rejected("argument_not_known", f"{given} is not a flag of {engine} {known['version']}.", fix)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
