"""Rules for models under SGLang: layouts, formats, widths, what is not known, and memory.

From the sources of 0.5.23.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from math import ceil

from config.catalogue import engine_facts
from config.checkpoint.attention import GroupedAttention
from config.checkpoint.quantization import FP8_BLOCK
from config.engine_name import EngineName
from config.units import GIB
from engines.finding import Finding, rejected, unknown, warning
from engines.request import FitRequest
from engines.rules.arguments import check_arguments
from engines.rules.layout import check_fabric, check_size
from engines.rules.unused import check_unused
from engines.sglang.arguments import reasoning_parser, tool_parser
from engines.sglang.flags import FLAGS
from engines.sglang.memory import Memory, has_formula, headroom_bytes
from engines.sglang.release_facts import newest_release, sglang_defaults
from engines.sglang.resolved_request import CACHE_TYPES, MISSING_SETTINGS, NOT_COUNTED, ResolvedRequest

_DEFAULTS = {field.name: field.default for field in fields(FitRequest)}

_METHODS = {"": (0, 0), "fp8": (8, 9), "compressed-tensors": (8, 0), "modelopt": (8, 9), "modelopt_fp4": (10, 0)}
"""Quantisation methods whose kernels are known, with the least compute capability."""

_FP4_CAPABILITY = (10, 0)

_LITTLE_HEADROOM = "little_headroom"


def check_request(request: FitRequest) -> Iterator[Finding]:
    """Findings that need neither model nor GPU: settings and arguments."""
    yield from check_unused(request, MISSING_SETTINGS)
    yield from check_arguments(FLAGS, request.extra_args)
    if request.keep_cache:
        text = "weights.cache: true keeps what vLLM compiles at its start; where SGLang keeps its own is not known."
        yield rejected("cache_not_supported", text, "Remove it, or use vLLM.")
    made = [name for name in NOT_COUNTED if getattr(request, name) != _DEFAULTS[name]]
    if made:
        text = f"What {' and '.join(made)} take under SGLang is not known."
        yield unknown("setting_not_known", text, "Leave them out, or measure it on the machine.")


def check_model(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Findings about the model on these GPUs that do not depend on memory."""
    yield from check_size(resolved.layout, resolved.request)
    yield from _release(resolved)
    yield from _known(resolved)
    yield from _architecture(resolved)
    yield from _heads(resolved)
    yield from _stages(resolved)
    yield from _formats(resolved)
    yield from _widths(resolved)
    yield from _cache(resolved)
    yield from _parsers(resolved)


def uneven_heads(resolved: ResolvedRequest) -> str:
    """The heads that tensor parallelism cannot share evenly; empty: none."""
    shape, tp = resolved.model.shape, resolved.layout.tp
    if shape.heads % tp:
        return f"{shape.heads} attention heads"
    attention = shape.attention
    if isinstance(attention, GroupedAttention) and attention.kv_heads % tp and tp % attention.kv_heads:
        return f"{attention.kv_heads} key-value heads"
    return ""


def _release(resolved: ResolvedRequest) -> Iterator[Finding]:
    read = engine_facts(EngineName.SGLANG).default_version
    if str(resolved.version) != read:
        text = f"The rules are those of SGLang {read}; what {resolved.version} does differently is not known."
        yield unknown("release_not_known", text, f"Use SGLang {read}.")


def _known(resolved: ResolvedRequest) -> Iterator[Finding]:
    """What the planner does not know of the model or the GPU."""
    name = resolved.model.name
    for what in resolved.model.unknown:
        yield unknown("model_not_known", f"{name}: the planner does not know {what}.", "Measure it on the machine.")
    if not resolved.model.unknown and not has_formula(resolved.model.shape):
        kinds = sorted({*resolved.model.shape.layer_kinds} - {"full"}) or ["compressed"]
        text = f"{name} has layers whose cache under SGLang is not known: {', '.join(kinds)}."
        yield unknown("cache_not_known", text, "Use vLLM, or measure it on the machine.")
    if resolved.gpu.memory_bytes is None:
        text = f"No public log shows the memory that torch reports for {resolved.gpu.title}."
        yield unknown("gpu_memory_not_known", text, "Plan with a GPU whose memory is known.")
    if resolved.gpu.derived:
        yield warning("gpu_memory_derived", f"The memory of {resolved.gpu.title} is derived {resolved.gpu.derived}.")
    if not resolved.on_nvidia:
        # Its attention takes another share, even of a stated fraction (arg_groups/attention_hook.py).
        text = f"What SGLang's attention (AITER) takes on {resolved.gpu.title} is not known."
        yield unknown("attention_not_known", text, "Use vLLM, or measure it on the machine.")


