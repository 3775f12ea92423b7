"""The sections of a stack file as plain values.

Written by `make schema` from config/stack/sections/: do not edit.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from config.catalogue.instance import CapacityKind
from config.engine_name import EngineName
from config.load_format import LoadFormat
from config.stack.sections.engine import EncoderMode
from config.stack.sections.metrics import MetricsKind
from config.stack.sections.nodes import FabricKind, GpuDirect, Installation, NodeKind, PodNetwork, TaintEffect
from config.stack.sections.pod import SecurityProfile
from config.stack.sections.weights import Verification, WeightsKind


class Cluster(TypedDict):
    """The Kubernetes cluster to deploy to. The current context of kubectl is never used implicitly."""

    kubeconfig: NotRequired[str]
    """Path of the kubeconfig file; HEAVYLIFT_KUBECONFIG overrides it."""
    context: NotRequired[str]
    """Context within that file; HEAVYLIFT_KUBE_CONTEXT overrides it."""
    namespace: NotRequired[str]
    """Namespace for all objects. Created if it does not exist, and kept on destroy."""


class NewEksCluster(TypedDict):
    """An EKS cluster that the stack makes, with its network and two system nodes."""

    version: NotRequired[str]
    """Version of Kubernetes. EKS charges more for a version after its standard support."""
    admins: NotRequired[Sequence[str]]
    """IAM roles and users that administer the cluster, besides the one that makes it."""


class EksChoice(TypedDict):
    """The EKS cluster: a new one, or one that exists. Exactly one of the keys."""

    create: NotRequired[NewEksCluster]
    """Make a cluster. `{}` takes every default."""
    name: NotRequired[str]
    """Name of a cluster that exists. The stack makes only the node group and what is above it."""


class AwsMirror(TypedDict):
    """The S3 bucket with a copy of the weights, in the region of the nodes. Exactly one of the keys."""

    bucket: NotRequired[str]
    """Name of a bucket that exists. The stager may read the prefixes of it that `stage.sources` names."""
    create: NotRequired[bool]
    """Make a bucket. Its name is the output `mirror`; `python -m stager mirror` fills it."""


class Aws(TypedDict):
    """The part of AWS in which the stack's nodes are."""

    region: str
    """Region, such as `us-east-2`."""
    cluster: EksChoice
    """The EKS cluster: `create: {}` makes one, `name` takes one that exists."""
    cidr: NotRequired[str]
    """Address range of the network that the stack makes: a private IPv4 range of /16 to /20."""
    public_access_cidrs: NotRequired[Sequence[str]]
    """Address ranges from which the API server of a new cluster answers. Unset: only from within its network."""
    mirror: NotRequired[AwsMirror]
    """Copy of the weights in S3; unset: none, and every node downloads from the hub through the NAT gateway."""


class Capacity(TypedDict):
    """How the instances of an EKS node group are bought."""

    kind: NotRequired[CapacityKind]
    """`on-demand`; `reservation`: an on-demand capacity reservation; `capacity-block`: a Capacity Block for ML. The
    program buys neither reservations nor blocks."""
    id: NotRequired[str]
    """ID of the reservation or block, which these kinds require."""


class Fabric(TypedDict):
    """The network between the nodes' GPUs, as its device plugin advertises it."""

    kind: FabricKind
    """`infiniband`, `roce` (RDMA over Ethernet, RoCE v2) or `efa`."""
    resource: str
    """Extended resource of the device plugin, such as `rdma/ib`."""
    count: int
    """Devices of that resource on each node."""
    devices: NotRequired[Sequence[str]]
    """RDMA devices to use, such as `mlx5_0`; unset: all devices of the pod. Name them if a node has others, for example
    for storage."""
    network: NotRequired[PodNetwork]
    """Network on which the ranks find one another. `pod`: the cluster's. `host`: the node's."""
    interface: NotRequired[str]
    """Interface of that network, such as `bond0`; unset: `eth0`, the interface of a pod. Required with `host`."""
    attachments: NotRequired[Sequence[str]]
    """Secondary networks of each pod (NetworkAttachmentDefinitions of Multus), if the fabric's devices need one."""
    gpu_direct: NotRequired[GpuDirect]
    """Distance up to which a GPU and a network card exchange data directly: `LOC` (never), `PIX`, `PXB`, `PHB` or
    `SYS`; unset: the communication library decides."""
    topology_label: NotRequired[str]
    """Node label that names the part of the fabric that a node is on. Each group then runs on one part, alone. Unset:
    groups may share."""


