"""How long nobody was answered, by the pods of each poll."""

from typing import Any

import pytest

from components.rollout.pod_report import PodReport, report
from components.rollout.silence import Silence
from tests.unit.components.recorded_pods import loading, recorded_pod


def pod(name: str, version: str = "now", **metadata: Any) -> PodReport:
    made = recorded_pod("serves", name=name, version=version)
    made["metadata"] |= metadata
    return report(made)


OLD = pod("old", "before")
LEAVING = pod("old", "before", deletionTimestamp="2999-01-01T00:00:00Z")
LOADING = report(loading(recorded_pod("serves", name="new")))
NEW = pod("new")
Poll = tuple[float, list[PodReport], list[PodReport]]


def words(*polls: Poll) -> str:
    silence = Silence()
    for now, pods, former in polls:
        silence.note(pods, former, now)
    return silence.words()


@pytest.mark.parametrize(
    ("polls", "said"),
    [
        ([(0, [], [OLD]), (5, [], [LEAVING]), (9, [LOADING], []), (317, [NEW], [])], "nobody was answered for 312 s"),
        ([(0, [LOADING], [OLD]), (5, [NEW], [OLD]), (9, [NEW], [LEAVING])], ""),
        ([(0, [LOADING], []), (300, [NEW], [])], ""),
        ([(0, [NEW], [])], ""),
        ([(0, [], [LEAVING]), (10, [NEW], []), (20, [], [LEAVING]), (25, [NEW], [])], "nobody was answered for 15 s"),
    ],
    ids=["one server that is replaced", "two replicas, one after the other", "first start", "no change", "two gaps"],
)
def test_the_time_without_a_pod_that_answers_is_said(polls: list[Poll], said: str) -> None:
    assert words(*polls) == (f"; {said}" if said else "")


def test_a_worker_that_is_ready_answers_nobody() -> None:
    worker = report(recorded_pod("serves", name="worker", group="0", worker="1"))
    assert words((0, [], [LEAVING]), (7, [worker], []), (9, [NEW], [])) == "; nobody was answered for 9 s"