def _architecture(resolved: ResolvedRequest) -> Iterator[Finding]:
    named = [str(each) for each in resolved.model.family.config.get("architectures") or ()]
    if named and not set(named) & {*newest_release().architectures}:
        text = f"{resolved.model.name} is {' or '.join(named)}, which SGLang {newest_release().release} does not list."
        yield unknown("architecture_not_known", text, "Use vLLM, or try it on the machine.")


def _heads(resolved: ResolvedRequest) -> Iterator[Finding]:
    if uneven := uneven_heads(resolved):
        text = f"tensor_parallel {resolved.layout.tp} and the {uneven} of {resolved.model.name} do not divide."
        yield rejected("heads_not_divisible", text)
    pods = resolved.pods
    if pods.nodes_per_server > 1 and pods.gpus_per_pod % resolved.layout.tp:
        yield warning(
            "tensor_parallel_across_nodes",
            f"tensor_parallel {resolved.layout.tp} spans nodes with {pods.gpus_per_pod} GPUs each: every layer "
            "waits for the network. Pipeline parallelism between nodes sends far less data.",
        )
    yield from check_fabric(resolved.request, pods)


def _stages(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Stages that SGLang does not spread over the nodes: `_calculate_rank_ranges` of entrypoints/engine.py gives each
    node the same number of stages, or each stage the same number of nodes."""
    layers, pp, nodes = resolved.model.shape.layers, resolved.layout.pp, resolved.pods.nodes_per_server
    if layers and pp > layers:
        text = f"pipeline_parallel {pp} is more than the {layers} layers."
        yield rejected("too_many_stages", text, f"Use at most {layers}.")
    elif pp % nodes and nodes % pp:
        text = f"pipeline_parallel {pp} and {nodes} nodes do not divide one another."
        yield rejected("stages_not_even", text, f"Set pipeline_parallel to {nodes}.")
    if pp > 1 and resolved.architecture not in sglang_defaults().stages:
        text = f"What SGLang holds of {resolved.model.name} on each of several pipeline stages is not known."
        yield unknown("stages_not_known", text, "Leave pipeline_parallel out, or measure it on the machine.")


def _formats(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Formats of weights and cache against what the GPU computes."""
    name, method = resolved.model.name, resolved.model.quantization.method
    capability = resolved.gpu.compute_capability
    fp4 = "nvfp4" in resolved.model.expert_scheme.name or resolved.model.checkpoint.format == "nvfp4"
    least = _FP4_CAPABILITY if fp4 else _METHODS.get(method)
    if least is None:
        text = f"{name} is quantised by {method}: what it takes under SGLang is not known."
        yield unknown("format_not_known", text, "Use vLLM, or measure it on the machine.")
    elif capability is not None and capability < least:
        text = f"{name} ({method or 'unquantised'}) on {resolved.gpu.title}: whether SGLang serves it below compute "
        text += f"capability {least[0]}.{least[1]} is not known."
        yield unknown("format_not_known", text, "Use another checkpoint of the model, or vLLM.")
    if resolved.kv_cache_dtype not in CACHE_TYPES:
        expected = ", ".join(CACHE_TYPES)
        text = f"kv_cache_dtype {resolved.kv_cache_dtype!r}: what SGLang makes of it is not known. Known: {expected}."
        yield unknown("cache_type_not_known", text, "Use fp8, or leave it out.")


def _widths(resolved: ResolvedRequest) -> Iterator[Finding]:
    """Widths that tensor parallelism cuts, against blocks of FP8 (layers/quantization/fp8.py) and groups of integers
    (marlin_utils.py)."""
    shape, tp, model = resolved.model.shape, resolved.layout.tp, resolved.model
    parts = []
    if shape.experts is not None:
        # Experts in MXFP4 are padded (layers/quantization/mxfp4.py `Mxfp4MoEMethod.create_weights`).
        if resolved.layout.ep == 1 and model.quantization.method != "mxfp4":
            parts.append(("experts", shape.experts.width, model.expert_scheme))
        parts.append(("shared expert", shape.experts.shared_width, model.shared_expert_scheme))
    if shape.experts is None or shape.experts.dense_layers:
        parts.append(("dense network", shape.dense_width, model.dense_scheme))
    for what, width, scheme in parts:
        size = scheme.block if scheme is FP8_BLOCK else scheme.group
        if size and width and (width / tp) % size:
            yield rejected(
                "width_not_in_blocks",
                f"{model.name}: its {what} of {width}, cut into {tp}, is {width / tp:g} wide, which is not a multiple "
                f"of the {size} weights that share a scale.",
                "Use a smaller tensor_parallel" + (", or expert_parallel." if what == "experts" else "."),
            )


def _cache(resolved: ResolvedRequest) -> Iterator[Finding]:
    if resolved.request.expert_parallel and resolved.model.shape.experts is None:
        text = f"{resolved.model.name} has no experts for expert_parallel to distribute."
        yield rejected("no_experts", text, "Leave it out.")
    if resolved.sparse and resolved.generation not in (9, 10):
        text = f"What SGLang's sparse attention of {resolved.model.name} takes on {resolved.gpu.title} is not known."
        yield unknown("sparse_attention_not_known", text, "Use H200 or B200.")
    elif resolved.sparse and resolved.generation == 10 and CACHE_TYPES.get(resolved.kv_cache_dtype) == 1:
        # With the backend trtllm the cache has no scales, with others it has.
        text = f"Which layout SGLang gives an fp8 cache of {resolved.model.name} on {resolved.gpu.title} is not known."
        yield unknown("cache_layout_not_known", text, "Set kv_cache_dtype to bfloat16.")


def _parsers(resolved: ResolvedRequest) -> Iterator[Finding]:
    serving = resolved.model.serving
    for what, stated, found in (
        ("tool calls", serving.tool_call_parser, tool_parser(serving)),
        ("reasoning", serving.reasoning_parser, reasoning_parser(serving)),
    ):
        if stated and not found:
            text = (
                f"SGLang has no parser of {what} that is known to be that of {resolved.model.name}: {what} stay text."
            )
            yield warning("parser_not_known", text)


def check_memory(resolved: ResolvedRequest, memory: Memory, context: int) -> Iterator[Finding]:
    """Findings about weights, cache and context of a request whose memory is known."""
    most = resolved.model.shape.max_context
    if most and context > most:
        text = f"max_model_len {context:,} exceeds the {most:,} tokens that {resolved.model.name} supports."
        yield rejected("context_beyond_model", text, f"Set max_model_len to {most} or less.")
    stage, total = memory.fullest, resolved.gpu.memory_bytes or 0
    fixed = f"mem_fraction_static {resolved.fraction:g} allows {memory.budget / GIB:.1f}"
    if resolved.request.available_kv_gib is None and stage.cache[0] <= 0:
        yield rejected(
            "weights_do_not_fit",
            f"{stage.weights / GIB:.1f} GiB of weights per GPU, and {resolved.gpu.title} has {total / GIB:.1f} GiB in "
            f"all, of which {fixed} for weights and cache, less {stage.overhead[0] / GIB:.1f} to "
            f"{stage.overhead[1] / GIB:.1f} that are in use before the load.",
        )
        return
    likely, worst = memory.tokens(worst=False), memory.tokens(worst=True)
    if likely < context:
        yield rejected(
            "context_does_not_fit",
            f"One request of {context:,} tokens takes {context * stage.cell / GIB:.2f} GiB of KV cache per GPU "
            f"({stage.cell:,} B per token); {stage.cache[1] / GIB:.2f} to {stage.cache[0] / GIB:.2f} GiB are left: "
            f"{worst:,} to {likely:,} tokens.",
        )
    if resolved.request.max_model_len is None and context < most:
        yield warning("context_shortened", f"The context is shortened to {context:,}; the model's {most:,} do not fit.")
    yield from _headroom(resolved, total, likely, context)


def lacks_headroom(findings: Iterable[Finding]) -> bool:
    """Whether a server that starts may run out of memory later."""
    return any(each.code == _LITTLE_HEADROOM for each in findings)


def _headroom(resolved: ResolvedRequest, total: int, tokens: int, context: int) -> Iterator[Finding]:
    """What is left beside weights and cache: SGLang does not measure activations when it starts."""
    defaults = sglang_defaults()
    left = headroom_bytes(resolved, total, tokens, context)
    if left < defaults.headroom_gib * GIB:
        yield warning(
            _LITTLE_HEADROOM,
            f"gpu_memory_utilization {resolved.fraction:g} leaves {left / GIB:.1f} GiB of {resolved.gpu.title} for "
            "activations and CUDA graphs, which SGLang does not measure when it starts: a server that starts may run "
            f"out of memory later. {ceil(defaults.headroom_gib)} GiB are typically sufficient "
            f"({defaults.headroom_source}).",
        )
