"""How long no pod of a server answered during a change, as far as polls of its pods show it."""

from collections.abc import Sequence

from components.rollout.pod_report import PodReport

_SHORTEST_SECONDS = 1.0
"""Less than the time between two polls is not measured."""


class Silence:
    """The time from the last answering pod before the change to the first one after it."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._seconds = 0.0

    def note(self, pods: Sequence[PodReport], former: Sequence[PodReport], now: float) -> None:
        """Notes one poll at the monotonic time `now`. `former`: pods of the template before the change.

        A pod that terminates gets no new requests. Without a former pod there was no server to be silent.
        """
        if any(pod.ready and not pod.terminating and not pod.is_worker for pod in [*pods, *former]):
            if self._began is not None:
                self._seconds += now - self._began
            self._began = None
        elif self._began is None and former:
            self._began = now

    def words(self) -> str:
        """Returns "; nobody was answered for 312 s". Empty: no silence was seen."""
        return f"; nobody was answered for {self._seconds:.0f} s" if self._seconds >= _SHORTEST_SECONDS else ""
