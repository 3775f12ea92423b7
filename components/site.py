"""Where a stack's objects go: the cluster's provider, its kubeconfig and, if another component made them, its nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pulumi
from pulumi_kubernetes import Provider

from components.arguments import Placement
from components.cluster.provider import cluster_provider
from config.stack.from_pulumi import RunningStack


@dataclass(frozen=True)
class Site:
    """The cluster of a stack."""

    provider: Provider
    kubeconfig: pulumi.Input[str]
    context: str | None
    """Context of the kubeconfig. None: its current one."""
    placement: Placement | None = None
    """The nodes. None: `ServedModel` finds them."""
    made: Sequence[pulumi.Input[pulumi.Resource]] = ()
    """What must be there before anything is put on the nodes."""
    mirror: pulumi.Output[str] | None = None
    """Bucket with a copy of the weights. None: none."""
    ends: datetime | None = None
    """End of the reservation that the nodes are bought with. None: none, or it has no end."""


def site_of(stack: RunningStack) -> Site:
    """The cluster that a kubeconfig names, or that the stack makes or names in AWS."""
    if stack.config.aws is not None:
        from components.aws.site import aws_site  # other stacks need not wait for pulumi_aws

        return aws_site(stack, stack.config.aws)
    kubeconfig, context = json.dumps(stack.kubeconfig), stack.config.cluster.context
    return Site(cluster_provider(kubeconfig, context), kubeconfig, context)
