"""The provider of all objects in the cluster."""

import pulumi
from pulumi_kubernetes import Provider

from components.cluster.api import ClusterUnreachable, cluster_api


def cluster_provider(kubeconfig: str, context: str | None) -> Provider:
    """The provider for one context of a kubeconfig. Another cluster replaces every object, another address none.

    A preview that cannot reach the cluster keeps what the provider was made with, so that it shows the steps of an
    update on the same cluster. Raises pulumi.RunError where an `up` cannot reach it.
    """
    identifier = _cluster_identifier(kubeconfig, context)
    return Provider(
        "cluster",
        kubeconfig=pulumi.Output.secret(kubeconfig),
        context=context,
        cluster_identifier=identifier,
        enable_server_side_apply=True,
        # Changed in place, a program or a token in the cluster replaces neither Job nor server.
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        opts=pulumi.ResourceOptions(ignore_changes=["clusterIdentifier", "kubeconfig"] if identifier is None else None),
    )


def _cluster_identifier(kubeconfig: str, context: str | None) -> str | None:
    """UID of the namespace that every cluster has; None where a preview cannot reach the cluster."""
    try:
        return str(cluster_api(kubeconfig, context).read("/api/v1/namespaces/kube-system")["metadata"]["uid"])
    except ClusterUnreachable as reason:
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"cluster '{context}' cannot be reached: {reason}; nothing was created") from None
        return None
