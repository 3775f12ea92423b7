"""Servers over several pods, as a LeaderWorkerSet: each group starts, fails and ends as a whole.

Leader and workers come from one template and differ in what the engine must know of it. A change of the template
replaces the object, old groups first, because a second copy would need GPUs that the first ones hold, and because the
controller's status cannot tell Pulumi that an update in place is done. All groups are replaced at once.
"""

from typing import Any

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.policy.v1 import PodDisruptionBudget

from components import fabric
from components.cluster_facts import LEADER_WORKER_SETS
from components.engine_process import Role
from components.manifest import manifest
from components.server_pod import ServerPod

LEADER = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}
"""The label of leaders, which alone answer."""

_RECREATED_AFTER_START = {"leaderworkerset.sigs.k8s.io/experimental-recreate-group-after-start": "true"}
"""A group whose pods have not all started is not recreated. Without it, a check that fails before the engine starts
would recreate the group in a loop without pause, and its message would go with the pod."""


def leader_worker_set(name: str, metadata: dict[str, Any], pod: ServerPod, parent: pulumi.Resource) -> CustomResource:
    """The groups of a server, awaited until every one of them is ready."""
    serving = pod.serving
    alone = serving.nodes == 1
    seconds = f"{serving.await_seconds}s"
    between = None if alone else pod.placement.fabric
    return CustomResource(
        name,
        api_version=LEADER_WORKER_SETS,
        kind="LeaderWorkerSet",
        metadata=metadata
        | {
            "annotations": {
                "pulumi.com/waitFor": f"jsonpath={{.status.readyReplicas}}={serving.replicas}",
                **_RECREATED_AFTER_START,
                **fabric.exclusive_topology(between),
            }
        },
        spec=manifest(
            {
                "replicas": serving.replicas,
                "leader_worker_template": {
                    "size": serving.nodes,
                    "restart_policy": "RecreateGroupOnPodRestart",
                    "leader_template": pod.template(Role.ALONE if alone else Role.LEADER),
                    "worker_template": pod.template(Role.ALONE if alone else Role.WORKER),
                },
            }
        ),
        opts=pulumi.ResourceOptions(
            parent=parent,
            delete_before_replace=True,
            replace_on_changes=["spec.leaderWorkerTemplate", f'metadata.annotations["{fabric.EXCLUSIVE_TOPOLOGY}"]'],
            custom_timeouts=pulumi.CustomTimeouts(create=seconds, update=seconds),
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
