"""The sections of a stack, read, planned and held against the cluster: refused before anything is made."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pulumi

from components.arguments import ServerEngine, ServerPods, StartLimits
from components.cluster.admission import refusals
from components.cluster.api import cluster_api
from components.cluster.preflight import Found, preflight
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
    """A model that its plan found to fit."""

    stack: StackConfig
    lock: WeightsLock | None
    """The weights lock file; None: there is none."""
    plan: Plan
    limits: TimeLimits

    @property
    def digest(self) -> str:
        """Identity of the weights."""
        return weights_digest(self.stack.model, self.lock.sha256 if self.lock else None)

    @property
    def engine(self) -> ServerEngine:
        """The engine, as `InferenceServer` takes it."""
        return server_engine(self.plan, self.stack.engine)

    @property
    def pods(self) -> ServerPods:
        """The pods, as `InferenceServer` takes them."""
        return server_pods(self.plan, self.stack.engine)

    @property
    def start_limits(self) -> StartLimits:
        """The time limits, as `InferenceServer` takes them."""
        return start_limits(self.limits)

    @property
    def serving(self) -> Serving:
        """The server's pods, as the preflight needs them."""
        return Serving.of(self.engine, self.pods, self.start_limits)


def planned_model(name: str, sections: dict[str, Any]) -> PlannedModel:
    """The plan of the component `name` with these sections, once its summary and warnings are printed.

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
    """What is known of the cluster before anything is made."""

    namespace: pulumi.Input[str]
    """Namespace of all objects: what is made in it waits until the cluster was checked."""
    found: Found
    """What is there already."""


def checked_cluster(
    planned: PlannedModel,
    volume: str,
    namespace: pulumi.Input[str],
    kubeconfig: pulumi.Input[str] | None,
    context: str | None,
) -> CheckedCluster:
    """The cluster, found fit for a plan and a volume called `volume`; or what could not be checked is said.

    Raises pulumi.RunError with every fault. Where the kubeconfig comes from another resource, that happens when it is
    known, and nothing that an earlier stack left is taken over.
    """
    if kubeconfig is None:
        return CheckedCluster(namespace, Found())

    def look(within: str, config: str) -> Found:
        stack = planned.stack.model_copy(update={"cluster": Cluster(context=context, namespace=within)})
        api = cluster_api(config, context)
        found = preflight(stack_name(), volume, stack, api, planned.plan.volume_bytes, planned.serving)
        if reasons := refusals(api, within, server_pods_to_come(stack, planned.serving, planned.digest)):
            summary = f"namespace '{within}' would not take the server's pod, nothing was created:"
            raise pulumi.RunError("\n  ".join([summary, *reasons]))
        return found

    if isinstance(namespace, str) and isinstance(kubeconfig, str):
        return CheckedCluster(namespace, look(namespace, kubeconfig))

    def look_later(known: Any) -> pulumi.Input[str]:
        if pulumi.output.contains_unknowns(known):
            pulumi.warn(
                "the cluster was not checked: its kubeconfig or the namespace is not known before they are created; "
                "`pulumi up` checks it before it makes anything there"
            )
            return namespace
        look(*known)
        return cast(str, known[0])

    both = pulumi.Output.all(namespace, kubeconfig)
    return CheckedCluster(pulumi.Output.unsecret(both.apply(look_later, run_with_unknowns=True)), Found())
