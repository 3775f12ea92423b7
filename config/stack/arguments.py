"""The sections of a stack file as plain values.

Written by `make schema` from config/stack/sections.py: do not edit.
"""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from config.engine_name import EngineName
from config.stack.sections import (
    EncoderMode,
    FabricKind,
    GpuDirect,
    NodeKind,
    PodNetwork,
    TaintEffect,
    Verification,
    WeightsKind,
)


class Cluster(TypedDict):
    """The Kubernetes cluster that everything goes to. The ambient context of kubectl is never used."""

    kubeconfig: NotRequired[str]
    """Path of the kubeconfig file; HEAVYLIFT_KUBECONFIG overrides it."""
    context: NotRequired[str]
    """Context within that file; HEAVYLIFT_KUBE_CONTEXT overrides it."""
    namespace: NotRequired[str]
    """Namespace for all objects. Created and kept if it is missing; used as it is if somebody else made it."""


class Fabric(TypedDict):
    """The network between the nodes' GPUs, as its device plugin offers it."""

    kind: FabricKind
    """`infiniband` or `efa`."""
    resource: str
    """Extended resource of the device plugin, such as `rdma/ib`."""
    count: int
    """Devices of that resource on each node."""
    devices: NotRequired[Sequence[str]]
    """InfiniBand devices to use, such as `mlx5_0`; unset: every one that the pod is given. Name them where a node has
    others, for storage."""
    network: NotRequired[PodNetwork]
    """Network on which the ranks meet. `pod`: the cluster's own. `host`: the node's."""
    interface: NotRequired[str]
    """Interface on which the ranks meet, such as `bond0`; unset: `eth0`, as pods have it. Network `host` needs it."""
    attachments: NotRequired[Sequence[str]]
    """Secondary networks of each pod (NetworkAttachmentDefinitions of Multus), where the fabric's devices come with
    one."""
    gpu_direct: NotRequired[GpuDirect]
    """Distance up to which a GPU and a network card exchange data directly: `LOC` (never), `PIX`, `PXB`, `PHB` or
    `SYS`; unset: the communication library decides."""
    topology_label: NotRequired[str]
    """Label of the nodes that names their part of the fabric; each group then has one such part to itself. Unset:
    groups may share."""


class Taint(TypedDict):
    """A taint that the nodes carry; stager and server tolerate it."""

    key: str
    """Key of the taint, such as `nvidia.com/gpu`."""
    value: NotRequired[str]
    """Its value; unset tolerates any."""
    effect: NotRequired[TaintEffect]
    """Its effect; unset tolerates every one."""


class Nodes(TypedDict):
    """The nodes that stage and serve."""

    kind: NotRequired[NodeKind]
    """`bare-metal`: nodes that are already in the cluster."""
    names: NotRequired[Sequence[str]]
    """Names of the nodes; unset: wherever the cluster's only node is."""
    gpu: NotRequired[str]
    """GPU as the catalogue names it, such as `h200`; unset: no GPU is used."""
    gpus_per_node: NotRequired[int]
    """GPUs of each node that this stack may take."""
    driver: NotRequired[str]
    """Version of the GPU driver on the nodes, in full or its first parts; unset: not known."""
    nvme_path: NotRequired[str]
    """Where the nodes' local NVMe is mounted, such as `/mnt/nvme`."""
    fabric: NotRequired[Fabric]
    """Network between the nodes' GPUs; unset: none."""
    taints: NotRequired[Sequence[Taint]]
    """Taints that the nodes carry."""
    usd_per_gpu_hour: NotRequired[float]
    """What a GPU costs per hour; unset: the plan knows no cost."""


class Model(TypedDict):
    """The weights: one repository at one revision."""

    repository: str
    """Repository on the model hub, such as `moonshotai/Kimi-K2.5`. The server serves under this name."""
    allow_unpinned: NotRequired[bool]
    """Accept a branch name as revision. What it stages may differ from one day to the next."""
    revision: str
    """Full commit of the repository (40 hex digits), or a branch where `allow_unpinned` is true."""
    include: NotRequired[Sequence[str]]
    """Patterns of the files to stage, such as `UD-Q2_K_XL/*.gguf`; unset: all files."""


class Weights(TypedDict):
    """The volume under the weights."""

    kind: WeightsKind
    """`local`: a PersistentVolume on the node's disk. `host-path`: a directory of the node. `claim`: a
    PersistentVolumeClaim from a storage class."""
    path: NotRequired[str]
    """Directory on the nodes for `local` and `host-path`; unset: nodes.nvme_path."""
    storage_class: NotRequired[str]
    """Storage class for `claim`; unset: the cluster's default."""
    size: NotRequired[str]
    """Size of the volume, fixed at its creation; unset: derived from what is staged."""
    keep_revisions: NotRequired[int]
    """Revisions of the weights that the volume has room for."""
    keep_newest: NotRequired[int]
    """Revisions of this stack to keep on the volume once a new one serves, the one served among them; fewer than
    `keep_revisions`, since the next one is staged beside them. Unset: nothing is ever removed."""
    retain: NotRequired[bool]
    """Keep the volume when the stack is destroyed."""
    verify: NotRequired[Verification]
    """`quick`: small files by hash, large ones by size and times. `full`: every byte, at every start."""
    read_bandwidth: NotRequired[str]
    """Speed at which a node reads its weights, such as `400 MB/s` for shared storage; the time limits of the server's
    start follow from it. Unset: 2 GB/s, as from local NVMe."""


