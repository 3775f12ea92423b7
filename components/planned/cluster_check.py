"""Checks the cluster for a plan; fails before anything is created."""

from dataclasses import dataclass, replace
from typing import Any, cast

import pulumi

from components.cluster.admission import refusals
from components.cluster.api import cluster_api
from components.cluster.preflight import PreflightResult, preflight
from components.planned.model import PlannedModel
from components.planned.to_come import creations
from components.pods.names import stack_name
from config.stack.sections import Cluster


@dataclass(frozen=True)
class CheckedCluster:
    """The result of the check before anything is created."""

    namespace: pulumi.Input[str]
    """Namespace of all objects. An output resolves only after the check, so that objects in the namespace wait."""
    preflight: PreflightResult
    """What to make and what to adopt."""


def checked_cluster(
    planned: PlannedModel,
    volume: str,
    namespace: pulumi.Input[str],
    kubeconfig: pulumi.Input[str] | None,
    context: str | None,
    service_name: str,
) -> CheckedCluster:
    """Checks the cluster for a plan and a volume called `volume`; warns if it cannot be checked yet.

    If the namespace or kubeconfig comes from another resource, the check runs once both are known, and the stack adopts
    nothing. Raises pulumi.RunError with every fault.
    """
    creations(planned, service_name)  # refuses what the stack cannot add to the pods
    if kubeconfig is None:
        return CheckedCluster(namespace, PreflightResult())

    def check(within: str, config: str) -> PreflightResult:
        stack = planned.stack.model_copy(update={"cluster": Cluster(context=context, namespace=within)})
        api = cluster_api(config, context)
        result = preflight(stack_name(), volume, stack, api, planned.plan.volume_bytes, planned.serving)
        coming = creations(replace(planned, stack=stack), service_name)
        if reasons := refusals(api, within, coming):
            summary = f"namespace '{within}' would not take what this stack makes, nothing was created:"
            raise pulumi.RunError("\n  ".join([summary, *reasons]))
        return result

    if isinstance(namespace, str) and isinstance(kubeconfig, str):
        return CheckedCluster(namespace, check(namespace, kubeconfig))

    def check_later(known: Any) -> pulumi.Input[str]:
        if pulumi.output.contains_unknowns(known):
            pulumi.warn(
                "the cluster was not checked: its kubeconfig or the namespace is not known before they are created; "
                "`pulumi up` checks it before it makes anything there"
            )
            return namespace
        if candidates := check(*known).candidates:
            pulumi.warn(
                f"only {', '.join(candidates)} can serve, and the Jobs may land on other nodes, as they were not known "
                "when the program began; name the nodes in heavylift:nodes.names"
            )
        return cast(str, known[0])

    both = pulumi.Output.all(namespace, kubeconfig)
    return CheckedCluster(pulumi.Output.unsecret(both.apply(check_later, run_with_unknowns=True)), PreflightResult())
