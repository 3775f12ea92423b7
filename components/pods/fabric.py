"""The fabric's part of a group's pods: devices, environment, and a check before the engine starts.

Only this module distinguishes InfiniBand, RoCE and EFA. All get devices from a device plugin as a resource, never as a
host path. The ranks connect over TCP first; the environment names the interface, so that no rank binds to loopback.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.catalogue import CollectiveLibrary
from config.stack.sections import Fabric, FabricKind, PodNetwork

CHECK = Path(__file__).parent.parent / "in_pod" / "fabric_check.py"

EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"

_EFA_HUGE_PAGES = "5120Mi"

_POD_INTERFACE = "eth0"
"""The pod network's interface, as the container runtime names it in every pod."""


def environment(fabric: Fabric | None) -> dict[str, str]:
    """Returns the environment of NCCL or RCCL, which read the same names. None: sockets over the pod network.

    InfiniBand and RoCE are one transport of NCCL. Since 2.21, NCCL chooses the RoCE v2 address of a device itself; an
    index differs from pod to pod (github.com/NVIDIA/nccl/issues/1573).

    With NCCL_NET, NCCL fails instead of silently falling back to sockets. Names and values:
    docs.nvidia.com/deeplearning/nccl/user-guide, environment variables; the AWS EFA guide for FI_PROVIDER.
    """
    interface = (fabric and fabric.interface) or _POD_INTERFACE
    sockets = {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    if fabric is None:
        return sockets
    if fabric.kind is FabricKind.EFA:
        return sockets | {"FI_PROVIDER": "efa"}
    # Without the equals sign, mlx5_1 would also match mlx5_10.
    devices = {"NCCL_IB_HCA": "=" + ",".join(fabric.devices)} if fabric.devices else {}
    distance = {"NCCL_NET_GDR_LEVEL": str(fabric.gpu_direct)} if fabric.gpu_direct else {}
    return sockets | {"NCCL_IB_DISABLE": "0", "NCCL_NET": "IB"} | devices | distance


def resources(fabric: Fabric | None) -> dict[str, str]:
    """Returns the fabric's part of a container's resource limits.

    libfabric keeps its buffers for EFA in huge pages, of which the node's image reserves some
    (github.com/awslabs/awsome-distributed-ai, nccl-tests.yaml).
    """
    if fabric is None:
        return {}
    huge_pages = {"hugepages-2Mi": _EFA_HUGE_PAGES} if fabric.kind is FabricKind.EFA else {}
    return {fabric.resource: str(fabric.count)} | huge_pages


def pod_network(fabric: Fabric | None) -> dict[str, Any]:
    """Returns the fabric's part of a pod's spec."""
    if fabric is None or fabric.network is PodNetwork.POD:
        return {}
    return {"host_network": True, "dns_policy": "ClusterFirstWithHostNet"}


def annotations(fabric: Fabric | None) -> dict[str, str]:
    """Returns the fabric's part of a pod's annotations."""
    attachments = fabric.attachments if fabric else ()
    return {"k8s.v1.cni.cncf.io/networks": ",".join(attachments)} if attachments else {}


def check_command(fabric: Fabric | None, mount: str, library: str | None = None) -> list[str] | None:
    """Returns the command that checks the fabric from within a pod. None: nothing to check."""
    if fabric is None:
        return None
    named = [f"--device={device}" for device in fabric.devices]
    kind = [f"--kind={fabric.kind}"] if fabric.kind is not FabricKind.INFINIBAND else []
    other = [f"--library={library}"] if library not in (None, CollectiveLibrary.NCCL) else []
    count = [f"--count={fabric.count}"] if fabric.kind is FabricKind.EFA else []
    return ["python3", f"{mount}/{CHECK.name}", "--resource", fabric.resource, *kind, *count, *named, *other]


def exclusive_topology(fabric: Fabric | None) -> Mapping[str, str]:
    """Returns annotations of a LeaderWorkerSet that give each group one part of the fabric for itself."""
    if fabric is None or fabric.topology_label is None:
        return {}
    return {EXCLUSIVE_TOPOLOGY: fabric.topology_label}
