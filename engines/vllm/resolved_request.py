"""A request with every default filled in, the input of rules and arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from config.catalogue import (
    Gpu,
    engine_facts,
    find_gpu,
)
from config.checkpoint.attention import GroupedAttention, LatentAttention
from config.checkpoint.model_spec import ModelSpec, find_model
from config.checkpoint.rotary import can_be_stretched
from config.engine_name import EngineName
from engines.plan import Layout, Pods
from engines.request import FitRequest
from engines.rules.deployment import pods_of
from engines.rules.driver import Compatibility, driver_compatibility, image_of
from engines.versions import Version
from engines.vllm.defaults import BatchDefaults, vllm_defaults
from engines.vllm.memory.attention_backend import Backend, attention_backend
from engines.vllm.memory.kv_cache import is_fp8

MISSING_SETTINGS = frozenset({"expert_offload", "model_file", "sleep_idle_seconds"})
"""Fields of the request that vLLM has no setting for."""

SPARSE_BATCHED_TOKENS = 8192
"""Most batched tokens at which the scratch of sparse decode with an fp8 cache stays small (see `planner.memory`)."""


@dataclass(frozen=True)
class ResolvedRequest:
    """One model on one kind of GPU with one release of vLLM."""

    request: FitRequest
    model: ModelSpec
    gpu: Gpu
    version: Version
    capability: tuple[int, int] | None
    """Compute capability of the GPU. None: an AMD GPU."""
    layout: Layout
    kv_cache_dtype: str
    utilization: float
    batched_tokens: int
    sequences: int
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Fields of `config.json` that the engine is told to replace."""
    draft: ResolvedRequest | None = None
    """The model that drafts for this one, on the same GPUs. None: there is none."""

    def at_least(self, capability: tuple[int, int]) -> bool:
        """Whether the GPU has CUDA and at least that compute capability."""
        return self.capability is not None and self.capability >= capability

    def below(self, capability: tuple[int, int]) -> bool:
        """Whether the GPU has CUDA and a smaller compute capability."""
        return self.capability is not None and self.capability < capability

    @property
    def model_type(self) -> str:
        """The type of the text model, as its `config.json` says."""
        config = self.model.family.config
        return str((config.get("text_config") or config).get("model_type"))

    @property
    def generation(self) -> int | None:
        """The first number of the compute capability. None: an AMD GPU."""
        return self.capability[0] if self.capability else None

    @cached_property
    def backend(self) -> Backend | None:
        """The attention backend; `None` if vLLM has none for this GPU."""
        return attention_backend(
            self.model.shape,
            self.capability,
            fp8=is_fp8(self.kv_cache_dtype),
            dcp=self.layout.dcp,
        )

    @cached_property
    def compatibility(self) -> Compatibility:
        """What the nodes' driver asks of the deployment."""
        return vllm_compatibility(str(self.version), self.request.driver, self.gpu)

    @property
    def drafts(self) -> int:
        """Layers for multi-token prediction that are loaded; 0 where they have no formula."""
        asked = self.request.speculative_tokens and self.request.draft is None
        return self.model.shape.mtp_layers if asked and can_draft(self.model, self.layout) else 0

    def drafts_in(self, layers: range) -> int:
        """The same of a pipeline stage with these layers: the last one has them."""
        return self.drafts if layers.stop == self.model.shape.layers else 0

    @property
    def max_context(self) -> int:
        """Tokens that the model supports, and its draft model, to whose context vLLM lowers that of the server
        (vllm/config/vllm.py `_limit_max_model_len_to_draft`, 0.33.0); 0: not known."""
        lengths = [each.model.shape.max_context for each in (self, self.draft) if each is not None]
        return min((length for length in lengths if length), default=0)

    @property
    def block(self) -> int:
        """Tokens of a KV block: as asked for, in multiples of what the backend takes."""
        if self.backend is None:
            return 0
        asked = self.request.block_size or self.backend.block
        return -(-asked // self.backend.block) * self.backend.block

    @property
    def kv_heads(self) -> int:
        """Key and value heads that tensor parallelism can cut; 1 where the attention is not known."""
        attention = self.model.shape.attention
        return attention.kv_heads if isinstance(attention, GroupedAttention) else self.model.shape.heads or 1

    @property
    def window_kv_heads(self) -> int:
        """The same of sliding layers."""
        windowed = self.model.shape.windowed
        return windowed.kv_heads if windowed else self.kv_heads

    @property
    def sparse_scratch_missed(self) -> bool:
        """Whether sparse decode allocates scratch that the engine's profiling misses: an fp8 cache and fewer than 32
        heads per rank (github.com/vllm-project/vllm/issues/53413)."""
        attention = self.model.shape.attention
        if not isinstance(attention, LatentAttention) or attention.indexer is None:
            return False
        return is_fp8(self.kv_cache_dtype) and attention.heads // self.layout.tp < 32

    @property
    def pods(self) -> Pods:
        """How the server is divided over pods."""
        return pods_of(self.layout.gpus, self.request.gpus_per_node)

    @property
    def gpus_present(self) -> int:
        return self.request.nodes * self.request.gpus_per_node


def requested_version(request: FitRequest) -> Version:
    """The release that the request names, else the catalogue's. Raises ValueError if it cannot be read."""
    return Version.parse(request.engine_version or engine_facts(EngineName.VLLM).default_version)


def resolve(request: FitRequest, model: ModelSpec, gpu: Gpu) -> ResolvedRequest:
    """The request with its defaults resolved. Raises ValueError for a version that cannot be read."""
    version = requested_version(request)
    if request.language_model_only:
        model = model.without_vision()
    if request.quantization == "fp8" and not model.quantization.method and model.shape.derivable:
        model = model.quantized_online()
    model, overrides = _stretched(request, model)
    defaults = _batch_defaults(gpu)
    resolved = ResolvedRequest(
        request=request,
        model=model,
        gpu=gpu,
        version=version,
        capability=gpu.compute_capability,
        layout=resolve_layout(request),
        kv_cache_dtype=request.kv_cache_dtype or model.checkpoint.kv_cache_dtype or _declared_cache(model),
        utilization=request.gpu_memory_utilization or _utilization(version),
        batched_tokens=request.max_num_batched_tokens or defaults.max_num_batched_tokens,
        sequences=request.max_num_seqs or defaults.max_num_seqs,
        overrides=overrides,
    )
    if resolved.sparse_scratch_missed and not request.max_num_batched_tokens:
        resolved = replace(resolved, batched_tokens=min(resolved.batched_tokens, SPARSE_BATCHED_TOKENS))
    if not request.max_num_seqs:
        # As vLLM does with its own default (engine/arg_utils.py, 0.33.0).
        resolved = replace(resolved, sequences=min(resolved.sequences, resolved.batched_tokens))
    return replace(resolved, draft=_resolved_draft(resolved)) if request.draft else resolved


def _resolved_draft(target: ResolvedRequest) -> ResolvedRequest:
    """The draft model as vLLM loads it: with the target's ranks, batch and cache type, in one pipeline stage, and with
    its own quantisation (vllm/config/speculative.py, v1/worker/gpu/spec_decode/standalone_ar, 0.33.0)."""
    model = find_model(target.request.draft or "", target.request.draft_include)
    request = FitRequest(
        model=model.name,
        gpu=target.request.gpu,
        engine_version=target.request.engine_version,
        gpus_per_node=target.layout.gpus // target.layout.pp,
        tensor_parallel=target.layout.tp,
        pipeline_parallel=1,
        data_parallel=target.layout.dp,
        prefill_context_parallel=target.layout.pcp,
        decode_context_parallel=target.layout.dcp,
        expert_parallel=target.request.expert_parallel and model.shape.experts is not None,
        kv_cache_dtype=target.kv_cache_dtype,
        max_num_seqs=target.sequences,
        max_num_batched_tokens=target.batched_tokens,
        block_size=target.request.block_size,
        enforce_eager=True,
    )
    return resolve(request, model, target.gpu)


_DRAFTS = (
    *("deepseek_v3", "deepseek_v32", "glm_moe_dsa"),
    *("qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_next"),
)
"""Model types whose layers for multi-token prediction are decoder layers of the model, with full attention, and one
projection more (vllm/model_executor/models/deepseek_mtp.py, qwen3_5_mtp.py and qwen3_next_mtp.py, 0.33.0)."""


def can_draft(model: ModelSpec, layout: Layout) -> bool:
    """Whether what multi-token prediction takes is known: a cache that is the same in each layer that grows, and in one
    stage if others keep states, since vLLM groups the layers of all stages together."""
    attention = model.shape.attention
    if model.shape.linear is not None and layout.pp > 1:
        return False
    if model.measured or model.family.config.get("model_type") not in _DRAFTS:
        return False
    indexer = attention.indexer if isinstance(attention, LatentAttention) else None
    return indexer is None or len(indexer.layers) == model.shape.layers


def can_share(target: ResolvedRequest, draft: ResolvedRequest) -> bool:
    """Whether the pool of the caches of a model and its draft model is known: grouped attention of one backend, whose
    layers all grow, or are alike in both models; and no rank has a part of a request's cache."""
    one, other = target.model.shape, draft.model.shape
    if not isinstance(one.attention, GroupedAttention) or not isinstance(other.attention, GroupedAttention):
        return False
    if target.backend != draft.backend or target.layout.dcp > 1 or target.layout.pcp > 1:
        return False
    if {*one.layer_kinds, *other.layer_kinds} == {"full"}:
        return True
    same_window = (one.window, one.windowed) == (other.window, other.windowed)
    alike = (one.attention.kv_heads, one.attention.key_value_width) == (
        other.attention.kv_heads,
        other.attention.key_value_width,
    )
    return same_window and alike and {*one.layer_kinds, *other.layer_kinds} <= {"full", "sliding"}


def can_stretch(model: ModelSpec) -> bool:
    """Whether YaRN can be put on the model: one text model, whose positions are known and not scaled yet."""
    config = model.family.config
    return not config.get("text_config") and can_be_stretched(config) and model.shape.max_context > 0


def _stretched(request: FitRequest, model: ModelSpec) -> tuple[ModelSpec, Mapping[str, Any]]:
    """The model with the context that the request stretches, and the fields that say so."""
    if request.yarn_factor is None or not can_stretch(model):
        return model, {}
    return model.with_yarn(request.yarn_factor, request.yarn_original_context)


def vllm_compatibility(version: str, driver: str | None, gpu: Gpu) -> Compatibility:
    """What follows from the nodes' driver and the image of a release."""
    image = image_of(EngineName.VLLM, version, Version.parse)
    return driver_compatibility(image, f"vLLM {version}", driver, gpu)


def default_sequences(request: FitRequest) -> int:
    """Requests at a time of a request that does not say how many. Raises NotInCatalogueError."""
    gpu = find_gpu(request.gpu or "")
    return _batch_defaults(gpu).max_num_seqs


def resolve_layout(request: FitRequest) -> Layout:
    """The layout of a request: tensor parallel within nodes, pipeline parallel between them, unless it says so."""
    if request.gpu is None:
        return Layout()
    present = request.nodes * request.gpus_per_node
    dp, pcp = request.data_parallel or 1, request.prefill_context_parallel or 1
    within = (request.tensor_parallel or 1) <= request.gpus_per_node
    pp = request.pipeline_parallel or (request.nodes if dp == pcp == 1 and within else 1)
    tp = request.tensor_parallel or max(1, present // (pp * dp * pcp))
    return Layout(
        tp=tp,
        pp=pp,
        dp=dp,
        pcp=pcp,
        ep=tp * dp * pcp if request.expert_parallel else 1,
        dcp=request.decode_context_parallel or 1,
    )


def _declared_cache(model: ModelSpec) -> str:
    """The cache type where nothing asks for one: as the checkpoint's quantisation declares it."""
    return "fp8" if model.quantization.kv_cache_fp8 else "auto"


def _utilization(version: Version) -> float:
    for default in vllm_defaults().gpu_memory_utilization:
        if version >= Version.parse(default.since):
            return default.value
    raise ValueError(f"no default utilisation is known for vLLM {version}")


def _batch_defaults(gpu: Gpu) -> BatchDefaults:
    memory, table = gpu.torch_gib or gpu.smi_mib / 1024, vllm_defaults().batch
    for defaults in table:
        excepted = defaults.except_label
        if memory >= defaults.memory_gib and not (excepted and any(excepted in label for label in gpu.labels)):
            return defaults
    return table[-1]