class Taint(TypedDict):
    """A taint of the nodes, which stager and server tolerate."""

    key: str
    """Key of the taint, such as `nvidia.com/gpu`."""
    value: NotRequired[str]
    """Its value; unset tolerates any."""
    effect: NotRequired[TaintEffect]
    """Its effect; unset tolerates every one."""


class Nodes(TypedDict):
    """The nodes that stage and serve."""

    kind: NotRequired[NodeKind]
    """`bare-metal`: nodes that are already in the cluster. `eks`: a node group that the stack makes in AWS."""
    names: NotRequired[Sequence[str]]
    """Names of the nodes; unset: the only node of the cluster. Not for `eks`, whose nodes are replaced."""
    instance_type: NotRequired[str]
    """EC2 instance type for `eks`, such as `p5en.48xlarge`. GPU, GPUs per node, driver, NVMe, taints, fabric and price
    follow from it."""
    count: NotRequired[int]
    """Number of nodes for `eks`."""
    zone: NotRequired[str]
    """ID of the availability zone for `eks`, such as `use2-az1`; names such as `us-east-2a` differ between accounts."""
    capacity: NotRequired[Capacity]
    """How instances are bought for `eks`; unset: on demand."""
    gpu: NotRequired[str]
    """GPU as the catalogue names it, such as `h200`; unset: no GPU is used."""
    gpus_per_node: NotRequired[int]
    """GPUs of each node that this stack may use."""
    driver: NotRequired[str]
    """Version of the GPU driver on the nodes, such as `580` or `580.95.05`; unset: not known."""
    nvme_path: NotRequired[str]
    """Where the nodes' local NVMe is mounted, such as `/mnt/nvme`."""
    fabric: NotRequired[Fabric]
    """Network between the nodes' GPUs; unset: none."""
    taints: NotRequired[Sequence[Taint]]
    """Taints that the nodes carry."""
    allow_replacement: NotRequired[bool]
    """Let an update of `eks` replace nodes that run: the server stops, and its weights are staged again."""
    install: NotRequired[Sequence[Installation]]
    """What the stack installs in a cluster that lacks it: `leaderworkerset`, the controller for servers over several
    nodes. Unset: nothing."""
    usd_per_gpu_hour: NotRequired[float]
    """Price of one GPU in dollars an hour; unset: that of `instance_type`, or the plan states no cost."""


class StagedRepository(TypedDict):
    """Weights to stage: one repository at one revision."""

    repository: str
    """Repository on the model hub, such as `moonshotai/Kimi-K2.5`."""
    allow_unpinned: NotRequired[bool]
    """Accept a branch as revision. A branch can stage different weights on different days."""
    revision: str
    """Full commit of the repository (40 hex digits), or a branch where `allow_unpinned` is true."""
    include: NotRequired[Sequence[str]]
    """Patterns of the files to stage, such as `UD-Q2_K_XL/*.gguf`; unset: all files."""


class Model(TypedDict):
    """The weights: one repository at one revision."""

    repository: str
    """Repository on the model hub, such as `moonshotai/Kimi-K2.5`."""
    allow_unpinned: NotRequired[bool]
    """Accept a branch as revision. A branch can stage different weights on different days."""
    revision: str
    """Full commit of the repository (40 hex digits), or a branch where `allow_unpinned` is true."""
    include: NotRequired[Sequence[str]]
    """Patterns of the files to stage, such as `UD-Q2_K_XL/*.gguf`; unset: all files."""
    draft: NotRequired[StagedRepository]
    """A small model that drafts tokens, which the served model verifies (speculative decoding), staged and verified as
    the model is. Needs `engine.speculative_tokens`. Unset: none."""


