"""The DaemonSet that stages weights on every node of a group, also on a node that replaces another.

An init container of its pods is the stager, so that a pod is ready when its node has the weights. Each set of weights
has a DaemonSet of its own: new weights are staged beside the old ones, which the server still uses.
"""

from typing import Any

from components.pods.jobs.stage_pod import StagePod
from components.pods.weight_source import PlacedVolume


def daemon_set_spec(pod: StagePod, volume: PlacedVolume) -> dict[str, Any]:
    """Returns the spec of the DaemonSet. A change of its pods starts all of them again, which checks the weights."""
    return {
        "selector": {"match_labels": pod.labels},
        "update_strategy": {"type": "RollingUpdate", "rolling_update": {"max_unavailable": "100%"}},
        "template": pod.job.additions.template({"labels": pod.labels}, pod.resident_spec(volume)),
    }
