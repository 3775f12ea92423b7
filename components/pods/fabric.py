"""What the pods of a group need to talk over the fabric: devices, environment, and a check before the engine starts.

InfiniBand and EFA differ here and nowhere else. Both get their devices from a device plugin by resource, never by a
host path; the ranks first meet over TCP, on an interface that is named so that nobody binds to loopback.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from config.catalogue import CollectiveLibrary
from config.stack.sections import Fabric, FabricKind, PodNetwork

CHECK = Path(__file__).parent.parent / "in_pod" / "fabric_check.py"

EXCLUSIVE_TOPOLOGY = "leaderworkerset.sigs.k8s.io/exclusive-topology"

_POD_INTERFACE = "eth0"
"""The interface of the cluster's network in every pod, as the container runtime names it."""


def environment(fabric: Fabric | None) -> dict[str, str]:
    """Environment of NCCL, or of RCCL, which reads the same names; None: sockets over the pods' own network.

    NCCL_NET makes NCCL fail where it would otherwise fall back on sockets without a word. Names and values:
    docs.nvidia.com/deeplearning/nccl/user-guide, environment variables; the AWS EFA guide for FI_PROVIDER.
    """
    interface = (fabric and fabric.interface) or _POD_INTERFACE
    sockets = {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": interface}
    if fabric is None:
        return sockets
    if fabric.kind is FabricKind.EFA:
        return sockets | {"FI_PROVIDER": "efa"}
    # Without the equals sign mlx5_1 would stand for mlx5_10 too.
    devices = {"NCCL_IB_HCA": "=" + ",".join(fabric.devices)} if fabric.devices else {}
    distance = {"NCCL_NET_GDR_LEVEL": str(fabric.gpu_direct)} if fabric.gpu_direct else {}
    return sockets | {"NCCL_IB_DISABLE": "0", "NCCL_NET": "IB"} | devices | distance


def resources(fabric: Fabric | None) -> dict[str, str]:
    """The fabric's part of a container's resource limits."""
    return {fabric.resource: str(fabric.count)} if fabric else {}


def capabilities(fabric: Fabric | None) -> dict[str, Any]:
    """The fabric's part of a container's security context: locked memory for transfers without the processor.

    It helps a process that runs as root. For others the container runtime's own limit (LimitMEMLOCK of containerd)
    decides, which no pod can set; the check reads it.
    """
    return {"capabilities": {"add": ["IPC_LOCK"]}} if fabric else {}


def pod_network(fabric: Fabric | None) -> dict[str, Any]:
    """The fabric's part of a pod's spec."""
    if fabric is None or fabric.network is PodNetwork.POD:
        return {}
    return {"host_network": True, "dns_policy": "ClusterFirstWithHostNet"}


def annotations(fabric: Fabric | None) -> dict[str, str]:
    """The fabric's part of a pod's annotations."""
    attachments = fabric.attachments if fabric else ()
    return {"k8s.v1.cni.cncf.io/networks": ",".join(attachments)} if attachments else {}


def check_command(fabric: Fabric | None, mount: str, library: str | None = None) -> list[str] | None:
    """The command that checks the fabric from within a pod; None: there is nothing to check."""
    if fabric is None or fabric.kind is not FabricKind.INFINIBAND:
        return None
    named = [f"--device={device}" for device in fabric.devices]
    other = [f"--library={library}"] if library not in (None, CollectiveLibrary.NCCL) else []
    return ["python3", f"{mount}/{CHECK.name}", "--resource", fabric.resource, *named, *other]


def exclusive_topology(fabric: Fabric | None) -> Mapping[str, str]:
    """Annotations of a LeaderWorkerSet whose groups each have one part of the fabric to themselves."""
    if fabric is None or fabric.topology_label is None:
        return {}
    return {EXCLUSIVE_TOPOLOGY: fabric.topology_label}
