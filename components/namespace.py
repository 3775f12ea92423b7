"""The stack's namespace: made and kept, or somebody else's and left as it is.

It outlives the stack, because weights may lie in its claims.
"""

import pulumi
from pulumi_kubernetes.core.v1 import Namespace

from components.cluster.preflight import Found
from components.pods.labels import labels


def stack_namespace(instance: str, name: str, found: Found, opts: pulumi.ResourceOptions) -> list[Namespace]:
    """What objects in the namespace `name` must wait for.

    The namespace itself, made or taken over from an earlier life of the stack; nothing where it is not this stack's.
    """
    if not found.make_namespace:
        return []
    kept = pulumi.ResourceOptions(retain_on_delete=True, import_=found.adopt_namespace)
    return [
        Namespace(
            "namespace",
            metadata={"name": name, "labels": labels(instance, "namespace")},
            opts=pulumi.ResourceOptions.merge(opts, kept),
        )
    ]
