"""A request with SGLang's defaults filled in, the input of its rules and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

from config.catalogue import Gpu, VendorName, engine_facts
from config.checkpoint.attention import LatentAttention
from config.checkpoint.model_spec import ModelSpec
from config.engine_name import EngineName
from engines.plan import Layout, Pods
from engines.request import FitRequest
from engines.rules.deployment import pods_of
from engines.rules.driver import Compatibility, driver_compatibility, image_of
from engines.sglang.release_facts import Batch, newest_release, sglang_defaults
from engines.versions import Version

MISSING_SETTINGS = frozenset({"expert_offload", "model_file", "sleep_idle_seconds"})
"""Fields of the request that SGLang has no setting for."""

NOT_COUNTED = (
    *("data_parallel", "prefill_context_parallel", "decode_context_parallel", "quantization", "language_model_only"),
    *("max_loras", "max_lora_rank", "speculative_tokens", "draft", "yarn_factor", "yarn_original_context"),
    *("enforce_eager", "redundant_experts", "cpu_offload_gb", "kv_offload", "load_format"),
)
"""Fields of the request whose memory under SGLang is not known."""

CACHE_TYPES = {"auto": 2, "bf16": 2, "bfloat16": 2, "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1}
"""Bytes per element of the cache types that have one size per element; `fp8` stands for `fp8_e4m3`."""

_SPARSE_PAGE = 64
_BLACKWELL_PAGE = 64


@dataclass(frozen=True)
class ResolvedRequest:
    """One model on one kind of GPU with one release of SGLang."""

    request: FitRequest
    model: ModelSpec
    gpu: Gpu
    version: Version
    layout: Layout
    kv_cache_dtype: str
    """As `--kv-cache-dtype` takes it."""
    chunk: int
    """Most tokens of prompts in a step."""
    graph_requests: int
    """Most requests of a decode step in a CUDA graph."""
    fraction: float
    """`--mem-fraction-static`: share of the memory that is free before the load for weights and cache."""

    @property
    def on_nvidia(self) -> bool:
        return self.gpu.vendor.name is VendorName.NVIDIA

    @property
    def generation(self) -> int | None:
        """The first number of the compute capability. None: an AMD GPU."""
        return self.gpu.compute_capability[0] if self.gpu.compute_capability else None

    @property
    def architecture(self) -> str:
        """The model's class, as its configuration names it; empty: it does not."""
        return next((str(name) for name in self.model.family.config.get("architectures") or ()), "")

    @property
    def sparse(self) -> bool:
        """Whether the model has sparse latent attention (DSA)."""
        attention = self.model.shape.attention
        return isinstance(attention, LatentAttention) and attention.indexer is not None

    @property
    def page(self) -> int:
        """Tokens of a page of the KV cache: as asked for, else 1, but for backends that take pages of 64
        (arg_groups/overrides.py `_page_size_default` and `_mla_backend_page_constraints`, 0.5.23)."""
        if self.request.block_size:
            return self.request.block_size
        if self.sparse:
            return _SPARSE_PAGE
        return _BLACKWELL_PAGE if self.generation == 10 else 1

    @property
    def pods(self) -> Pods:
        """How the server is divided over pods."""
        return pods_of(self.layout.gpus, self.request.gpus_per_node)

    @property
    def compatibility(self) -> Compatibility:
        """What the nodes' driver asks of the deployment."""
        return sglang_compatibility(str(self.version), self.request.driver, self.gpu)

    def requests_at_a_time(self, tokens: int, context: int) -> int:
        """Requests that the server computes at a time with a cache of so many tokens
        (mem_cache/kv_cache_configurator.py `resolve_max_num_reqs`, 0.5.23)."""
        if self.request.max_num_seqs:
            return min(self.request.max_num_seqs, tokens // 2)
        estimated = floor(tokens / context * 512) if context else 0
        return min(max(min(estimated, 4096), 2048), tokens // 2)


def requested_version(request: FitRequest) -> Version:
    """The release that the request names, else the catalogue's. Raises ValueError if it cannot be read."""
    return Version.parse(request.engine_version or engine_facts(EngineName.SGLANG).default_version)


def resolve(request: FitRequest, model: ModelSpec, gpu: Gpu) -> ResolvedRequest:
    """The request with its defaults resolved. Raises ValueError for a version that cannot be read."""
    layout, batch = resolve_layout(request), _batch(gpu)
    chunk = request.max_num_batched_tokens or batch.chunked_prefill_size
    graph_requests = batch.graph_requests if layout.tp < 4 else batch.graph_requests_from_tp4
    if request.max_num_seqs:
        graph_requests = min(graph_requests, request.max_num_seqs)
    return ResolvedRequest(
        request=request,
        model=model,
        gpu=gpu,
        version=requested_version(request),
        layout=layout,
        kv_cache_dtype=_cache_type(request, model),
        chunk=chunk,
        graph_requests=graph_requests,
        fraction=request.gpu_memory_utilization or default_fraction(model, gpu, layout, chunk, graph_requests),
    )


def resolve_layout(request: FitRequest) -> Layout:
    """The layout of a request: tensor parallel within nodes, pipeline parallel between them, unless it says so."""
    if request.gpu is None:
        return Layout()
    present = request.nodes * request.gpus_per_node
    within = (request.tensor_parallel or 1) <= request.gpus_per_node
    pp = request.pipeline_parallel or (request.nodes if within else 1)
    tp = request.tensor_parallel or max(1, present // pp)
    return Layout(tp=tp, pp=pp, ep=tp if request.expert_parallel else 1)


_MIB_PER_TOKEN = 1.5
_MIB_PER_GRAPH_REQUEST = 2
_MIB_PER_PROMPT_GRAPH = 8
_MIB_OF_LATENT_PROMPT_GRAPHS = 1.5 * 1024
_LEAST_RESERVE = 10 * 1024
_LARGE_GPU = 60 * 1024


def default_fraction(model: ModelSpec, gpu: Gpu, layout: Layout, chunk: int, graph_requests: int) -> float:
    """SGLang's own default of `--mem-fraction-static`: what its estimate of activations and CUDA graphs leaves of the
    memory that nvidia-smi prints (arg_groups/memory_hook.py `handle_gpu_memory_settings`, 0.5.23)."""
    reserved = 512 + max(chunk, 2048) * _MIB_PER_TOKEN + layout.tp * layout.pp / 8 * 1024
    reserved += graph_requests * _MIB_PER_GRAPH_REQUEST
    if _prompts_in_graphs(model, layout):
        latent = isinstance(model.shape.attention, LatentAttention)
        reserved += _MIB_OF_LATENT_PROMPT_GRAPHS if latent else _prompt_graphs(chunk) * _MIB_PER_PROMPT_GRAPH
    if gpu.smi_mib > _LARGE_GPU:
        reserved = max(reserved, _LEAST_RESERVE)
    fraction = round((gpu.smi_mib - reserved) / gpu.smi_mib, 3) if gpu.smi_mib else 0.0
    return round(fraction * _vision_factor(model), 3)


def _prompts_in_graphs(model: ModelSpec, layout: Layout) -> bool:
    """Whether prompts are computed by CUDA graphs: of one stage, and of models without images or of those that SGLang
    lists (arg_groups/cuda_graph_hook.py `apply_cuda_graph_compatibility`, 0.5.23)."""
    named = {str(each) for each in model.family.config.get("architectures") or ()}
    return layout.pp == 1 and (model.shape.vision is None or bool(named & {*newest_release().prompts_in_graphs}))


def _prompt_graphs(chunk: int) -> int:
    """Sizes of the graphs of prompts (arg_groups/cuda_graph_hook.py `generate_prefill_cuda_graph_batch_sizes`)."""
    steps = [
        *range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64),
        *range(1280, 4097, 256), *range(4608, chunk + 1, 512),
    ]  # fmt: skip
    return sum(size <= chunk for size in steps)


_DEFAULT_VISION_LAYERS, _DEFAULT_VISION_WIDTH = 24, 1024


def _vision_factor(model: ModelSpec) -> float:
    """Share that a model with images keeps: less for a larger encoder (arg_groups/memory_hook.py
    `adjust_mem_fraction_for_vlm`, 0.5.23)."""
    vision = model.family.config.get("vision_config")
    if model.shape.vision is None or not vision:
        return 1.0
    # SGLang's class for Kimi-K2.5 renames the fields of its encoder (configs/kimi_k25.py).
    layers = vision.get("num_hidden_layers") or vision.get("vt_num_hidden_layers") or _DEFAULT_VISION_LAYERS
    width = vision.get("hidden_size") or vision.get("vt_hidden_size") or _DEFAULT_VISION_WIDTH
    size = layers * width**2 / (_DEFAULT_VISION_LAYERS * _DEFAULT_VISION_WIDTH**2)
    return 0.95 * max(0.8, min(1.05, 1.0 - 0.1 * (size - 1.0)))


def _cache_type(request: FitRequest, model: ModelSpec) -> str:
    """The cache type: as asked for, as the recipe or the checkpoint declares it, else 16 bits."""
    asked = request.kv_cache_dtype or model.checkpoint.kv_cache_dtype
    if asked is None and model.quantization.kv_cache_fp8:
        asked = "fp8"
    named = {"fp8": "fp8_e4m3", "auto": "bfloat16", None: "bfloat16"}
    return named.get(asked, asked) or "bfloat16"


def _batch(gpu: Gpu) -> Batch:
    return next(each for each in sglang_defaults().batch if gpu.smi_mib >= each.memory_gib * 1024)


def sglang_compatibility(version: str, driver: str | None, gpu: Gpu) -> Compatibility:
    """What follows from the nodes' driver and the image of a release."""
    image = image_of(EngineName.SGLANG, version, Version.parse)
    return driver_compatibility(image, f"SGLang {version}", driver, gpu)
