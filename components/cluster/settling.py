"""Waits for Kubernetes to remove taints such as `not-ready` from nodes that have just become Ready."""

import time
from collections.abc import Callable, Sequence

from components.cluster.facts import ClusterFacts, NodeFacts

STATE_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
)
"""Taints that Kubernetes puts on a node that is not Ready or is cordoned. Tolerating them would not help."""

SETTLE_SECONDS = 30.0
"""Our own choice: Kubernetes removes these taints within seconds; one that stays longer is a fault."""
LOOK_AGAIN_SECONDS = 0.5


def read_settled(
    read: Callable[[], ClusterFacts], names: Sequence[str], seconds: float = SETTLE_SECONDS
) -> ClusterFacts:
    """Calls `read` until no node in `names` has an outdated taint, for `seconds` at most. Empty `names`: any node."""
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
