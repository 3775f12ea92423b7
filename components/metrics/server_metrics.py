"""The objects by which Prometheus and Grafana see one server."""

import json
from collections.abc import Mapping
from typing import Any, TypedDict

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import ConfigMap

from components.metrics.dashboard import dashboard
from components.metrics.rules import rule_groups
from components.metrics.selection import MONITORING
from components.pods.labels import labels
from components.pods.names import stack_name
from components.pods.server_pod import API_KEY
from config.engine_name import EngineName
from config.stack.sections import Metrics, MetricsKind, StackConfig
from engines.queries import Queries, read_queries
from engines.registry import engine_of

_UNREAD = (
    "heavylift:metrics.kind: annotations: carry no API key, and {engine} asks for it at {path}: expected pod-monitor, "
    "whose PodMonitor names the key's Secret; nothing was created"
)

_FOUND_BY_GRAFANA = {"grafana_dashboard": "1"}
"""Label of the ConfigMaps that the sidecar of Grafana's Helm charts loads by default."""


class ServerMetricsArgs(TypedDict):
    """The arguments of `ServerMetrics`."""

    namespace: pulumi.Input[str]
    """Namespace of all objects."""
    server: str
    """Component label of the server's pods."""
    engine: EngineName
    """The engine that the server runs."""
    metrics: Metrics
    """What to make."""
    placeholders: pulumi.Input[Mapping[str, str]]
    """What the placeholders of the queries stand for."""
    api_key: pulumi.Input[str] | None
    """Name of the Secret with the API key. None: the API is open."""


class ServerMetrics(pulumi.ComponentResource):
    """A PodMonitor, alerts and a dashboard, as far as the stack asks for them."""

    def __init__(self, name: str, args: ServerMetricsArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:ServerMetrics", name, {}, opts)
        self._name, self._args, self._metrics = name, args, args["metrics"]
        self._own = pulumi.ResourceOptions(parent=self)
        queries = pulumi.Output.from_input(args["placeholders"]).apply(self._queries)
        monitored = self._metrics.kind is MetricsKind.POD_MONITOR
        if monitored:
            self._pod_monitor()
        if self._metrics.alerts:
            groups = queries.apply(lambda known: rule_groups(stack_name(), known))
            self._prometheus_rule(groups) if monitored else self._rule_file(groups)
        if self._metrics.dashboard:
            self._dashboard(queries)
        self.register_outputs({})

    def _queries(self, values: Mapping[str, str]) -> Queries:
        return read_queries(engine_of(self._args["engine"]).metrics.queries).of(values)

    def _metadata(self, more: Mapping[str, str]) -> dict[str, Any]:
        own = labels(stack_name(), self._name)
        return {"namespace": self._args["namespace"], "labels": {**own, **more}}

    def _pod_monitor(self) -> None:
        """Selects the pods that answer requests, also while they load: others have no port `http`."""
        measured, key = engine_of(self._args["engine"]).metrics, self._args["api_key"]
        endpoint: dict[str, Any] = {"port": "http", "path": measured.path}
        if key is not None and measured.key_header:
            endpoint["authorization"] = {"type": "Bearer", "credentials": {"name": key, "key": API_KEY}}
        of_server = labels(stack_name(), self._args["server"])
        CustomResource(
            f"{self._name}-pods",
            api_version=MONITORING,
            kind="PodMonitor",
            metadata=self._metadata(self._metrics.labels),
            spec={
                "selector": {"matchLabels": of_server},
                "podTargetLabels": ["app.kubernetes.io/instance", "app.kubernetes.io/component"],
                "podMetricsEndpoints": [endpoint],
            },
            opts=self._own,
        )

    def _prometheus_rule(self, groups: pulumi.Output[list[dict[str, Any]]]) -> None:
        CustomResource(
            f"{self._name}-alerts",
            api_version=MONITORING,
            kind="PrometheusRule",
            metadata=self._metadata(self._metrics.labels),
            spec={"groups": groups},
            opts=self._own,
        )

    def _rule_file(self, groups: pulumi.Output[list[dict[str, Any]]]) -> None:
        """Makes a rule file, in JSON, which is YAML, for a Prometheus that mounts it."""
        ConfigMap(
            f"{self._name}-alerts",
            metadata=self._metadata({}),
            data={"alerts.yml": groups.apply(lambda known: json.dumps({"groups": known}, indent=1))},
            opts=self._own,
        )

    def _dashboard(self, queries: pulumi.Output[Queries]) -> None:
        stack, title = stack_name(), engine_of(self._args["engine"]).title
        ConfigMap(
            f"{self._name}-dashboard",
            metadata=self._metadata(_FOUND_BY_GRAFANA),
            data={
                f"heavylift-{stack}-{self._name}.json": queries.apply(
                    lambda known: dashboard(f"{stack}-{self._name}"[:40], f"{stack}: {title}", known)
                )
            },
            opts=self._own,
        )


def refuse_unread(stack: StackConfig, *, has_key: bool) -> None:
    """Raises pulumi.RunError if Prometheus could not read the metrics of a server with an API key."""
    engine = engine_of(stack.engine.name)
    annotated = stack.metrics is not None and stack.metrics.kind is MetricsKind.ANNOTATIONS
    if annotated and has_key and engine.metrics.key_header:
        raise pulumi.RunError(_UNREAD.format(engine=engine.title, path=engine.metrics.path))
