"""The `heavylift:` keys of a stack file as frozen models.

Every value is validated first. Unknown keys are refused. All errors are reported at once, each with key, value and what
was expected. Does not import Pulumi, so that the planner and the JSON schema can use it.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, Strict, StrictBool, ValidationError, ValidationInfo, field_validator

from config.bandwidth import Bandwidth
from config.engine_name import EngineName
from config.errors import StackError, sentences
from config.quantity import Quantity
from config.stack.fields import (
    AbsolutePath,
    AnySection,
    Attachment,
    Count,
    Device,
    DnsLabel,
    DriverVersion,
    ListenAddress,
    NodeName,
    Repository,
    ResourceName,
    Section,
    Source,
    Text,
)
from config.stack.pod import Pod, Security
from stager.listing import FULL_COMMIT
from stager.streams import MOST_STREAMS


class Cluster(Section):
    """The Kubernetes cluster to deploy to. The current context of kubectl is never used implicitly."""

    kubeconfig: Text | None = None
    """Path of the kubeconfig file; HEAVYLIFT_KUBECONFIG overrides it."""
    context: Text | None = None
    """Context within that file; HEAVYLIFT_KUBE_CONTEXT overrides it."""
    namespace: DnsLabel = "heavylift"
    """Namespace for all objects. Created if it does not exist, and kept on destroy."""


class NodeKind(StrEnum):
    """Where the GPU nodes come from."""

    BARE_METAL = "bare-metal"


class FabricKind(StrEnum):
    """Network between GPU nodes that the communication library uses without sockets."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    EFA = "efa"


class PodNetwork(StrEnum):
    """Network on which the ranks of a group find one another before they use the fabric."""

    POD = "pod"
    HOST = "host"


class GpuDirect(StrEnum):
    """Greatest distance between GPU and network card at which they exchange data without host memory.

    The names are those of NCCL_NET_GDR_LEVEL (docs.nvidia.com/deeplearning/nccl, environment variables).
    """

    OFF = "LOC"
    ONE_SWITCH = "PIX"
    SWITCHES = "PXB"
    HOST_BRIDGE = "PHB"
    ANYWHERE = "SYS"


class Fabric(Section):
    """The network between the nodes' GPUs, as its device plugin advertises it."""

    kind: FabricKind
    """`infiniband`, `roce` (RDMA over Ethernet, RoCE v2) or `efa`."""
    resource: Text
    """Extended resource of the device plugin, such as `rdma/ib`."""
    count: Count
    """Devices of that resource on each node."""
    devices: Sequence[Device] = ()
    """RDMA devices to use, such as `mlx5_0`; unset: all devices of the pod. Name them if a node has
    others, for example for storage."""
    network: PodNetwork = PodNetwork.POD
    """Network on which the ranks find one another. `pod`: the cluster's. `host`: the node's."""
    interface: Device | None = None
    """Interface of that network, such as `bond0`; unset: `eth0`, the interface of a pod. Required with `host`."""
    attachments: Sequence[Attachment] = ()
    """Secondary networks of each pod (NetworkAttachmentDefinitions of Multus), if the fabric's devices need one."""
    gpu_direct: GpuDirect | None = None
    """Distance up to which a GPU and a network card exchange data directly: `LOC` (never), `PIX`, `PXB`, `PHB` or
    `SYS`; unset: the communication library decides."""
    topology_label: Text | None = None
    """Node label that names the part of the fabric that a node is on. Each group then runs on one part, alone. Unset:
    groups may share."""


