"""Servers of several pods, as a LeaderWorkerSet: each group starts, fails and terminates as a whole.

Leader and workers differ only in what the engine needs for its role. An update replaces one group at a time, on the
group's own GPUs, while the others serve. If the new version does not start, the update stops at the first group. If the
number of nodes of a group changes, Pulumi deletes the LeaderWorkerSet and creates a new one.
"""

from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.cluster.facts import LEADER_WORKER_SETS
from components.pods import fabric
from components.pods.manifest import with_canonical_quantities
from components.pods.server_pod import ServerPod

_RECREATED_AFTER_START = {"leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start": "true"}
"""Annotation that recreates a group only after all its pods have started. Without it, a check that fails before the
engine starts would recreate the group in a tight loop, and the check's message would be lost with the pod."""


def leader_worker_set(
    name: str, metadata: dict[str, Any], pod: ServerPod, opts: pulumi.ResourceOptions
) -> CustomResource:
    """Creates the groups. `metadata` must have the key `annotations`."""
    serving = pod.serving
    first, others = pod.roles
    group_fabric = None if serving.nodes == 1 else pod.placement.fabric
    return CustomResource(
        name,
        api_version=LEADER_WORKER_SETS,
        kind="LeaderWorkerSet",
        metadata=metadata
        | {
            "annotations": {
                **metadata["annotations"],
                **_RECREATED_AFTER_START,
                **fabric.exclusive_topology(group_fabric),
            }
        },
        spec={
            "replicas": serving.replicas,
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 0, "partition": 0},
            },
            "leaderWorkerTemplate": {
                "size": serving.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": with_canonical_quantities(pod.template(first)),
                "workerTemplate": with_canonical_quantities(pod.template(others)),
            },
        },
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                delete_before_replace=True,
                # Larger groups would wait for nodes that old groups use, and a change of the annotation does not move
                # existing groups.
                replace_on_changes=[
                    "spec.leaderWorkerTemplate.size",
                    f'metadata.annotations["{fabric.EXCLUSIVE_TOPOLOGY}"]',
                ],
            ),
        ),
    )


def disruption_budget(
    name: str, metadata: dict[str, Any], labels: dict[str, str], parent: pulumi.Resource
) -> PodDisruptionBudget:
    """Lets a drain evict one pod, and with it one group, and the next only after that group is available again."""
    return PodDisruptionBudget(
        f"{name}-disruption",
        metadata=metadata,
        spec={"max_unavailable": 1, "selector": {"match_labels": labels}},
        opts=pulumi.ResourceOptions(parent=parent),
    )
