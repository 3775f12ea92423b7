"""Detects changes made outside Pulumi that keep a Deployment or LeaderWorkerSet from creating its pods.

Pulumi compares the program with its own state, not with the cluster. After `kubectl scale` or `kubectl delete`, a plain
`pulumi up` changes nothing and would wait until its timeout.
"""

from components.cluster.api import ClusterApi
from components.cluster.facts import LEADER_WORKER_SETS

_TO_DO = "Pulumi's state does not show it. To do: `pulumi up --refresh`, which brings it back to what the stack says."


def changed_since(api: ClusterApi, namespace: str, name: str, pods: int) -> str | None:
    """Why the workload does not have that many pods, and what to do. None: it does.

    Raises ClusterUnreachable.
    """
    kind, path = ("LeaderWorkerSet", LEADER_WORKER_SETS) if pods > 1 else ("Deployment", "apps/v1")
    found = api.find(f"/apis/{path}/namespaces/{namespace}/{kind.lower()}s/{name}")
    if found is None:
        return f"{kind} {name} is no longer in namespace {namespace}, and {_TO_DO}"
    spec = found["spec"]
    size = (spec.get("leaderWorkerTemplate") or {}).get("size", 1)
    replicas, wanted = spec.get("replicas", 1), pods // size
    if replicas < wanted:
        return f"{kind} {name} is scaled to {replicas} of {wanted} replicas, and {_TO_DO}"
    if spec.get("paused"):
        return f"{kind} {name} is paused: `kubectl rollout resume deployment/{name} -n {namespace}` lets it go on."
    return None