class Stage(TypedDict):
    """The Job that downloads and verifies the weights, once, before a server starts."""

    image: str
    """Image with Python 3.11 or newer; HEAVYLIFT_STAGE_IMAGE overrides it."""
    sources: NotRequired[Sequence[str]]
    """Where the bytes come from, tried in this order: `hub`, `s3://bucket/prefix`, `https://host/path`, or a directory
    that the pod of the Job sees."""
    native_xet: NotRequired[bool]
    """Let the hub's own client fetch whole files, by Xet's protocol where the repository is stored so, instead of by
    ranges. Verified all the same; a download that is ended begins its file anew. Untested against a Xet server."""
    lock: NotRequired[str]
    """Path of a weights lock file; what it lists is staged, and nothing else."""
    bandwidth: NotRequired[str]
    """Bandwidth of the site's line to the hub or mirror, such as `10 Gbit/s`, which all nodes share; the Jobs' deadline
    follows from it."""
    fan_out: NotRequired[bool]
    """Let the nodes share one download: each fetches a part of the files and takes the others from the nodes that have
    them. Unset: where several nodes are named, each with weights of its own, and there is a lock."""
    node_bandwidth: NotRequired[str]
    """Bandwidth between two nodes, for what they take from each other, such as `100 Gbit/s`; unset: 10 Gbit/s."""
    streams: NotRequired[int]
    """Connections at once on each node; unset: as many as the line rewards."""
    environment: NotRequired[Mapping[str, str]]
    """Further environment of the Job, such as PIP_INDEX_URL or HTTPS_PROXY. No secrets."""
    secret: NotRequired[str]
    """Name of a Secret in the namespace whose keys become environment of the stager, such as AWS_ACCESS_KEY_ID and
    AWS_SECRET_ACCESS_KEY for a mirror; unset: none."""
    service_account: NotRequired[str]
    """Service account of the Job, where a cloud gives it the right to read a mirror; unset: the namespace's own, which
    may do nothing."""


class Engine(TypedDict):
    """The inference server. Whatever is unset follows from the plan, or is the engine's own default."""

    name: EngineName
    """`vllm` or `llama.cpp`."""
    version: str
    """Version of the engine in the image: it decides which flags and defaults hold."""
    image: str
    """Image of the server; HEAVYLIFT_ENGINE_IMAGE overrides it."""
    tensor_parallel: NotRequired[int]
    """GPUs that share each layer."""
    pipeline_parallel: NotRequired[int]
    """Groups of layers, one behind the other."""
    data_parallel: NotRequired[int]
    """Copies of the attention layers."""
    replicas: NotRequired[int]
    """Servers behind the one Service, each on nodes of its own."""
    expert_parallel: NotRequired[bool]
    """Spread whole experts over the GPUs instead of cutting each of them."""
    decode_context_parallel: NotRequired[int]
    """GPUs of a tensor-parallel group that share the KV cache of a request."""
    max_model_len: NotRequired[int]
    """Tokens of one request; for llama.cpp the tokens of all slots together."""
    max_num_seqs: NotRequired[int]
    """Requests at a time; for llama.cpp the slots."""
    max_num_batched_tokens: NotRequired[int]
    """Tokens of one step."""
    kv_cache_dtype: NotRequired[str]
    """Type of the KV cache, such as `fp8`."""
    gpu_memory_utilization: NotRequired[float]
    """Share of each GPU's memory that the engine may use."""
    block_size: NotRequired[int]
    """Tokens of a KV block: a multiple of 16, which vLLM's kernels take."""
    quantization: NotRequired[str]
    """Quantisation method; the checkpoint names its own."""
    mm_encoder_tp_mode: NotRequired[EncoderMode]
    """`data`: a whole vision encoder on each GPU. `weights`: cut like the language model."""
    language_model_only: NotRequired[bool]
    """Leave the vision encoder out."""
    enable_prefix_caching: NotRequired[bool]
    """Reuse the KV cache of prompts that begin alike."""
    expert_offload: NotRequired[bool]
    """llama.cpp: keep the experts in host memory. Slow; for models that do not fit otherwise."""
    model_file: NotRequired[str]
    """llama.cpp: the file to serve, or the first of its shards; unset: as lock, patterns or catalogue name it."""
    cpus: NotRequired[int]
    """CPUs that the server asks for."""
    memory: NotRequired[str]
    """Memory that the server asks for; unset: derived from the plan."""
    environment: NotRequired[Mapping[str, str]]
    """Further environment of the server. No secrets."""
    extra_args: NotRequired[Sequence[str]]
    """Further arguments of the engine, passed on as they are."""


class StackConfig(TypedDict):
    """All `heavylift:` keys of one stack, but for the secret `heavylift:hub_token`."""

    cluster: NotRequired[Cluster]
    """The Kubernetes cluster."""
    nodes: NotRequired[Nodes]
    """The nodes that stage and serve."""
    model: Model
    """The weights."""
    weights: Weights
    """The volume under the weights."""
    stage: Stage
    """The Job that downloads and verifies the weights."""
    engine: Engine
    """The inference server."""
