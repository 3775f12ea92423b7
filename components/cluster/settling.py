"""Waits for nodes that have just become Ready, from which Kubernetes has not yet removed the taint of the old state."""

import time
from collections.abc import Callable, Sequence

from components.cluster.facts import ClusterFacts, NodeFacts

STATE_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)
"""What Kubernetes itself puts on a node that is not Ready or is cordoned: to tolerate it would be no cure."""

SETTLE_SECONDS = 30.0
"""Our own choice: Kubernetes needs seconds, and a taint that stays longer is a fault."""
LOOK_AGAIN_SECONDS = 0.5


def read_settled(
    read: Callable[[], ClusterFacts], names: Sequence[str], seconds: float = SETTLE_SECONDS
) -> ClusterFacts:
    """What `read` returns once no node of these names (none: any node) is settling, or when the time is over."""
    deadline = time.monotonic() + seconds
    facts = read()
    while any(_settling(node) for node in facts.nodes if not names or node.name in names):
        if time.monotonic() > deadline:
            break
        time.sleep(LOOK_AGAIN_SECONDS)
        facts = read()
    return facts


def _settling(node: NodeFacts) -> bool:
    stays = node.not_ready or node.cordoned
    return not stays and any(taint["key"] in STATE_TAINTS for taint in node.taints)
