"""`heavylift:engine`: the inference server."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import Field, Strict, StrictBool

from config.engine_name import EngineName
from config.load_format import LoadFormat
from config.quantity import Quantity
from config.stack.sections.fields import Count, ListenAddress, Section, Text


class EncoderMode(StrEnum):
    """How vLLM distributes a vision encoder over tensor-parallel GPUs."""

    DATA = "data"
    WEIGHTS = "weights"


class Engine(Section):
    """The inference server. Unset values follow from the plan, or are the engine's defaults."""

    name: EngineName
    """`vllm`, `sglang` or `llama.cpp`."""
    version: Text
    """Version of the engine in the image. Determines its flags and defaults."""
    image: Text
    """Image of the server; HEAVYLIFT_ENGINE_IMAGE overrides it."""
    tensor_parallel: Count | None = None
    """GPUs that share each layer."""
    pipeline_parallel: Count | None = None
    """Pipeline stages: consecutive groups of layers, each on GPUs of its own."""
    data_parallel: Count | None = None
    """Data-parallel ranks: copies of the attention layers, each with its own requests."""
    replicas: Count = 1
    """Number of servers behind the Service, each on nodes of its own."""
    expert_parallel: StrictBool = False
    """Distribute whole experts over the GPUs instead of splitting each expert."""
    prefill_context_parallel: Count | None = None
    """GPUs that share the tokens of a prompt, each with a KV cache of its own; for models with latent attention."""
    decode_context_parallel: Count | None = None
    """GPUs of a tensor-parallel group that share the KV cache of a request."""
    max_model_len: Count | None = None
    """Longest request in tokens, prompt and answer; for llama.cpp the tokens of all slots together."""
    max_num_seqs: Count | None = None
    """Number of concurrent requests; for llama.cpp the number of slots."""
    max_num_batched_tokens: Count | None = None
    """Most tokens that one step of the engine processes."""
    kv_cache_dtype: Text | None = None
    """Type of the KV cache, such as `fp8`."""
    gpu_memory_utilization: Annotated[float, Strict(), Field(gt=0, le=1)] | None = None
    """Share of each GPU's memory that the engine may use, above 0 and at most 1."""
    block_size: Annotated[int, Strict(), Field(gt=0, multiple_of=16)] | None = None
    """Tokens in one KV cache block: a multiple of 16, as vLLM's kernels require."""
    quantization: Text | None = None
    """Quantization method for an unquantized checkpoint; unset: the checkpoint's own."""
    mm_encoder_tp_mode: EncoderMode | None = None
    """`data`: a whole vision encoder on each GPU. `weights`: split like the language model."""
    language_model_only: StrictBool = False
    """Serve without the vision encoder."""
    enable_prefix_caching: StrictBool = True
    """Reuse the KV cache of prompts with a common beginning."""
    max_loras: Count | None = None
    """LoRA adapters that a batch may use; unset: none are served."""
    max_lora_rank: Count | None = None
    """Largest rank of an adapter: 1, 8, 16, 32, 64, 128, 256, 320 or 512; unset: 16."""
    speculative_tokens: Count | None = None
    """Speculative decoding: tokens that `model.draft` drafts at a time; without it, those that the checkpoint's own
    layers for multi-token prediction (MTP) draft."""
    yarn_factor: Annotated[float, Strict(), Field(gt=1, allow_inf_nan=False)] | None = None
    """Stretch the context by so much with YaRN, above 1, as the model's makers document it."""
    yarn_original_context: Count | None = None
    """Tokens of the context that YaRN stretches; unset: the model's own maximum."""
    enforce_eager: StrictBool = False
    """Run without CUDA graphs and compilation: slower, with less memory."""
    redundant_experts: Annotated[int, Strict(), Field(ge=0)] | None = None
    """Balance the load of experts with so many copies in each layer, 0 or more; needs `expert_parallel`. Unset: no
    balancing."""
    cpu_offload_gb: Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)] | None = None
    """GiB of the weights of each GPU to keep in host memory. Slow: each step reads them over PCIe."""
    kv_offload: Quantity | None = None
    """Host memory for KV cache blocks that leave the GPUs, so that prompts seen before need no new prefill; of each
    server, or of each of its data-parallel ranks. It is in `/dev/shm` and counts in the pod's memory."""
    max_num_queued_reqs: Count | None = None
    """Requests, running and waiting, beyond which a server answers 503, so that clients can try another one. Unset: no
    limit."""
    load_format: LoadFormat | None = None
    """How vLLM reads weights: `fastsafetensors`, `instanttensor` or `runai_streamer`, each of a package that the image
    must have. Unset: vLLM's own reader."""
    expert_offload: StrictBool = False
    """llama.cpp: keep the experts in host memory. Slow; for models that do not fit into GPU memory."""
    sleep_idle_seconds: Count | None = None
    """llama.cpp: seconds without a request after which the model leaves the memory. The next request loads it again.
    Unset: it stays."""
    served_name: Text | None = None
    """Name of the model in clients' requests. Unset: model.repository."""
    host: ListenAddress = "0.0.0.0"  # noqa: S104 - the pod's own network
    """Address that the server listens on: `0.0.0.0`, or `::` in a cluster with IPv6."""
    model_file: Text | None = None
    """llama.cpp: file to serve, or its first shard; unset: the one that the lock, `include` or the catalogue names."""
    cpus: Count | None = None
    """CPUs that the server requests."""
    memory: Quantity | None = None
    """Memory that the server requests; unset: derived from the plan."""
    drain: Annotated[int, Strict(), Field(ge=0, le=3600)] = 60
    """Seconds that running requests get to finish when a pod terminates, at most 3600. 0: they are aborted."""
    environment: Mapping[str, str] = {}
    """Additional environment variables of the server. No secrets."""
    extra_args: Sequence[str] = ()
    """Additional arguments of the engine, passed on unchanged."""
