"""Servers over several pods, as a LeaderWorkerSet: each group starts, fails and ends as a whole.

Leader and workers come from one template and differ in what the engine must know of it. A change of the template is
made group by group on the GPUs that each one holds: while one changes the others serve, and a version that does not
start stops at the first. Another number of nodes in a group replaces the object, old groups first.
"""

from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components.cluster.facts import LEADER_WORKER_SETS
from components.pods import fabric
from components.pods.manifest import manifest
from components.pods.server_pod import ServerPod

LEADER = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}
"""The label of leaders, which alone answer."""

_RECREATED_AFTER_START = {"leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start": "true"}
"""A group whose pods have not all started is not recreated. Without it, a check that fails before the engine starts
would recreate the group in a loop without pause, and its message would go with the pod."""


def leader_worker_set(
    name: str, metadata: dict[str, Any], pod: ServerPod, opts: pulumi.ResourceOptions
) -> CustomResource:
    """The groups of a server, with the caller's `annotations` in their metadata."""
    serving = pod.serving
    first, others = pod.roles
    between = None if serving.nodes == 1 else pod.placement.fabric
    return CustomResource(
        name,
        api_version=LEADER_WORKER_SETS,
        kind="LeaderWorkerSet",
        metadata=metadata
        | {
            "annotations": {
                **metadata["annotations"],
                **_RECREATED_AFTER_START,
                **fabric.exclusive_topology(between),
            }
        },
        spec=manifest(
            {
                "replicas": serving.replicas,
                "rollout_strategy": {
                    "type": "RollingUpdate",
                    "rolling_update_configuration": {"max_unavailable": 1, "max_surge": 0, "partition": 0},
                },
                "leader_worker_template": {
                    "size": serving.nodes,
                    "restart_policy": "RecreateGroupOnPodRestart",
                    "leader_template": pod.template(first),
                    "worker_template": pod.template(others),
                },
            }
        ),
        opts=pulumi.ResourceOptions.merge(
            opts,
            pulumi.ResourceOptions(
                delete_before_replace=True,
                # Larger groups would wait for nodes that the old ones hold; the annotation moves no group that is
                # there.
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
    """Lets a drain take one pod, and with it one group; the next only when that group is back."""
    return PodDisruptionBudget(
        f"{name}-disruption",
        metadata=metadata,
        spec={"max_unavailable": 1, "selector": {"match_labels": labels}},
        opts=pulumi.ResourceOptions(parent=parent),
    )
