"""GPU nodes that are already in the cluster. Pods run only on the nodes that the caller names.

The component does not change the nodes, because deleting a NodePatch after its node would create an empty Node object.
The caller declares the nodes' taints, and pods tolerate them.
"""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi

from components.arguments import Placement, whole_numbers
from config.stack import arguments


class BareMetalGpuNodesArgs(TypedDict):
    """The arguments of `BareMetalGpuNodes`."""

    hostnames: NotRequired[Sequence[str]]
    """Names of the nodes, as `kubectl get nodes` prints them. Unset: any one node."""
    gpu_resource: NotRequired[str | None]
    """Extended resource for GPUs, such as `nvidia.com/gpu`. Unset: no GPUs."""
    taints: NotRequired[Sequence[arguments.Taint]]
    """Taints of the nodes, which the pods tolerate. Unset: none."""
    fabric: NotRequired[arguments.Fabric | None]
    """Network between the GPUs of different nodes. Unset: none."""
    nvme_path: NotRequired[str | None]
    """Mount point of each node's local NVMe, such as `/mnt/nvme`. Unset: unknown."""


class BareMetalGpuNodes(pulumi.ComponentResource):
    """GPU nodes that are already in the cluster, by name."""

    hostnames: pulumi.Output[Sequence[str]]
    """The nodes' names."""
    nodes: pulumi.Output[int]
    """Number of nodes that pods run on."""

    def __init__(self, name: str, args: BareMetalGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:BareMetalGpuNodes", name, {}, opts)
        self.placement = _placement(whole_numbers(args))
        self.hostnames = pulumi.Output.from_input(self.placement["hostnames"])
        self.nodes = pulumi.Output.from_input(self.placement["nodes"])
        self.register_outputs({"hostnames": self.hostnames, "nodes": self.nodes})


def _placement(args: BareMetalGpuNodesArgs) -> Placement:
    """Returns the nodes as the argument `placement` of other components."""
    hostnames = list(args.get("hostnames") or ())
    placement: Placement = {"nodes": len(hostnames) or 1, "hostnames": hostnames, "taints": args.get("taints") or []}
    if gpu_resource := args.get("gpu_resource"):
        placement["gpu_resource"] = gpu_resource
    if fabric := args.get("fabric"):
        placement["fabric"] = fabric
    if nvme_path := args.get("nvme_path"):
        placement["nvme_path"] = nvme_path
    return placement
