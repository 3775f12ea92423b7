"""Which cluster a kubeconfig leads to, whatever its address: another one replaces the provider and all that it made."""

import pulumi

from components.cluster.api import ClusterUnreachable, cluster_api


def cluster_identifier(kubeconfig: str, context: str | None) -> str | None:
    """UID of the namespace that every cluster has; None where a preview cannot reach the cluster.

    Raises pulumi.RunError where an `up` cannot.
    """
    try:
        return str(cluster_api(kubeconfig, context).read("/api/v1/namespaces/kube-system")["metadata"]["uid"])
    except ClusterUnreachable as reason:
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"cluster '{context}' cannot be reached: {reason}; nothing was created") from None
        return None
