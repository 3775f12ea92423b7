"""Arguments and environment of vLLM that follow from a model and its plan.

Every flag exists in the pinned release (`config/data/engine_flags.json`). The server adds the model path,
served name, host, port and ranks.
"""

from __future__ import annotations

import json

from config.catalogue import ServingRecipe
from config.units import GIB
from engines.plan import Layout
from engines.request import FitRequest
from engines.versions import Version
from engines.vllm.resolved_request import ResolvedRequest, requested_version
from engines.vllm.rules.formats import needs_weight_only_experts

DRAINS_SINCE = Version.parse("0.18.0")
"""First release with `--shutdown-timeout` (absent from 0.17.1, present in 0.19.1; `config/data/vllm_releases.json`)."""


def vllm_arguments(resolved: ResolvedRequest, context: int) -> tuple[str, ...]:
    """Arguments of a resolved request."""
    arguments = [*layout_arguments(resolved.layout, expert_parallel=resolved.request.expert_parallel)]
    if context:
        arguments += ["--max-model-len", str(context)]
    arguments += ["--gpu-memory-utilization", f"{resolved.utilization:g}"]
    arguments += _settings(resolved)
    if needs_weight_only_experts(resolved):
        arguments += ["--moe-backend", "marlin"]
    arguments += drain_arguments(resolved.request, resolved.version)
    return (*arguments, *serving_arguments(resolved.model.serving), *resolved.request.extra_args)


def layout_arguments(layout: Layout, *, expert_parallel: bool) -> list[str]:
    """The parallel sizes. A size of 1 is the default and omitted, except for tensor parallel."""
    arguments = ["--tensor-parallel-size", str(layout.tp)]
    sizes = {
        "--pipeline-parallel-size": layout.pp,
        "--data-parallel-size": layout.dp,
        "--prefill-context-parallel-size": layout.pcp,
        "--decode-context-parallel-size": layout.dcp,
    }
    for flag, size in sizes.items():
        if size > 1:
            arguments += [flag, str(size)]
    return [*arguments, "--enable-expert-parallel"] if expert_parallel else arguments


def drain_arguments(request: FitRequest, version: Version) -> list[str]:
    """Time for running requests after SIGTERM, without which vLLM aborts them."""
    seconds = request.deployment.drain_seconds if request.deployment else 0
    return ["--shutdown-timeout", str(seconds)] if seconds and version >= DRAINS_SINCE else []


def serving_arguments(serving: ServingRecipe) -> list[str]:
    """Arguments that the model's authors and vLLM's recipes recommend."""
    arguments = [*(["--trust-remote-code"] if serving.trust_remote_code else []), *serving.args]
    if serving.tool_call_parser:
        arguments += ["--enable-auto-tool-choice", "--tool-call-parser", serving.tool_call_parser]
    if serving.reasoning_parser:
        arguments += ["--reasoning-parser", serving.reasoning_parser]
    return arguments


def requested_arguments(request: FitRequest, layout: Layout) -> tuple[str, ...]:
    """Arguments for an unknown model: only what the request sets."""
    arguments = layout_arguments(layout, expert_parallel=request.expert_parallel)
    arguments += drain_arguments(request, requested_version(request))
    for flag, value in _stated(request).items():
        arguments += [flag, value]
    return (*arguments, *_counted(request), *request.extra_args)


def _stated(request: FitRequest) -> dict[str, str]:
    values = {
        "--max-model-len": request.max_model_len,
        "--gpu-memory-utilization": request.gpu_memory_utilization,
        "--kv-cache-dtype": request.kv_cache_dtype,
        "--max-num-seqs": request.max_num_seqs,
        "--max-num-batched-tokens": request.max_num_batched_tokens,
        "--block-size": request.block_size,
        "--quantization": request.quantization,
        "--mm-encoder-tp-mode": request.mm_encoder_tp_mode,
    }
    return {flag: f"{value}" for flag, value in values.items() if value is not None}


def _settings(resolved: ResolvedRequest) -> list[str]:
    request, arguments = resolved.request, []
    if resolved.kv_cache_dtype != "auto":
        arguments += ["--kv-cache-dtype", resolved.kv_cache_dtype]
    if request.max_num_seqs:
        arguments += ["--max-num-seqs", str(request.max_num_seqs)]
    if request.max_num_batched_tokens or resolved.sparse_scratch_missed:
        arguments += ["--max-num-batched-tokens", str(resolved.batched_tokens)]
    if request.block_size:
        arguments += ["--block-size", str(resolved.block)]
    if request.quantization:
        arguments += ["--quantization", request.quantization]
    if request.mm_encoder_tp_mode and resolved.model.shape.vision:
        arguments += ["--mm-encoder-tp-mode", request.mm_encoder_tp_mode]
    if request.language_model_only:
        arguments.append("--language-model-only")
    if resolved.overrides:
        arguments += ["--hf-overrides", json.dumps(resolved.overrides, sort_keys=True)]
    arguments += _counted(request)
    arguments.append("--enable-prefix-caching" if request.enable_prefix_caching else "--no-enable-prefix-caching")
    return arguments


def _counted(request: FitRequest) -> list[str]:
    """Settings of graphs, adapters, drafts, copies of experts, host memory, the reader of weights and the queue."""
    arguments = ["--enforce-eager"] if request.enforce_eager else []
    if request.max_loras is not None:
        arguments += ["--enable-lora", "--max-loras", str(request.max_loras)]
        arguments += ["--max-lora-rank", str(request.max_lora_rank)] if request.max_lora_rank else []
    if request.draft is not None:
        # The server adds `--spec-model` with the directory.
        arguments += ["--spec-method", "draft_model"]
        arguments += ["--spec-tokens", str(request.speculative_tokens)] if request.speculative_tokens else []
    elif request.speculative_tokens is not None:
        drafted = {"method": "mtp", "num_speculative_tokens": request.speculative_tokens}
        arguments += ["--speculative-config", json.dumps(drafted)]
    if request.redundant_experts is not None:
        arguments += ["--enable-eplb", "--eplb-config", f'{{"num_redundant_experts": {request.redundant_experts}}}']
    if request.cpu_offload_gb is not None:
        arguments += ["--cpu-offload-gb", f"{request.cpu_offload_gb:g}"]
    if request.kv_offload is not None:
        arguments += ["--kv-offloading-size", f"{request.kv_offload / GIB:g}"]
    if request.load_format is not None:
        arguments += ["--load-format", request.load_format]
    if request.max_num_queued_reqs is not None:
        arguments += ["--max-num-queued-reqs", str(request.max_num_queued_reqs)]
    return arguments


def vllm_environment(resolved: ResolvedRequest) -> tuple[tuple[str, str], ...]:
    """Environment of a resolved request, sorted by name."""
    environment = dict(resolved.model.serving.env)
    if resolved.at_least((10, 0)):
        # The recipes' switches for FP4 experts are for GPUs that have FP4.
        environment |= dict(resolved.model.checkpoint.env)
    environment |= dict(resolved.compatibility.environment)
    return tuple(sorted(environment.items()))
