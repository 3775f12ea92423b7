"""The nodes that pods run on, as pod specs need them.

All kinds of nodes yield the same placement: bare metal with the nodes' names, a cloud's node group with a count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import pulumi

from components import arguments
from components.arguments import read_section
from config.stack.sections import Fabric, Taint

HOSTNAME_LABEL = "kubernetes.io/hostname"
"""Label that binds a pod or a volume to one node. The kubelet sets it."""


@dataclass(frozen=True)
class PodPlacement:
    """The nodes that pods run on. Stager and server use the same placement, so that they run on the same nodes."""

    nodes: int = 1
    """Number of nodes."""
    hostnames: Sequence[str] = ()
    """Names of the nodes. Pods run only on these, with one stager on each. Empty: unknown before the cluster exists."""
    candidates: Sequence[str] = ()
    """Names of the nodes that pods may choose from if `hostnames` is empty. Empty: any node."""
    node_selector: pulumi.Input[Mapping[str, str]] = field(default_factory=dict)
    """Labels of the nodes. Empty: any node."""
    taints: Sequence[Taint] = ()
    """Taints of the nodes, which the pods tolerate."""
    gpu_resource: str | None = None
    """Extended resource for GPUs. None: no GPUs."""
    fabric: Fabric | None = None
    """Network between the GPUs of different nodes. None: none."""
    nvme_path: str | None = None
    """Mount point of each node's local NVMe. None: unknown."""

    @classmethod
    def of(cls, args: arguments.Placement) -> Self:
        """Reads the placement from a component's argument. Raises pulumi.RunError if it is not valid."""
        hostnames, fabric = args.get("hostnames") or (), args.get("fabric")
        if hostnames and len(hostnames) != args["nodes"]:
            raise pulumi.RunError(
                f"placement.nodes: is {args['nodes']}, and placement.hostnames has {len(hostnames)} names: expected "
                "the same number; nothing was created"
            )
        return cls(
            nodes=args["nodes"],
            hostnames=tuple(hostnames),
            candidates=tuple(args.get("candidates") or ()),
            node_selector=args.get("node_selector") or {},
            taints=tuple(read_section(Taint, "taints", taint) for taint in args.get("taints") or ()),
            gpu_resource=args.get("gpu_resource"),
            fabric=read_section(Fabric, "fabric", fabric) if fabric else None,
            nvme_path=args.get("nvme_path"),
        )

    @property
    def is_group(self) -> bool:
        """Whether labels or a number say which nodes these are, so that one may be replaced by another with an empty
        disk."""
        selects = bool(self.node_selector) if isinstance(self.node_selector, Mapping) else True
        return not self.hostnames and (selects or self.nodes > 1)

    def scheduling(self, hostname: str | None = None) -> dict[str, Any]:
        """Returns the scheduling fields of a pod spec: any of these nodes, or only `hostname`."""
        fields = {
            "node_selector": self._selector(hostname),
            "affinity": {} if hostname else only_on(self.hostnames or self.candidates),
            "tolerations": [_toleration(taint) for taint in self.taints],
        }
        return {name: value for name, value in fields.items() if isinstance(value, pulumi.Output) or value}

    def _selector(self, hostname: str | None) -> pulumi.Input[Mapping[str, str]]:
        one = {HOSTNAME_LABEL: hostname} if hostname else {}
        if isinstance(self.node_selector, Mapping):
            return {**self.node_selector, **one}
        return pulumi.Output.all(self.node_selector).apply(lambda labels: {**labels[0], **one})


def only_on(hostnames: Sequence[str]) -> dict[str, Any]:
    """Returns the affinity of a pod that runs on one of these nodes. Empty `hostnames`: any node."""
    if not hostnames:
        return {}
    among = {"key": HOSTNAME_LABEL, "operator": "In", "values": sorted(hostnames)}
    terms = [{"match_expressions": [among]}]
    return {"node_affinity": {"required_during_scheduling_ignored_during_execution": {"node_selector_terms": terms}}}


def _toleration(taint: Taint) -> dict[str, str]:
    operator = {"operator": "Exists"} if taint.value is None else {"operator": "Equal", "value": taint.value}
    effect = {} if taint.effect is None else {"effect": str(taint.effect)}
    return {"key": taint.key, **operator, **effect}
