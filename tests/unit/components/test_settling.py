"""A node that has just become Ready is waited for; one that keeps the taint is not waited for without end."""

from components.cluster.facts import ClusterFacts, NodeFacts
from components.cluster.settling import read_settled

READY = NodeFacts("h200-0")
SETTLING = NodeFacts("h200-0", taints=[{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}])


class Cluster:
    """Answers one after the other; the last one stays."""

    def __init__(self, *answers: NodeFacts) -> None:
        self._answers = [ClusterFacts(nodes=[node]) for node in answers]
        self.asked = 0

    def read(self) -> ClusterFacts:
        self.asked += 1
        return self._answers[min(self.asked, len(self._answers)) - 1]


def test_a_node_that_is_ready_and_still_tainted_is_read_again_until_it_is_not() -> None:
    cluster = Cluster(SETTLING, SETTLING, READY)
    assert read_settled(cluster.read, ["h200-0"]).nodes == [READY]
    assert cluster.asked == 3


def test_a_taint_that_stays_is_handed_on() -> None:
    cluster = Cluster(SETTLING)
    assert read_settled(cluster.read, [], seconds=0).nodes == [SETTLING]


def test_nothing_is_waited_for_that_does_not_mend_itself_or_is_not_the_stacks() -> None:
    tainted = SETTLING.taints
    silent = NodeFacts("h200-0", not_ready="kubelet stopped", taints=tainted)
    cordoned = NodeFacts("h200-0", cordoned=True, taints=tainted)
    for node, names in ((silent, []), (cordoned, []), (SETTLING, ["another"])):
        cluster = Cluster(node)
        read_settled(cluster.read, names)
        assert cluster.asked == 1