class Weights(TypedDict):
    """The volume of the weights."""

    kind: WeightsKind
    """`local`: a PersistentVolume on each node's disk, for nodes with names. `host-path`: a directory of each node.
    `claim`: a PersistentVolumeClaim from a storage class."""
    path: NotRequired[str]
    """Directory on the nodes for `local` and `host-path`; unset: nodes.nvme_path."""
    storage_class: NotRequired[str]
    """Storage class for `claim`; unset: the cluster's default."""
    size: NotRequired[str]
    """Size of the volume, fixed at its creation; unset: derived from what is staged."""
    keep_revisions: NotRequired[int]
    """Number of revisions for which the volume has room."""
    keep_newest: NotRequired[int]
    """Number of this stack's revisions to keep on the volume after a new one serves, including that one. Less than
    `keep_revisions`, because the next revision needs room beside them. Unset: nothing is removed."""
    retain: NotRequired[bool]
    """Keep the volume when the stack is destroyed."""
    cache: NotRequired[bool]
    """Keep what vLLM compiles and tunes at its start in a directory beside the weights, so that the next start with the
    same image need not. Takes 20 GiB of the volume. A release of another image makes a directory of its own, and
    `keep_newest` removes the old one. For vLLM only."""
    verify: NotRequired[Verification]
    """`quick`: small files by hash, large ones by size and times. `full`: every byte, at every start."""
    read_bandwidth: NotRequired[str]
    """Speed at which a node reads its weights, such as `400 MB/s` for shared storage. Determines the time limits of the
    server's start. Unset: 2 GB/s, the speed of a local NVMe disk."""


class Stage(TypedDict):
    """The Job that downloads and verifies the weights, once, before a server starts."""

    image: str
    """Image with Python 3.11 or newer; HEAVYLIFT_STAGE_IMAGE overrides it."""
    sources: NotRequired[Sequence[str]]
    """Sources of the weights, tried in this order: `hub`, `s3://bucket/prefix`, `https://host/path`, or a directory in
    the pod of the Job."""
    native_xet: NotRequired[bool]
    """Fetch whole files with the hub's own client, which uses the Xet protocol if the repository does, instead of byte
    ranges. Files are verified as always; an interrupted file starts again. Untested against a Xet server."""
    lock: NotRequired[str]
    """Path of a weights lock file. Only the files that it lists are staged."""
    draft_lock: NotRequired[str]
    """Path of a weights lock file of `model.draft`. Only the files that it lists are staged."""
    bandwidth: NotRequired[str]
    """Bandwidth to the hub or mirror, such as `10 Gbit/s`, which all nodes of the site share. Determines the Jobs'
    deadline."""
    fan_out: NotRequired[bool]
    """Share one download between the nodes: each node downloads a part of the files and copies the others from other
    nodes. Unset: true if several nodes are named, each has weights of its own, and there is a lock."""
    node_bandwidth: NotRequired[str]
    """Bandwidth between two nodes, such as `100 Gbit/s`, for `fan_out`; unset: 10 Gbit/s."""
    streams: NotRequired[int]
    """Number of parallel connections of each node; unset: adapted to the throughput, 8 to 128."""
    environment: NotRequired[Mapping[str, str]]
    """Additional environment variables of the Job, such as PIP_INDEX_URL or HTTPS_PROXY. No secrets."""
    secret: NotRequired[str]
    """Name of a Secret in the namespace whose keys become environment variables of the stager, such as
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for a mirror; unset: none."""
    service_account: NotRequired[str]
    """Service account of the stager, to which a cloud can grant access to a mirror. With a source in S3, a pod that
    gets no credentials from it is replaced by a new one. Unset: the namespace's default, which needs no rights."""


