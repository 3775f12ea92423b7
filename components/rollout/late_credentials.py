"""Stage pods that started before a cloud's credentials reached them, and how often to replace such a pod.

EKS Pod Identity changes pods when the API server admits them, from some seconds after a role was associated with their
service account. A pod that was admitted earlier never gets credentials: only a new pod helps.
"""

from collections.abc import Sequence

from components.pods.jobs.stager_job import NO_CREDENTIALS_STATUS
from components.rollout.pod_report import PodReport

ADVICE = (
    "To do: associate a role with the stager's service account (heavylift:stage.service_account), see that the agent "
    "that gives pods their credentials runs, and run `pulumi up` again."
)


class LateCredentials:
    """The pods without credentials since the watch began."""

    def __init__(self, seconds: float) -> None:
        """`seconds`: how long new pods may get none either."""
        self._seconds = seconds
        self._first: dict[tuple[str, str], float] = {}
        self._seen: set[str] = set()
        self.given_up = False
        """Whether a pod got no credentials that long after the first one of its node or Job."""

    def new(self, pods: Sequence[PodReport], now: float) -> list[PodReport]:
        """Returns the pods that have ended without credentials since the last call."""
        found = [pod for pod in pods if pod.uid not in self._seen and _lacks_credentials(pod)]
        for pod in found:
            self._seen.add(pod.uid)
            if now - self._first.setdefault(pod.group_index, now) >= self._seconds:
                self.given_up = True
        return found


def _lacks_credentials(pod: PodReport) -> bool:
    status = str(NO_CREDENTIALS_STATUS)
    return any(failure.container == "stage" and failure.status == status for failure in pod.failures)
