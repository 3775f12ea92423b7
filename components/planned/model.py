"""Reads a stack's sections, plans them and checks the cluster; fails before anything is created."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pulumi

from components.arguments import ServerEngine, ServerPods, StartLimits
from components.cluster.admission import refusals
from components.cluster.api import cluster_api
from components.cluster.preflight import PreflightResult, preflight
from components.planned.server import server_engine, server_pods, start_limits
from components.planned.server_pods import server_pods_to_come
from components.planned.verdict import judged_plan
from components.pods.names import stack_name
from components.pods.serving import Serving
from config.errors import StackError
from config.stack.sections import Cluster, StackConfig, Verification
from config.stack.weights import WeightsLock, read_lock, weights_digest
from engines.plan import Plan
from planner import TimeLimits, time_limits
from planner.stack_request import request_of_stack
from planner.time_limits import limits_at_floor


@dataclass(frozen=True)
class PlannedModel:
    """A model whose plan was not rejected."""

    stack: StackConfig
    lock: WeightsLock | None
    """The weights lock file. None: no lock."""
    plan: Plan
    limits: TimeLimits

    @property
    def digest(self) -> str:
        """Digest of the weights."""
        return weights_digest(self.stack.model, self.lock.sha256 if self.lock else None)

    @property
    def engine(self) -> ServerEngine:
        """The argument `engine` of `InferenceServer`."""
        return server_engine(self.plan, self.stack.engine)

    @property
    def pods(self) -> ServerPods:
        """The argument `pods` of `InferenceServer`."""
        return server_pods(self.plan, self.stack.engine)

    @property
    def start_limits(self) -> StartLimits:
        """The argument `limits` of `InferenceServer`."""
        return start_limits(self.limits)

    @property
    def serving(self) -> Serving:
        """The server's pods, for the preflight."""
        return Serving.of(self.engine, self.pods, self.start_limits)


def planned_model(name: str, sections: dict[str, Any]) -> PlannedModel:
    """Plans the component `name` with these sections, and prints the summary and warnings of the plan.

    Raises pulumi.RunError with every fault of the sections, or every reason why the plan is rejected.
    """
    try:
        stack = StackConfig.parse(sections)
        lock = read_lock(Path(stack.stage.lock), stack.model) if stack.stage.lock else None
    except StackError as error:
        raise pulumi.RunError("\n  ".join([f"{name} cannot be served, nothing was created:", *error.faults])) from None
    request = request_of_stack(stack, lock)
    plan = judged_plan(request)
    limits = time_limits(plan, request, full_verification=stack.weights.verify is Verification.FULL)
    if words := limits_at_floor(plan, request, limits):
        pulumi.warn(words)
    return PlannedModel(stack, lock, plan, limits)


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
) -> CheckedCluster:
    """Checks the cluster for a plan and a volume called `volume`; warns if it cannot be checked yet.

    If the namespace or kubeconfig comes from another resource, the check runs once both are known, and the stack adopts
    nothing. Raises pulumi.RunError with every fault.
    """
    if kubeconfig is None:
        return CheckedCluster(namespace, PreflightResult())

    def check(within: str, config: str) -> PreflightResult:
        stack = planned.stack.model_copy(update={"cluster": Cluster(context=context, namespace=within)})
        api = cluster_api(config, context)
        result = preflight(stack_name(), volume, stack, api, planned.plan.volume_bytes, planned.serving)
        if reasons := refusals(api, within, server_pods_to_come(stack, planned.serving, planned.digest)):
            summary = f"namespace '{within}' would not take the server's pod, nothing was created:"
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
        check(*known)
        return cast(str, known[0])

    both = pulumi.Output.all(namespace, kubeconfig)
    return CheckedCluster(pulumi.Output.unsecret(both.apply(check_later, run_with_unknowns=True)), PreflightResult())