class Engine(TypedDict):
    """The inference server. Unset values follow from the plan, or are the engine's defaults."""

    name: EngineName
    """`vllm`, `sglang` or `llama.cpp`."""
    version: str
    """Version of the engine in the image. Determines its flags and defaults."""
    image: str
    """Image of the server; HEAVYLIFT_ENGINE_IMAGE overrides it."""
    tensor_parallel: NotRequired[int]
    """GPUs that share each layer."""
    pipeline_parallel: NotRequired[int]
    """Pipeline stages: consecutive groups of layers, each on GPUs of its own."""
    data_parallel: NotRequired[int]
    """Data-parallel ranks: copies of the attention layers, each with its own requests."""
    replicas: NotRequired[int]
    """Number of servers behind the Service, each on nodes of its own."""
    expert_parallel: NotRequired[bool]
    """Distribute whole experts over the GPUs instead of splitting each expert."""
    prefill_context_parallel: NotRequired[int]
    """GPUs that share the tokens of a prompt, each with a KV cache of its own; for models with latent attention."""
    decode_context_parallel: NotRequired[int]
    """GPUs of a tensor-parallel group that share the KV cache of a request."""
    max_model_len: NotRequired[int]
    """Longest request in tokens, prompt and answer; for llama.cpp the tokens of all slots together."""
    max_num_seqs: NotRequired[int]
    """Number of concurrent requests; for llama.cpp the number of slots."""
    max_num_batched_tokens: NotRequired[int]
    """Most tokens that one step of the engine processes."""
    kv_cache_dtype: NotRequired[str]
    """Type of the KV cache, such as `fp8`."""
    gpu_memory_utilization: NotRequired[float]
    """Share of each GPU's memory that the engine may use, above 0 and at most 1."""
    block_size: NotRequired[int]
    """Tokens in one KV cache block: a multiple of 16, as vLLM's kernels require."""
    quantization: NotRequired[str]
    """Quantization method for an unquantized checkpoint; unset: the checkpoint's own."""
    mm_encoder_tp_mode: NotRequired[EncoderMode]
    """`data`: a whole vision encoder on each GPU. `weights`: split like the language model."""
    language_model_only: NotRequired[bool]
    """Serve without the vision encoder."""
    enable_prefix_caching: NotRequired[bool]
    """Reuse the KV cache of prompts with a common beginning."""
    max_loras: NotRequired[int]
    """LoRA adapters that a batch may use; unset: none are served."""
    max_lora_rank: NotRequired[int]
    """Largest rank of an adapter: 1, 8, 16, 32, 64, 128, 256, 320 or 512; unset: 16."""
    speculative_tokens: NotRequired[int]
    """Speculative decoding: tokens that `model.draft` drafts at a time; without it, those that the checkpoint's own
    layers for multi-token prediction (MTP) draft."""
    yarn_factor: NotRequired[float]
    """Stretch the context by so much with YaRN, above 1, as the model's makers document it."""
    yarn_original_context: NotRequired[int]
    """Tokens of the context that YaRN stretches; unset: the model's own maximum."""
    enforce_eager: NotRequired[bool]
    """Run without CUDA graphs and compilation: slower, with less memory."""
    redundant_experts: NotRequired[int]
    """Balance the load of experts with so many copies in each layer, 0 or more; needs `expert_parallel`. Unset: no
    balancing."""
    cpu_offload_gb: NotRequired[float]
    """GiB of the weights of each GPU to keep in host memory. Slow: each step reads them over PCIe."""
    kv_offload: NotRequired[str]
    """Host memory for KV cache blocks that leave the GPUs, so that prompts seen before need no new prefill; of each
    server, or of each of its data-parallel ranks. It is in `/dev/shm` and counts in the pod's memory."""
    max_num_queued_reqs: NotRequired[int]
    """Requests, running and waiting, beyond which a server answers 503, so that clients can try another one. Unset: no
    limit."""
    load_format: NotRequired[LoadFormat]
    """How vLLM reads weights: `fastsafetensors`, `instanttensor` or `runai_streamer`, each of a package that the image
    must have. Unset: vLLM's own reader."""
    expert_offload: NotRequired[bool]
    """llama.cpp: keep the experts in host memory. Slow; for models that do not fit into GPU memory."""
    sleep_idle_seconds: NotRequired[int]
    """llama.cpp: seconds without a request after which the model leaves the memory. The next request loads it again.
    Unset: it stays."""
    served_name: NotRequired[str]
    """Name of the model in clients' requests. Unset: model.repository."""
    host: NotRequired[str]
    """Address that the server listens on: `0.0.0.0`, or `::` in a cluster with IPv6."""
    model_file: NotRequired[str]
    """llama.cpp: file to serve, or its first shard; unset: the one that the lock, `include` or the catalogue names."""
    cpus: NotRequired[int]
    """CPUs that the server requests."""
    memory: NotRequired[str]
    """Memory that the server requests; unset: derived from the plan."""
    drain: NotRequired[int]
    """Seconds that running requests get to finish when a pod terminates, at most 3600. 0: they are aborted."""
    environment: NotRequired[Mapping[str, str]]
    """Additional environment variables of the server. No secrets."""
    extra_args: NotRequired[Sequence[str]]
    """Additional arguments of the engine, passed on unchanged."""


