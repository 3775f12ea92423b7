"""GPU nodes that are already in the cluster: named by the stack, so that its pods land on them and nowhere else.

Nothing of a node is changed, so there is nothing to undo. (A NodePatch that is removed after its node has gone makes an
empty Node object.) Taints are declared in the stack and become tolerations.
"""

from collections.abc import Sequence
from typing import TypedDict

import pulumi

from components.pods.placement import Placement
from config.catalogue import find_gpu
from config.stack.sections import Nodes


class BareMetalGpuNodesArgs(TypedDict):
    """What `BareMetalGpuNodes` needs to know."""

    nodes: Nodes
    """The nodes, as the stack file has them. Without names pods land on any node."""


class BareMetalGpuNodes(pulumi.ComponentResource):
    """The named nodes, and the Placement that leads pods to them."""

    hostnames: pulumi.Output[Sequence[str]]
    """The nodes by name."""

    def __init__(self, name: str, args: BareMetalGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:BareMetalGpuNodes", name, {}, opts)
        nodes = args["nodes"]
        self.placement = Placement(
            hostnames=tuple(nodes.names),
            taints=tuple(nodes.taints),
            gpu_resource=find_gpu(nodes.gpu).vendor.resource if nodes.gpu else None,
            fabric=nodes.fabric,
            nvme_path=nodes.nvme_path,
        )
        self.hostnames = pulumi.Output.from_input(list(nodes.names))
        self.register_outputs({"hostnames": self.hostnames})