class TaintEffect(StrEnum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class Taint(Section):
    """A taint of the nodes, which stager and server tolerate."""

    key: Text
    """Key of the taint, such as `nvidia.com/gpu`."""
    value: str | None = None
    """Its value; unset tolerates any."""
    effect: TaintEffect | None = None
    """Its effect; unset tolerates every one."""


class Nodes(Section):
    """The nodes that stage and serve."""

    kind: NodeKind = NodeKind.BARE_METAL
    """`bare-metal`: nodes that are already in the cluster."""
    names: Sequence[NodeName] = ()
    """Names of the nodes; unset: the only node of the cluster."""
    gpu: Text | None = None
    """GPU as the catalogue names it, such as `h200`; unset: no GPU is used."""
    gpus_per_node: Annotated[int, Strict(), Field(ge=0, validate_default=True)] = 0
    """GPUs of each node that this stack may use."""
    driver: DriverVersion | None = None
    """Version of the GPU driver on the nodes, such as `580` or `580.95.05`; unset: not known."""
    nvme_path: AbsolutePath | None = None
    """Where the nodes' local NVMe is mounted, such as `/mnt/nvme`."""
    fabric: Fabric | None = None
    """Network between the nodes' GPUs; unset: none."""
    taints: Sequence[Taint] = ()
    """Taints that the nodes carry."""
    usd_per_gpu_hour: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = None
    """Price of one GPU in dollars an hour; unset: the plan states no cost."""

    @property
    def count(self) -> int:
        """Number of nodes; 1 without names."""
        return len(self.names) or 1

    @field_validator("names")
    @classmethod
    def _are_different(cls, names: Sequence[str]) -> Sequence[str]:
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"has {', '.join(twice)} more than once: expected each node once")
        return names

    @field_validator("gpus_per_node")
    @classmethod
    def _goes_with_gpu(cls, count: int, info: ValidationInfo) -> int:
        gpu = info.data.get("gpu")
        if gpu is not None and count == 0:
            raise ValueError(f"is too few of nodes.gpu '{gpu}': expected the GPUs of each node to be taken, such as 8")
        if "gpu" in info.data and gpu is None and count > 0:
            raise ValueError("has no meaning without nodes.gpu: expected their kind there, such as h200")
        return count


class Model(Section):
    """The weights: one repository at one revision."""

    repository: Repository
    """Repository on the model hub, such as `moonshotai/Kimi-K2.5`. The server serves under this name."""
    allow_unpinned: StrictBool = False
    """Accept a branch as revision. A branch can stage different weights on different days."""
    revision: Text
    """Full commit of the repository (40 hex digits), or a branch where `allow_unpinned` is true."""
    include: Sequence[Text] = ()
    """Patterns of the files to stage, such as `UD-Q2_K_XL/*.gguf`; unset: all files."""

    @field_validator("revision")
    @classmethod
    def _is_pinned(cls, revision: str, info: ValidationInfo) -> str:
        if info.data.get("allow_unpinned") is False and not FULL_COMMIT.fullmatch(revision):
            raise ValueError("is not a full commit: expected 40 hex digits, or set allow_unpinned: true")
        return revision


class WeightsKind(StrEnum):
    """Kind of volume for the weights."""

    LOCAL = "local"
    HOST_PATH = "host-path"
    CLAIM = "claim"


class Verification(StrEnum):
    """How much of the weights the verifier reads before each start of the server."""

    QUICK = "quick"
    FULL = "full"


class Weights(Section):
    """The volume of the weights."""

    kind: WeightsKind
    """`local`: a PersistentVolume on the node's disk. `host-path`: a directory of the node. `claim`: a
    PersistentVolumeClaim from a storage class."""
    path: AbsolutePath | None = None
    """Directory on the nodes for `local` and `host-path`; unset: nodes.nvme_path."""
    storage_class: Text | None = None
    """Storage class for `claim`; unset: the cluster's default."""
    size: Quantity | None = None
    """Size of the volume, fixed at its creation; unset: derived from what is staged."""
    keep_revisions: Count = 2
    """Number of revisions for which the volume has room."""
    keep_newest: Count | None = None
    """Number of this stack's revisions to keep on the volume after a new one serves, including that one. Less than
    `keep_revisions`, because the next revision needs room beside them. Unset: nothing is removed."""
    retain: StrictBool = True
    """Keep the volume when the stack is destroyed."""
    verify: Verification = Verification.QUICK
    """`quick`: small files by hash, large ones by size and times. `full`: every byte, at every start."""
    read_bandwidth: Bandwidth | None = None
    """Speed at which a node reads its weights, such as `400 MB/s` for shared storage. Determines the time limits of the
    server's start. Unset: 2 GB/s, the speed of a local NVMe disk."""

    @field_validator("keep_newest")
    @classmethod
    def _leaves_room(cls, keep_newest: int | None, info: ValidationInfo) -> int | None:
        room = info.data.get("keep_revisions")
        if keep_newest is not None and room is not None and keep_newest >= room:
            raise ValueError(
                f"leaves no room for the next revision with heavylift:weights.keep_revisions {room}: expected fewer; "
                f"lower it, or raise keep_revisions to {keep_newest + 1}, for which the volume must be larger"
            )
        return keep_newest

    @field_validator("retain")
    @classmethod
    def _can_be_deleted(cls, retain: bool, info: ValidationInfo) -> bool:
        kind = info.data.get("kind")
        if not retain and kind in (WeightsKind.LOCAL, WeightsKind.HOST_PATH):
            raise ValueError(f"has no meaning for kind {kind}: a node's files are never deleted; leave it out")
        return retain

    @field_validator("storage_class")
    @classmethod
    def _has_a_class(cls, storage_class: str | None, info: ValidationInfo) -> str | None:
        if storage_class is not None and info.data.get("kind") not in (WeightsKind.CLAIM, None):
            raise ValueError(f"has no meaning for kind {info.data['kind']}: expected it with kind claim only")
        return storage_class