class Security(TypedDict):
    """The user and rights of all pods. By default they meet the Pod Security level `restricted`, but for what a
    directory of the node needs: its volume, and Jobs of the image's own user."""

    profile: NotRequired[SecurityProfile]
    """`restricted`: no root, a read-only root file system, no capabilities, the runtime's seccomp profile. `baseline`:
    the user and file system of the images, without privilege escalation. `none`: no security fields, for clusters that
    set them. Unset: `restricted`; for the Jobs of `weights.kind: host-path` and of user 0, `baseline`."""
    user: NotRequired[int]
    """Numeric user of the pods. 0: root for the Jobs, for storage that only root can write; the server then runs as
    user 2000. Unset: 2000; for the Jobs of `weights.kind: host-path` the image's own, which is usually root, as the
    nodes' directories are root's. `baseline` and `restricted` refuse a `hostPath` volume to any user."""
    group: NotRequired[int]
    """Numeric group of the pods. Kubernetes lets it write to a claim (`fsGroup`) if the storage supports that. Devices
    of AMD GPUs may need the group `render` of the nodes. Unset: the number of the user."""


class Caller(TypedDict):
    """Clients that may call the server: pods, or a range of addresses. Pods and namespace narrow each other."""

    namespace: NotRequired[str]
    """Namespace of the pods. Unset: the stack's own, if `pods` is set."""
    pods: NotRequired[Mapping[str, str]]
    """Labels of the pods. Unset: every pod of the namespace."""
    cidr: NotRequired[str]
    """Addresses outside the cluster, such as `10.0.0.0/16`. Most network plugins match no pod by its address."""


class Network(TypedDict):
    """Who may call the server, and what its pods may reach. The ranks of a server reach one another only, and no pod
    reaches the Jobs: the stack makes NetworkPolicies, which a network plugin of the cluster must enforce."""

    callers: NotRequired[Sequence[Caller]]
    """Clients that may call the server, besides the API server, through which `pulumi up` requests the first token.
    `[]`: none. Unset: every client that has a route to the pods. Components call this key `callers`."""
    media: NotRequired[bool]
    """Let the server connect to any address, for images and videos that requests name by URL. Unset: it reaches its own
    ranks and DNS only, and takes them as data URLs."""


