"""The DaemonSet that stages weights on every node of a group, also on a node that replaces another.

An init container of its pods is the stager, so that a pod is ready when its node has the weights. Each set of weights
has a DaemonSet of its own: new weights are staged beside the old ones, which the server still uses.
"""

from collections.abc import Mapping
from typing import Any

from components.pods.jobs.stage_pod import StagePod
from components.pods.labels import labels
from components.pods.weight_source import PlacedVolume

WEIGHTS_LABEL = "stage.heavylift/weights"
"""Label of the pods: the digest of the weights."""


def pod_labels(instance: str, component: str, digest: str) -> Mapping[str, str]:
    """Returns the labels that select the pods of one set of weights."""
    return {**labels(instance, component), WEIGHTS_LABEL: digest}


def daemon_set_spec(pod: StagePod, volume: PlacedVolume) -> dict[str, Any]:
    """Returns the spec of the DaemonSet. A change of its pods starts all of them again, which checks the weights."""
    selector = pod_labels(pod.job.instance, pod.job.component, pod.weights.digest)
    return {
        "selector": {"match_labels": selector},
        "update_strategy": {"type": "RollingUpdate", "rolling_update": {"max_unavailable": "100%"}},
        "template": pod.job.additions.template({"labels": selector}, pod.resident_spec(volume)),
    }