class Stage(Section):
    """The Job that downloads and verifies the weights, once, before a server starts."""

    image: Text
    """Image with Python 3.11 or newer; HEAVYLIFT_STAGE_IMAGE overrides it."""
    sources: Annotated[Sequence[Source], Field(min_length=1)] = ("hub",)
    """Sources of the weights, tried in this order: `hub`, `s3://bucket/prefix`, `https://host/path`, or a directory in
    the pod of the Job."""
    native_xet: bool = False
    """Fetch whole files with the hub's own client, which uses the Xet protocol if the repository does, instead of byte
    ranges. Files are verified as always; an interrupted file starts again. Untested against a Xet server."""
    lock: Text | None = None
    """Path of a weights lock file. Only the files that it lists are staged."""
    bandwidth: Bandwidth | None = None
    """Bandwidth to the hub or mirror, such as `10 Gbit/s`, which all nodes of the site share. Determines the Jobs'
    deadline."""
    fan_out: StrictBool | None = None
    """Share one download between the nodes: each node downloads a part of the files and copies the others from other
    nodes. Unset: true if several nodes are named, each has weights of its own, and there is a lock."""
    node_bandwidth: Bandwidth | None = None
    """Bandwidth between two nodes, such as `100 Gbit/s`, for `fan_out`; unset: 10 Gbit/s."""
    streams: Annotated[int, Strict(), Field(ge=1, le=MOST_STREAMS)] | None = None
    """Number of parallel connections of each node; unset: adapted to the throughput, 8 to 128."""
    environment: Mapping[str, str] = {}
    """Additional environment variables of the Job, such as PIP_INDEX_URL or HTTPS_PROXY. No secrets."""
    secret: ResourceName | None = None
    """Name of a Secret in the namespace whose keys become environment variables of the stager, such as
    AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for a mirror; unset: none."""
    service_account: ResourceName | None = None
    """Service account of the Job, to which a cloud can grant access to a mirror; unset: the namespace's default, which
    needs no rights."""


class EncoderMode(StrEnum):
    """How vLLM distributes a vision encoder over tensor-parallel GPUs."""

    DATA = "data"
    WEIGHTS = "weights"


class Engine(Section):
    """The inference server. Unset values follow from the plan, or are the engine's defaults."""

    name: EngineName
    """`vllm` or `llama.cpp`."""
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
    """Speculative decoding: tokens that the checkpoint's own layers for multi-token prediction (MTP) draft."""
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
    expert_offload: StrictBool = False
    """llama.cpp: keep the experts in host memory. Slow; for models that do not fit into GPU memory."""
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


class StackConfig(Section):
    """All `heavylift:` keys of one stack, but for the secret `heavylift:hub_token`."""

    cluster: Cluster = Cluster()
    """The Kubernetes cluster."""
    nodes: Nodes = Nodes()
    """The nodes that stage and serve."""
    model: Model
    """The weights."""
    weights: Weights
    """The volume of the weights."""
    stage: Stage
    """The Job that downloads and verifies the weights."""
    engine: Engine
    """The inference server."""
    security: Security = Security()
    """The user of the Jobs' pods."""
    pod: Pod = Pod()
    """Additions to the pods."""

    @classmethod
    def parse(cls, sections: Mapping[str, Any]) -> Self:
        """The checked configuration from plain values, as a stack file has them, without the `heavylift:` prefix.

        Raises StackError with every fault.
        """
        faults: list[str] = []
        try:
            stack = cls.model_validate(sections)
        except ValidationError as error:
            faults += sentences(error, cls)
        faults += _contradictions(sections)
        if faults:
            raise StackError(faults)
        return stack

    @property
    def weights_path(self) -> str | None:
        """Directory on the nodes under which weights are staged; None for a claim."""
        return None if self.weights.kind is WeightsKind.CLAIM else self.weights.path or self.nodes.nvme_path

    @property
    def fan_out(self) -> bool:
        """Whether the nodes share one download."""
        if self.stage.fan_out is not None:
            return self.stage.fan_out
        return _may_fan_out(self.nodes, self.weights, self.stage)

    @property
    def staging_nodes(self) -> int:
        """How many nodes bring the weights over the site's line, each to a volume of its own."""
        return 1 if self.weights.kind is WeightsKind.CLAIM else max(1, len(self.nodes.names))