class PodSettings(TypedDict):
    """Additions to pods, for what a cluster asks of every pod."""

    pull_secrets: NotRequired[Sequence[str]]
    """Names of Secrets in the namespace with the credentials of the images' registry."""
    runtime_class: NotRequired[str]
    """RuntimeClass of the pods, such as `nvidia`. Unset: the cluster's default."""
    priority_class: NotRequired[str]
    """PriorityClass of the pods. Unset: the cluster's default."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of the pods, and of the Job, Deployment or LeaderWorkerSet that creates them, such as
    `kueue.x-k8s.io/queue-name`."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of the pods."""
    cpu_limit: NotRequired[int]
    """CPU limit of each container, for a namespace whose quota requires one. Unset: no limit."""
    patch: NotRequired[Mapping[str, Any]]
    """Further fields of the pods' spec, with the names of the Kubernetes API, such as `hostAliases`, or a volume and
    its mount. Objects merge by key; containers, volumes, mounts and environment by name. A field that the program or
    another key sets is refused."""


class Pod(TypedDict):
    """Additions to the pods of the server and of the Jobs."""

    server: NotRequired[PodSettings]
    """The server's pods. A change restarts the server."""
    stage: NotRequired[PodSettings]
    """The pods of the Jobs that stage and prune weights."""


class Metrics(TypedDict):
    """Prometheus metrics, alerts and a dashboard of the server."""

    kind: MetricsKind
    """`pod-monitor`: a PodMonitor for the Prometheus Operator. `annotations`: `prometheus.io/` annotations of the pods,
    for a Prometheus that is configured to follow them; setting it restarts the server."""
    labels: NotRequired[Mapping[str, str]]
    """Labels of the PodMonitor and of the PrometheusRule, by which a Prometheus selects them, such as `release: kube-
    prometheus-stack`."""
    alerts: NotRequired[bool]
    """Make the alerts: a PrometheusRule, or for `annotations` a ConfigMap with a rule file."""
    dashboard: NotRequired[bool]
    """Make a ConfigMap with a Grafana dashboard, which Grafana's sidecar finds by the label `grafana_dashboard`."""
    ttft_seconds: NotRequired[float]
    """Seconds within which requests expect their first token, for the alert on slow ones: a bound of the engine's
    histogram. Unset: 5. llama.cpp does not measure that time."""


class Expose(TypedDict):
    """What of the API clients outside the cluster reach: an HTTPRoute on a Gateway that is there, to these paths only.
    The Gateway terminates TLS. Inside the cluster, the Service stays as it is."""

    gateway: str
    """The Gateway, as `<namespace>/<name>`. It must admit routes of the stack's namespace."""
    hostname: str
    """Host name that clients use. A listener of the Gateway must have it, or none."""
    paths: NotRequired[Sequence[str]]
    """Paths that clients reach: each exactly, or with `/*` at its end with all paths below it. Unset: those of chat and
    text completions, responses, messages, embeddings and the list of models."""


class StackConfig(TypedDict):
    """All `heavylift:` keys of one stack, but for the secrets `hub_token` and `api_key`."""

    cluster: NotRequired[Cluster]
    """The Kubernetes cluster."""
    aws: NotRequired[Aws]
    """The part of AWS with the nodes; unset: the nodes are not in AWS."""
    nodes: NotRequired[Nodes]
    """The nodes that stage and serve."""
    model: Model
    """The weights."""
    weights: Weights
    """The volume of the weights."""
    stage: Stage
    """The Job that downloads and verifies the weights."""
    engine: Engine
    """The inference server."""
    security: NotRequired[Security]
    """The user and rights of all pods."""
    network: NotRequired[Network]
    """Who may call the server, and what its pods may reach."""
    pod: NotRequired[Pod]
    """Additions to the pods."""
    metrics: NotRequired[Metrics]
    """Prometheus metrics, alerts and a dashboard; unset: nothing is made for them."""
    expose: NotRequired[Expose]
    """The paths that a Gateway of the cluster forwards to the server; unset: none."""
