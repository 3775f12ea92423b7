"""The planner's input: a model, the hardware and the engine's settings.

Plain values only, shared by stack files, the command line and tests. `None` means the default of the engine or the
catalogue. Nothing is validated here; `planner.fit` reports every invalid value.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.catalogue import CapacityKind
from config.engine_name import EngineName

DEFAULT_STAGING_BYTES_PER_SECOND = 250e6
"""A 2 Gbit/s line: slow on purpose, because deadlines follow from it."""

DEFAULT_NODE_BYTES_PER_SECOND = 1.25e9
"""10 Gbit/s: slow for servers with GPUs, for the same reason."""

DEFAULT_READ_BYTES_PER_SECOND = 2e9
"""From local NVMe into GPUs. A public log of Kimi-K2.6 on 8 B300 loads 595 GB in 4.4 minutes: 2.25 GB/s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """A stack's settings beside model, hardware and engine. With them, the plan can be deployed unchanged."""

    nodes: int
    """Nodes of the stack, including those of other servers and spares."""
    replicas: int = 1
    """Servers, each on nodes of its own."""
    cpus: int | None = None
    """CPUs that each pod of a server requests. Unset: none."""
    drain_seconds: int = 0
    """Time for running requests to finish when a pod terminates. 0: none."""
    makes_cluster: bool = False
    """Whether the stack makes an EKS cluster, and so pays for it."""
    zone: str | None = None
    """ID of the availability zone of the nodes in AWS. Unset: not in AWS."""
    volume_has_size: bool = True
    """Whether the weights volume has a size."""
    locked_files: tuple[str, ...] | None = None
    """Files that the lock file lists. `None`: no lock file."""
    image: str | None = None
    """Image of the server."""
    environment: tuple[str, ...] = ()
    """Names of the environment variables that the stack sets for the server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """All inputs of one plan."""

    model: str
    """Name in the catalogue (`kimi-k2.5`), repository (`moonshotai/Kimi-K2.5`) or a directory with a checkpoint."""
    weights_bytes: int | None = None
    """Bytes to stage, from a lock file. Unset: from the catalogue."""
    include: tuple[str, ...] = ()
    """Patterns of the files that are staged; they choose among the quantisations of a GGUF repository."""

    gpu: str | None = None
    """GPU as the catalogue names it (`h200`, `NVIDIA-H200`); unset: no GPU, served from host memory by llama.cpp."""
    nodes: int = 1
    gpus_per_node: int = 8
    """GPUs of each node that this model may take."""
    fabric: str | None = None
    """Between nodes: `none`, `infiniband` or `efa`; unset: not known."""
    driver: str | None = None
    """Version of the GPU driver on the nodes, such as `580.95.05`."""
    instance_type: str | None = None
    """EC2 instance type of the nodes, for its price."""
    capacity: CapacityKind = CapacityKind.ON_DEMAND
    """How instances of that type are bought, for their price."""
    usd_per_gpu_hour: float | None = None
    """Price of a GPU per hour; overrides the table of instance prices."""
    host_memory_bytes: int | None = None
    """Memory of a node, or the limit set for the server's container."""
    shared_memory_bytes: int | None = None
    """Size set for `/dev/shm`. Unset: derived."""

    engine: EngineName = EngineName.VLLM
    engine_version: str | None = None
    """Version of the engine's image. Unset: the catalogue's."""
    tensor_parallel: int | None = None
    """Unset: the GPUs of a node, or what the other sizes leave."""
    pipeline_parallel: int | None = None
    """Unset: the nodes, or what the other sizes leave."""
    data_parallel: int | None = None
    expert_parallel: bool = False
    """Spread experts over tensor, data and prefill context parallel ranks instead of cutting each of them."""
    prefill_context_parallel: int | None = None
    decode_context_parallel: int | None = None
    max_model_len: int | None = None
    """Tokens of one request. Unset: the model's own maximum, or what fits if that is less. For llama.cpp: the tokens of
    all slots together."""
    max_num_seqs: int | None = None
    """Requests at a time; for llama.cpp the slots."""
    max_num_batched_tokens: int | None = None
    kv_cache_dtype: str | None = None
    gpu_memory_utilization: float | None = None
    block_size: int | None = None
    quantization: str | None = None
    mm_encoder_tp_mode: str | None = None
    """`data` keeps a whole vision encoder on each tensor-parallel rank, `weights` cuts it."""
    language_model_only: bool = False
    """Leave the vision encoder out."""
    enable_prefix_caching: bool = True
    max_loras: int | None = None
    """LoRA adapters that a batch may use. Unset: none are served."""
    max_lora_rank: int | None = None
    """The largest rank of an adapter. Unset: the engine's default."""
    speculative_tokens: int | None = None
    """Tokens that are drafted at a time, by the draft model or the checkpoint's own layers for multi-token prediction.
    Unset: no speculative decoding."""
    draft: str | None = None
    """Model that drafts for speculative decoding, named as `model` is. Unset: none, the checkpoint drafts itself."""
    draft_include: tuple[str, ...] = ()
    """Patterns of the draft model's files that are staged."""
    draft_weights_bytes: int | None = None
    """Bytes of the draft model to stage, from its lock file. Unset: from the catalogue."""
    yarn_factor: float | None = None
    """Stretch the context by so much with YaRN."""
    yarn_original_context: int | None = None
    """Tokens of the context that YaRN stretches. Unset: the model's own maximum."""
    enforce_eager: bool = False
    """Run without CUDA graphs and compilation."""
    redundant_experts: int | None = None
    """Copies of routed experts in each layer, spread and moved by load (EPLB). Unset: experts are not balanced."""
    cpu_offload_gb: float | None = None
    """GiB of the weights of each GPU that are kept in host memory."""
    kv_offload: int | None = None
    """Bytes of host memory for KV cache blocks that leave the GPUs, of the server or of each data-parallel rank. Unset:
    such blocks are dropped."""
    max_num_queued_reqs: int | None = None
    """Requests, running and waiting, beyond which the server refuses more. Unset: no limit."""
    load_format: str | None = None
    """Reader of the weights: a value of `LoadFormat`. Unset: the release's own."""
    expert_offload: bool = False
    """llama.cpp: keep the experts in host memory."""
    sleep_idle_seconds: int | None = None
    """llama.cpp: seconds without a request after which the model leaves memory. Unset: it stays."""
    extra_args: tuple[str, ...] = ()
    """Further engine arguments, checked against the engine's flags and passed on."""
    model_file: str | None = None
    """llama.cpp: the file to serve, or the first of its shards; unset: as lock, patterns or catalogue name it."""
    available_kv_gib: float | None = None
    """Answer with the tokens that fit in this much KV cache per GPU instead of deriving it."""

    keep_cache: bool = False
    """vLLM: keep what it compiles and tunes at its start on the weights volume."""
    keep_revisions: int = 2
    """Revisions of the weights that the volume must hold."""
    volume_bytes: int | None = None
    """Size set for the weights volume. Unset: derived."""
    staging_bytes_per_second: float = DEFAULT_STAGING_BYTES_PER_SECOND
    """Bandwidth of the site's line to the hub or mirror, which all nodes share."""
    staging_nodes: int = 1
    """Nodes that download over that line, each to its own volume."""
    node_bytes_per_second: float | None = None
    """Bandwidth between two nodes that share one download. Unset: not shared."""
    read_bytes_per_second: float = DEFAULT_READ_BYTES_PER_SECOND
    deployment: Deployment | None = None
    """Unset: the plan covers one server and its memory only."""
    startup_seconds: float | None = None
    """Time limit set for the server's start. Unset: derived. The plan reports a limit shorter than the load."""
