"""Where pods go: the value that a group of nodes yields and everything else takes.

Groups of nodes differ in how they make one (names of bare metal, a group that a cloud starts), and in nothing after it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from config.stack.sections import Fabric, Taint

HOSTNAME_LABEL = "kubernetes.io/hostname"
"""Label by which a pod or a volume is tied to one node; the kubelet sets it."""


@dataclass(frozen=True)
class Placement:
    """The nodes of one stack, as pods see them. Stager and server use the same one, so that they land together."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    """Labels that the nodes carry; empty: any node."""
    hostnames: Sequence[str] = ()
    """The nodes, where they are known before the cluster is: pods run on no other, and one stager runs on each."""
    taints: Sequence[Taint] = ()
    """Taints of the nodes, which pods must tolerate."""
    gpu_resource: str | None = None
    """Extended resource under which a pod asks for GPUs; None: there are none."""
    fabric: Fabric | None = None
    """Network between the GPUs of different nodes; None: there is none."""
    nvme_path: str | None = None
    """Where each node's local NVMe is mounted; None: not known."""

    def scheduling(self, hostname: str | None = None) -> dict[str, Any]:
        """The scheduling fields of a pod spec: on these nodes, or on the one named."""
        selector = dict(self.node_selector) | ({HOSTNAME_LABEL: hostname} if hostname else {})
        fields = {
            "node_selector": selector,
            "affinity": {} if hostname else only_on(self.hostnames),
            "tolerations": [_toleration(taint) for taint in self.taints],
        }
        return {name: value for name, value in fields.items() if value}


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
