"""The provider of all objects in the cluster."""

import pulumi
from pulumi_kubernetes import Provider

from components.cluster.api import ClusterUnreachable, cluster_api
from components.cluster.recorded_cluster import KUBE_SYSTEM, is_made_anew

_NAME = "cluster"


def cluster_provider(kubeconfig: str, context: str | None) -> Provider:
    """Returns the provider for one context of a kubeconfig.

    Changing to another cluster replaces every object; another address of the same cluster replaces none. A preview that
    cannot reach the cluster keeps the provider's earlier inputs, and so shows an update of the same cluster.
    Raises pulumi.RunError if `up` cannot reach the cluster, or if the cluster of the stack's state is gone.
    """
    identifier = _cluster_identifier(kubeconfig, context)
    kept = []
    if identifier is None:
        kept = ["clusterIdentifier", "kubeconfig"]
    elif is_made_anew(cluster_api(kubeconfig, context), identifier, _NAME):
        kept = ["clusterIdentifier"]
    return Provider(
        _NAME,
        kubeconfig=pulumi.Output.secret(kubeconfig),
        context=context,
        cluster_identifier=identifier,
        enable_server_side_apply=True,
        # A program or token that is updated in place replaces neither the Job nor the server.
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
        opts=pulumi.ResourceOptions(ignore_changes=kept or None),
    )


def _cluster_identifier(kubeconfig: str, context: str | None) -> str | None:
    """Returns the UID of the namespace `kube-system`. None: a preview cannot reach the cluster."""
    try:
        return str(cluster_api(kubeconfig, context).read(KUBE_SYSTEM)["metadata"]["uid"])
    except ClusterUnreachable as reason:
        if not pulumi.runtime.is_dry_run():
            raise pulumi.RunError(f"cluster '{context}' cannot be reached: {reason}; nothing was created") from None
        return None
