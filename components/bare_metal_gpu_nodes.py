"""GPU nodes that are already in the cluster: named, so that pods land on them and nowhere else.

Nothing of a node is changed, so there is nothing to undo. (A NodePatch that is removed after its node has gone makes an
empty Node object.) Taints are declared by the caller and become tolerations.
"""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

import pulumi

from components.arguments import Placement, whole_numbers
from config.stack import arguments


class BareMetalGpuNodesArgs(TypedDict):
    """The arguments of `BareMetalGpuNodes`."""

    hostnames: NotRequired[Sequence[str]]
    """Names of the nodes, as `kubectl get nodes` prints them. Unset: pods land on any one node."""
    gpu_resource: NotRequired[str | None]
    """Extended resource under which a pod asks for GPUs, such as `nvidia.com/gpu`. Unset: there are none."""
    taints: NotRequired[Sequence[arguments.Taint]]
    """Taints that the nodes carry; pods tolerate them. Unset: none."""
    fabric: NotRequired[arguments.Fabric | None]
    """Network between the nodes' GPUs. Unset: there is none."""
    nvme_path: NotRequired[str | None]
    """Where each node's local NVMe is mounted, such as `/mnt/nvme`. Unset: not known."""


class BareMetalGpuNodes(pulumi.ComponentResource):
    """GPU nodes that are in the cluster already, by name."""

    hostnames: pulumi.Output[Sequence[str]]
    """The nodes' names."""
    nodes: pulumi.Output[int]
    """How many nodes pods can land on."""

    def __init__(self, name: str, args: BareMetalGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:BareMetalGpuNodes", name, {}, opts)
        self.placement = _placement(whole_numbers(args))
        self.hostnames = pulumi.Output.from_input(self.placement["hostnames"])
        self.nodes = pulumi.Output.from_input(self.placement["nodes"])
        self.register_outputs({"hostnames": self.hostnames, "nodes": self.nodes})


def _placement(args: BareMetalGpuNodesArgs) -> Placement:
    """The nodes as the other components take them."""
    hostnames = list(args.get("hostnames") or ())
    placement: Placement = {"nodes": len(hostnames) or 1, "hostnames": hostnames, "taints": args.get("taints") or []}
    if gpu_resource := args.get("gpu_resource"):
        placement["gpu_resource"] = gpu_resource
    if fabric := args.get("fabric"):
        placement["fabric"] = fabric
    if nvme_path := args.get("nvme_path"):
        placement["nvme_path"] = nvme_path
    return placement
