"""Where pods go: the nodes that a node group yields, as pod specs need them.

Node groups differ in how nodes come to be, by names of bare metal or by a count of a cloud, and in nothing after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pulumi

from components import arguments
from components.arguments import read_section
from config.stack.sections import Fabric, Taint

HOSTNAME_LABEL = "kubernetes.io/hostname"
"""Label by which a pod or a volume is tied to one node; the kubelet sets it."""


@dataclass(frozen=True)
class PodPlacement:
    """The nodes that pods go to. Stager and server use the same ones, so that they land together."""

    nodes: int = 1
    """How many there are."""
    hostnames: Sequence[str] = ()
    """Their names: pods run on no other node, and one stager runs on each. Empty: not known before there is a
    cluster."""
    node_selector: pulumi.Input[Mapping[str, str]] = field(default_factory=dict)
    """Labels that the nodes carry; empty: any node."""
    taints: Sequence[Taint] = ()
    """Taints of the nodes, which pods must tolerate."""
    gpu_resource: str | None = None
    """Extended resource under which a pod asks for GPUs; None: there are none."""
    fabric: Fabric | None = None
    """Network between the GPUs of different nodes; None: there is none."""
    nvme_path: str | None = None
    """Where each node's local NVMe is mounted; None: not known."""

    @classmethod
    def of(cls, args: arguments.Placement) -> Self:
        """The placement from a component's argument. Raises pulumi.RunError with what is wrong with it."""
        hostnames, fabric = args.get("hostnames") or (), args.get("fabric")
        if hostnames and len(hostnames) != args["nodes"]:
            raise pulumi.RunError(
                f"placement.nodes: is {args['nodes']}, and placement.hostnames has {len(hostnames)} names: expected "
                "the same number; nothing was created"
            )
        return cls(
            nodes=args["nodes"],
            hostnames=tuple(hostnames),
            node_selector=args.get("node_selector") or {},
            taints=tuple(read_section(Taint, "taints", taint) for taint in args.get("taints") or ()),
            gpu_resource=args.get("gpu_resource"),
            fabric=read_section(Fabric, "fabric", fabric) if fabric else None,
            nvme_path=args.get("nvme_path"),
        )

    def scheduling(self, hostname: str | None = None) -> dict[str, Any]:
        """The scheduling fields of a pod spec: on these nodes, or on the one named."""
        fields = {
            "node_selector": self._selector(hostname),
            "affinity": {} if hostname else only_on(self.hostnames),
            "tolerations": [_toleration(taint) for taint in self.taints],
        }
        return {name: value for name, value in fields.items() if isinstance(value, pulumi.Output) or value}

    def _selector(self, hostname: str | None) -> pulumi.Input[Mapping[str, str]]:
        one = {HOSTNAME_LABEL: hostname} if hostname else {}
        if isinstance(self.node_selector, Mapping):
            return {**self.node_selector, **one}
        return pulumi.Output.all(self.node_selector).apply(lambda labels: {**labels[0], **one})


def only_on(hostnames: Sequence[str]) -> dict[str, Any]:
    """The affinity of a pod that runs on one of these nodes; empty: on any."""
    if not hostnames:
        return {}
    among = {"key": HOSTNAME_LABEL, "operator": "In", "values": sorted(hostnames)}
    terms = [{"match_expressions": [among]}]
    return {"node_affinity": {"required_during_scheduling_ignored_during_execution": {"node_selector_terms": terms}}}


def _toleration(taint: Taint) -> dict[str, str]:
    operator = {"operator": "Exists"} if taint.value is None else {"operator": "Equal", "value": taint.value}
    effect = {} if taint.effect is None else {"effect": str(taint.effect)}
    return {"key": taint.key, **operator, **effect}
