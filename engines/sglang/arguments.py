"""Arguments of SGLang that follow from a model and its plan.

Every flag exists in the pinned release (`config/data/engine_flags.json`). The server adds model path, served name,
host, port, ranks and key.
"""

from __future__ import annotations

from config.catalogue import ServingRecipe
from engines.plan import Layout
from engines.request import FitRequest
from engines.sglang.release_facts import newest_release, sglang_defaults
from engines.sglang.resolved_request import ResolvedRequest


def sglang_arguments(resolved: ResolvedRequest, context: int) -> tuple[str, ...]:
    """Arguments of a resolved request."""
    request = resolved.request
    arguments = layout_arguments(resolved.layout)
    if context:
        arguments += ["--context-length", str(context)]
    # Stated always: its default depends on what nvidia-smi prints on the node.
    arguments += ["--mem-fraction-static", f"{resolved.fraction:g}"]
    arguments += ["--kv-cache-dtype", resolved.kv_cache_dtype]
    arguments += _settings(request)
    if request.mm_encoder_tp_mode == "data" and resolved.model.shape.vision:
        arguments.append("--mm-enable-dp-encoder")
    return (*arguments, "--enable-metrics", *_serving(resolved.model.serving), *request.extra_args)


def requested_arguments(request: FitRequest, layout: Layout) -> tuple[str, ...]:
    """Arguments for an unknown model: only what the request sets."""
    arguments = layout_arguments(layout)
    if request.max_model_len:
        arguments += ["--context-length", str(request.max_model_len)]
    if request.gpu_memory_utilization:
        arguments += ["--mem-fraction-static", f"{request.gpu_memory_utilization:g}"]
    if request.kv_cache_dtype:
        arguments += ["--kv-cache-dtype", "fp8_e4m3" if request.kv_cache_dtype == "fp8" else request.kv_cache_dtype]
    return (*arguments, *_settings(request), "--enable-metrics", *request.extra_args)


def layout_arguments(layout: Layout) -> list[str]:
    """The parallel sizes. A size of 1 is the default and omitted, except for tensor parallel."""
    arguments = ["--tp-size", str(layout.tp)]
    arguments += ["--pp-size", str(layout.pp)] if layout.pp > 1 else []
    return arguments + (["--ep-size", str(layout.ep)] if layout.ep > 1 else [])


def _settings(request: FitRequest) -> list[str]:
    values = {
        "--max-running-requests": request.max_num_seqs,
        "--max-queued-requests": request.max_num_queued_reqs,
        "--chunked-prefill-size": request.max_num_batched_tokens,
        "--page-size": request.block_size,
    }
    arguments = [word for flag, value in values.items() if value is not None for word in (flag, str(value))]
    return arguments + ([] if request.enable_prefix_caching else ["--disable-radix-cache"])


def _serving(serving: ServingRecipe) -> list[str]:
    arguments = ["--trust-remote-code"] if serving.trust_remote_code else []
    for flag, name in (("--tool-call-parser", tool_parser(serving)), ("--reasoning-parser", reasoning_parser(serving))):
        arguments += [flag, name] if name else []
    return arguments


def tool_parser(serving: ServingRecipe) -> str | None:
    """SGLang's name of the model's parser of tool calls. None: the model has none, or SGLang has not."""
    name = sglang_defaults().tool_parsers.get(serving.tool_call_parser or "", serving.tool_call_parser)
    return name if name in newest_release().tool_parsers else None


def reasoning_parser(serving: ServingRecipe) -> str | None:
    """The same of its parser of reasoning."""
    name = sglang_defaults().reasoning_parsers.get(serving.reasoning_parser or "", serving.reasoning_parser)
    return name if name in newest_release().reasoning_parsers else None
