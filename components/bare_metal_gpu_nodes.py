"""GPU nodes that are already in the cluster: labelled by name, so that this stack's pods land on them.

Labels only. Taints are declared in the stack and become tolerations; nothing else of a node is touched. A name that
does not exist would make the cluster an empty Node object, so the preflight refuses it before this component runs.
"""

from collections.abc import Sequence
from typing import TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import NodePatch

from components.pods.placement import GPU_RESOURCE, Placement
from config.stack.sections import Nodes


class BareMetalGpuNodesArgs(TypedDict):
    """What `BareMetalGpuNodes` needs to know."""

    instance: str
    """Name of the stack; it is part of the label, so that stacks may share a node."""
    nodes: Nodes
    """The nodes, as the stack file has them. Without names nothing is labelled and pods land on any node."""


class BareMetalGpuNodes(pulumi.ComponentResource):
    """Labels the named nodes and yields the Placement that leads pods to them."""

    hostnames: pulumi.Output[Sequence[str]]
    """The nodes that were labelled."""

    def __init__(self, name: str, args: BareMetalGpuNodesArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:BareMetalGpuNodes", name, {}, opts)
        nodes = args["nodes"]
        label = {f"pool.heavylift/{args['instance']}": "true"}
        for node in nodes.names:
            NodePatch(
                f"{name}-{node}",
                metadata={"name": node, "labels": label},
                opts=pulumi.ResourceOptions(parent=self),
            )
        self.placement = Placement(
            node_selector=label if nodes.names else {},
            hostnames=tuple(nodes.names),
            taints=tuple(nodes.taints),
            gpu_resource=GPU_RESOURCE if nodes.gpu else None,
            fabric=nodes.fabric,
            nvme_path=nodes.nvme_path,
        )
        self.hostnames = pulumi.Output.from_input(list(nodes.names))
        self.register_outputs({"hostnames": self.hostnames})
