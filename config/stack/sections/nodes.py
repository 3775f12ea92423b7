"""`heavylift:cluster` and `heavylift:nodes`: the cluster, its GPU nodes and the network between them."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, Strict, StrictBool, ValidationInfo, field_validator, model_validator

from config.catalogue import NotInCatalogueError, find_instance
from config.matching import Matching
from config.stack.sections.eks_nodes import Capacity, derived
from config.stack.sections.fields import (
    AbsolutePath,
    Attachment,
    Count,
    Device,
    DnsLabel,
    DriverVersion,
    NodeName,
    Section,
    Text,
)

ZoneId = Annotated[
    str,
    Matching(
        r"[a-z]+\d-az\d",
        "the zone's ID, such as use2-az1: `aws ec2 describe-availability-zones` prints it as ZoneId",
    ),
]


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
    EKS = "eks"


class Installation(StrEnum):
    """What the stack can install in the cluster."""

    LEADER_WORKER_SET = "leaderworkerset"


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
    """`bare-metal`: nodes that are already in the cluster. `eks`: a node group that the stack makes in AWS."""
    names: Sequence[NodeName] = ()
    """Names of the nodes; unset: the only node of the cluster. Not for `eks`, whose nodes are replaced."""
    instance_type: Text | None = None
    """EC2 instance type for `eks`, such as `p5en.48xlarge`. GPU, GPUs per node, driver, NVMe, taints, fabric and price
    follow from it."""
    count: Count | None = None
    """Number of nodes for `eks`."""
    zone: ZoneId | None = None
    """ID of the availability zone for `eks`, such as `use2-az1`; names such as `us-east-2a` differ between accounts."""
    capacity: Capacity | None = None
    """How instances are bought for `eks`; unset: on demand."""
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
    allow_replacement: StrictBool = False
    """Let an update of `eks` replace nodes that run: the server stops, and its weights are staged again."""
    install: Sequence[Installation] = ()
    """What the stack installs in a cluster that lacks it: `leaderworkerset`, the controller for servers over several
    nodes. Unset: nothing."""
    usd_per_gpu_hour: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = None
    """Price of one GPU in dollars an hour; unset: that of `instance_type`, or the plan states no cost."""

    @property
    def total(self) -> int:
        """Number of nodes; on bare metal 1 without names."""
        return self.count or len(self.names) or 1

    @model_validator(mode="before")
    @classmethod
    def _follows_from_instance_type(cls, values: Any) -> Any:
        """Adds what follows from an EKS node group's instance type; `contradictions` refuses to state it again."""
        if isinstance(values, dict) and values.get("kind") == NodeKind.EKS:
            return {**values, **derived(values)}
        return values

    @field_validator("instance_type")
    @classmethod
    def _is_known(cls, name: str | None) -> str | None:
        try:
            return None if name is None else find_instance(name).type
        except NotInCatalogueError as error:
            raise ValueError(f"is not known: {error}") from None

    @field_validator("names", "install")
    @classmethod
    def _are_different(cls, names: Sequence[str]) -> Sequence[str]:
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"has {', '.join(twice)} more than once: expected each once")
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