def _contradictions(sections: Mapping[str, Any]) -> Iterator[str]:
    """Faults between keys of different objects, and with the catalogue: of every object without a fault of its own."""
    nodes = _sound(Nodes, sections.get("nodes", {}))
    weights = _sound(Weights, sections.get("weights"))
    stage = _sound(Stage, sections.get("stage"))
    security = _sound(Security, sections.get("security", {}))
    if security and weights:
        yield from _security_contradictions(security, weights)
    if nodes:
        yield from _fabric_contradictions(nodes.fabric)
    if nodes and weights:
        yield from _volume_contradictions(nodes, weights)
    if stage:
        yield from _source_contradictions(stage)
    if nodes and weights and stage:
        yield from _fan_out_contradictions(nodes, weights, stage)


def _fan_out_contradictions(nodes: Nodes, weights: Weights, stage: Stage) -> Iterator[str]:
    key = "heavylift:stage.fan_out: is true"
    if not stage.fan_out:
        if stage.node_bandwidth and (stage.fan_out is False or not _may_fan_out(nodes, weights, stage)):
            yield (
                f"heavylift:stage.node_bandwidth: '{stage.node_bandwidth}' has no meaning where nodes do not share a "
                "download: expected it to be left out"
            )
        return
    if len(nodes.names) < 2:
        yield f"{key} with {len(nodes.names)} names in nodes.names: expected two or more, which share a download"
    if weights.kind is WeightsKind.CLAIM:
        yield f"{key} and weights.kind is claim: expected host-path, where each node has weights of its own"
    if stage.lock is None:
        yield f"{key} without stage.lock: expected a lock, by whose hashes the nodes judge what they get"


def _may_fan_out(nodes: Nodes, weights: Weights, stage: Stage) -> bool:
    return len(nodes.names) > 1 and weights.kind is not WeightsKind.CLAIM and stage.lock is not None


def _sound(section: type[AnySection], values: Any) -> AnySection | None:
    try:
        return section.model_validate(values)
    except ValidationError:
        return None


def _fabric_contradictions(fabric: Fabric | None) -> Iterator[str]:
    if fabric and fabric.network is PodNetwork.HOST and fabric.interface is None:
        yield (
            "heavylift:nodes.fabric.interface: is missing: network 'host' expects the name of the nodes' interface, "
            "such as bond0"
        )


def _volume_contradictions(nodes: Nodes, weights: Weights) -> Iterator[str]:
    kind = weights.kind
    if kind is WeightsKind.CLAIM and weights.path is not None:
        yield f"heavylift:weights.path: '{weights.path}' has no meaning for kind claim: expected it to be left out"
    if kind is not WeightsKind.CLAIM and not (weights.path or nodes.nvme_path):
        yield (
            f"heavylift:weights.path: is missing: kind {kind} expects a directory here or in heavylift:nodes.nvme_path"
        )
    if kind is WeightsKind.LOCAL and (nodes.count != 1 or not nodes.names):
        yield (
            f"heavylift:weights.kind: 'local' with {len(nodes.names)} nodes: expected one name in nodes.names, "
            "since its claim ties every pod to one node; use host-path for several"
        )


def _security_contradictions(security: Security, weights: Weights) -> Iterator[str]:
    if weights.kind is WeightsKind.HOST_PATH and security.group is not None and security.user is None:
        yield (
            f"heavylift:security.group: {security.group} has no meaning for kind host-path without a user: expected "
            "heavylift:security.user too, or neither"
        )


def _source_contradictions(stage: Stage) -> Iterator[str]:
    if stage.native_xet and stage.sources[0] != "hub":
        yield (
            f"heavylift:stage.native_xet: is true, and the first of stage.sources is {stage.sources[0]}: expected hub "
            "first, since its client takes every file that it can"
        )
