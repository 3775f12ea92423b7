"""One model, from the sections of a stack file to a server that answers: plan, preflight, volume, stage, serve, prune.

Fails with the planner's reasons before it registers a resource. Most programs need only this component; each of the
components that it contains also works alone.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NotRequired, TypedDict, assert_never

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.core.v1 import Namespace, ServiceAccount

from components.arguments import Placement, whole_numbers
from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.cluster.preflight import PreflightResult
from components.inference_server import InferenceServer
from components.leader_worker_set_controller import LeaderWorkerSetController
from components.metrics.placeholders import placeholders
from components.metrics.server_metrics import ServerMetrics, refuse_unread
from components.network.exposure import GATEWAYS, http_route
from components.planned.cluster_check import checked_cluster
from components.planned.model import planned_model
from components.planned.records import records
from components.planned.release import Release, release_of
from components.planned.weight_set import WeightSet, weight_sets
from components.pods.labels import labels
from components.pods.names import object_name, stack_name
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from components.weight_volume import WeightVolume
from config.catalogue import described_gpu
from config.stack import arguments
from config.stack.sections import Installation, MetricsKind, NodeKind

_NO_KEY = (
    "heavylift:expose without heavylift:api_key: whoever reaches {hostname} may use the model; "
    "`pulumi config set --secret heavylift:api_key` makes clients send a key"
)


class ServedModelArgs(TypedDict):
    """The arguments of `ServedModel`: the sections of a stack file, with cluster and namespace."""

    nodes: NotRequired[arguments.Nodes]
    """The nodes that stage and serve. Unset: the cluster's only node, without GPUs."""
    placement: NotRequired[Placement]
    """The nodes as another component made them. Required for nodes of kind `eks`, which `EksGpuNodes` makes. Unset: the
    component finds them by `nodes`."""
    aws: NotRequired[arguments.Aws]
    """The part of AWS that the nodes are in, for nodes of kind `eks`."""
    model: arguments.Model
    """The weights: one repository at one revision."""
    weights: arguments.Weights
    """The volume for the weights."""
    stage: arguments.Stage
    """The Job that downloads and verifies the weights."""
    engine: arguments.Engine
    """The inference server."""
    security: NotRequired[arguments.Security]
    """User and rights of all pods. Unset: what Pod Security level `restricted` requires, but for the Jobs of weights of
    kind `host-path`."""
    network: NotRequired[arguments.Network]
    """Who may call the server, and what its pods may reach. Unset: every client may, and the server reaches its own
    ranks and DNS only."""
    pod: NotRequired[arguments.Pod]
    """Additions to the pods of the server and of the Jobs. Unset: none."""
    metrics: NotRequired[arguments.Metrics]
    """Prometheus metrics, alerts and a dashboard. Unset: none."""
    expose: NotRequired[arguments.Expose]
    """The paths that a Gateway of the cluster forwards to the server. Unset: none."""
    capacity_ends: NotRequired[str]
    """End of the reservation that the nodes are bought with, RFC 3339, for an alert. Unset: none."""
    namespace: pulumi.Input[str]
    """Namespace of all objects. If it is another resource's output, the component adopts no existing objects."""
    create_namespace: NotRequired[bool]
    """Create the namespace if it does not exist, and keep it after `pulumi destroy`. Unset: false, it must exist."""
    kubeconfig: NotRequired[pulumi.Input[str] | None]
    """Text of the kubeconfig of the provider's cluster, as a secret. With it, the component checks the cluster before
    it creates anything, and `pulumi up` reports the server's progress and requests one token. Unset: no checks."""
    context: NotRequired[str | None]
    """Context of that kubeconfig. Unset: its current one."""
    hub_token: NotRequired[pulumi.Input[str] | None]
    """The model hub's token, as a secret. Unset: public repositories only."""
    api_key: NotRequired[pulumi.Input[str] | None]
    """API key that clients send as `Authorization: Bearer <key>`, as a secret. Unset: the API is open to everyone who
    reaches the Service."""
    service_name: NotRequired[str | None]
    """Name of the Service, and owner of the staged weights. Unset: `<stack>-<name>`."""
    part_prefix: NotRequired[str]
    """Prefix of the inner components' names; empty for a stack of one model. Unset: its own name and a hyphen."""


class ServedModel(pulumi.ComponentResource):
    """One model, planned, staged, verified and served."""

    endpoint: pulumi.Output[str]
    """Base URL of the OpenAI-compatible API within the cluster. Known when the server is ready."""
    answered: pulumi.Output[str]
    """Whether the server gave a first token: `yes`, or `unknown: <reason>`. A preview shows the expected value."""
    model: pulumi.Output[str]
    """Name of the model in clients' requests."""
    revision: pulumi.Output[str]
    """Revision of the weights."""
    plan: pulumi.Output[Mapping[str, Any]]
    """The plan, with the keys of `python -m planner fit --json`."""
    release: pulumi.Output[Release]
    """What is served."""
    files_sha256: pulumi.Output[str]
    """Without a lock: SHA-256 of the sorted lines `<path> <size> <SHA-256>` of all files, from the first stage. Empty:
    a lock lists the files, or no kubeconfig was given."""

    def __init__(self, name: str, args: ServedModelArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._args = args = whole_numbers(args)
        self._prefix = args.get("part_prefix", f"{name}-")
        self._service_name = args.get("service_name") or object_name(name)
        self._planned = planned_model(name, self._sections())
        refuse_unread(self._planned.stack, has_key=args.get("api_key") is not None)
        if self._planned.stack.nodes.kind is NodeKind.EKS and "placement" not in args:
            raise pulumi.RunError(f"{name}: placement: is missing: nodes of kind eks expect that of EksGpuNodes")
        cluster = checked_cluster(
            self._planned,
            object_name(self._part("weights")),
            args["namespace"],
            args.get("kubeconfig"),
            args.get("context"),
            self._service_name,
        )
        super().__init__("heavylift:index:ServedModel", name, {}, opts)
        self._records = records(self._planned, args.get("capacity_ends"))
        self._namespace, self._candidates = cluster.namespace, cluster.preflight.candidates

        self._made_first = namespace = self._made_namespace(cluster.preflight)
        self._placement = self._placed()
        volume = self._volume(cluster.preflight, namespace)
        stages = self._stages(volume, [*namespace, volume])
        server = self._server(volume, stages, self._installed())
        self._metrics(server)
        self._expose(server)
        for weights, stage in stages.items():
            self._prune(weights, volume, stage, [server])

        self.endpoint, self.answered = server.endpoint, server.answered
        stack = self._planned.stack
        self.model = pulumi.Output.from_input(stack.engine.served_name or stack.model.repository)
        self.revision = pulumi.Output.from_input(stack.model.revision)
        self.plan = pulumi.Output.from_input(self._planned.plan.as_dict())
        self.release = pulumi.Output.from_input(release_of(self._planned))
        self.files_sha256 = next(reversed(stages.values())).files_sha256
        outputs = ("endpoint", "answered", "model", "revision", "plan", "release", "files_sha256")
        self.register_outputs({output: getattr(self, output) for output in outputs})

    def _sections(self) -> dict[str, Any]:
        """Returns the sections as in a stack file."""
        args = self._args
        optional: dict[str, Any] = {
            section: args.get(section) for section in ("aws", "expose", "metrics") if section in args
        }
        return {section: args[section] for section in ("model", "weights", "stage", "engine")} | {
            **optional,
            "nodes": args.get("nodes", {}),
            "security": args.get("security", {}),
            "network": args.get("network", {}),
            "pod": args.get("pod", {}),
        }

    def _part(self, part: str) -> str:
        return f"{self._prefix}{part}"

    def _within(self, depends_on: Sequence[pulumi.Input[pulumi.Resource]] = ()) -> pulumi.ResourceOptions:
        """Returns the options of an inner component.

        The alias keeps its objects if the program used the component without `ServedModel` before.
        """
        alone = pulumi.Alias(parent=pulumi.ROOT_STACK_RESOURCE)
        return pulumi.ResourceOptions(parent=self, depends_on=depends_on, aliases=[alone])

    def _made_namespace(self, preflight: PreflightResult) -> list[Namespace]:
        """Creates the namespace or adopts it from an earlier stack of this name. Empty: the stack does not own it.

        `pulumi destroy` keeps the namespace, because its claims may contain weights.
        """
        if not (self._args.get("create_namespace") and preflight.make_namespace):
            return []
        kept = pulumi.ResourceOptions(retain_on_delete=True, import_=preflight.adopt_namespace)
        return [
            Namespace(
                self._part("namespace"),
                metadata={"name": self._namespace, "labels": labels(stack_name(), "namespace")},
                opts=pulumi.ResourceOptions.merge(self._within(), kept),
            )
        ]

    def _placed(self) -> Placement:
        """Returns the placement of the nodes. Every kind of nodes has one."""
        nodes, given = self._planned.stack.nodes, self._args.get("nodes", {})
        match nodes.kind:
            case NodeKind.BARE_METAL:
                return BareMetalGpuNodes(
                    self._part("nodes"),
                    {
                        "hostnames": nodes.names,
                        "gpu_resource": described_gpu(nodes.gpu).vendor.resource if nodes.gpu else None,
                        "taints": given.get("taints", []),
                        "fabric": given.get("fabric"),
                        "nvme_path": nodes.nvme_path,
                    },
                    self._within(),
                ).placement
            case NodeKind.EKS:
                return self._args["placement"]
            case _:
                assert_never(nodes.kind)

    def _of_jobs(self) -> Placement:
        """Returns the placement of the Jobs, whose pods ask for no GPU, so that they land only where the server can."""
        return {**self._placement, "candidates": self._candidates}

    def _volume(self, preflight: PreflightResult, after: Sequence[pulumi.Resource]) -> WeightVolume:
        stack = self._planned.stack
        return WeightVolume(
            self._part("weights"),
            {
                "kind": stack.weights.kind,
                "namespace": self._namespace,
                "path": stack.weights_path,
                "size_bytes": self._planned.plan.volume_bytes,
                "storage_class": stack.weights.storage_class,
                "retain": stack.weights.retain,
                "placement": self._placement,
                "shared": self._planned.serving.pods > 1,
                "adopt": preflight.adopt_claim,
            },
            self._within(after),
        )

    def _stages(self, volume: WeightVolume, after: Sequence[pulumi.Resource]) -> dict[WeightSet, WeightStage]:
        """Stages one set of weights after another, the served model last."""
        stages: dict[WeightSet, WeightStage] = {}
        for weights in weight_sets(self._planned, self._args["model"], self._service_name):
            before = [resource for stage in stages.values() for resource in (stage, stage.staged)]
            stages[weights] = self._stage(weights, volume, [*after, *before])
        return stages

    def _stage(
        self, weights: WeightSet, volume: WeightVolume, after: Sequence[pulumi.Input[pulumi.Resource]]
    ) -> WeightStage:
        stage, limits = self._planned.stack.stage, self._planned.limits
        return WeightStage(
            self._part(f"stage{weights.suffix}"),
            {
                "namespace": self._namespace,
                "model": weights.model,
                "lock": weights.lock,
                "owner": weights.owner,
                "volume": volume.source,
                "placement": self._of_jobs(),
                "image": stage.image,
                "sources": stage.sources,
                "fan_out": self._planned.stack.fan_out and weights.lock is not None,
                "cache": None if weights.suffix else self._planned.cache_key,
                "streams": stage.streams,
                "native_xet": stage.native_xet,
                "environment": stage.environment,
                "secret": stage.secret,
                "service_account": self._account,
                "security": self._args.get("security", {}),
                "pod": self._args.get("pod", {}).get("stage", {}),
                "hub_token": self._args.get("hub_token"),
                "annotations": self._records.of_stage[weights.suffix],
                "deadline_seconds": limits.stage_deadline_seconds,
                "await_seconds": limits.stage_await_seconds,
                "kubeconfig": self._args.get("kubeconfig"),
                "context": self._args.get("context"),
            },
            self._within(after),
        )

    @cached_property
    def _account(self) -> pulumi.Input[str] | None:
        """Returns the stager's service account; makes the one that may read a mirror in S3. Servers have none."""
        stack = self._planned.stack
        if stack.aws is None or stack.aws.mirror is None:
            return stack.stage_account
        return ServiceAccount(
            self._part("stager"),
            metadata={"name": stack.stage_account, "namespace": self._namespace},
            opts=self._within(self._made_first),
        ).metadata["name"]

    def _installed(self) -> list[pulumi.Resource]:
        """Installs in the cluster what the stack asks for and the server needs."""
        if Installation.LEADER_WORKER_SET not in self._planned.stack.nodes.install:
            return []
        return [LeaderWorkerSetController(self._part("leaderworkerset"), {}, self._within())]

    def _server(
        self,
        volume: WeightVolume,
        stages: Mapping[WeightSet, WeightStage],
        installed: Sequence[pulumi.Resource],
    ) -> InferenceServer:
        stack = self._planned.stack
        *drafts, (model, stage) = stages.items()
        draft, of_draft = drafts[0] if drafts else (None, None)
        return InferenceServer(
            self._part("server"),
            {
                "namespace": self._namespace,
                "model": model.model,
                "lock": model.lock,
                "files_sha256": stage.files_sha256,
                "draft": draft.model if draft else None,
                "draft_lock": draft.lock if draft else None,
                "draft_files_sha256": of_draft.files_sha256 if of_draft else None,
                "volume": volume.source,
                "cache": self._planned.cache_key,
                "owner": stage.owner,
                "placement": self._placement,
                "engine": self._planned.engine,
                "pods": self._planned.pods,
                "limits": self._planned.start_limits,
                "verifier_image": stack.stage.image,
                "verify": stack.weights.verify,
                "service_name": self._service_name,
                "api_key": self._args.get("api_key"),
                "network": self._args.get("network", {}),
                "security": self._args.get("security", {}),
                "pod": self._args.get("pod", {}).get("server", {}),
                "annotations": self._records.of_server,
                "scrape_annotations": stack.metrics is not None and stack.metrics.kind is MetricsKind.ANNOTATIONS,
                "kubeconfig": self._args.get("kubeconfig"),
                "context": self._args.get("context"),
            },
            self._within([*(each for one in stages.values() for each in (one, one.staged)), *installed]),
        )

    def _metrics(self, server: InferenceServer) -> None:
        metrics, stack = self._planned.stack.metrics, self._planned.stack
        if metrics is None:
            return
        names = pulumi.Output.all(self._namespace, server.workload)
        of_stack = names.apply(
            lambda known: placeholders(
                stack,
                metrics,
                instance=stack_name(),
                namespace=known[0],
                server=self._part("server"),
                workload=known[1],
                jobs=f"{self._part('stage')}-{self._planned.digest}",
                volume=object_name(self._part("weights")),
                start_seconds=self._planned.limits.startup_seconds,
                ends=self._args.get("capacity_ends"),
            )
        )
        ServerMetrics(
            self._part("metrics"),
            {
                "namespace": self._namespace,
                "server": self._part("server"),
                "engine": stack.engine.name,
                "metrics": metrics,
                "placeholders": of_stack,
                "api_key": server.key_secret,
            },
            self._within(self._made_first),
        )

    def _expose(self, server: InferenceServer) -> None:
        """Creates the route of the Gateway, once the server answers."""
        expose = self._planned.stack.expose
        if expose is None:
            return
        if server.key_secret is None:
            pulumi.warn(_NO_KEY.format(hostname=expose.hostname), self)
        CustomResource(
            self._part("route"),
            api_version=GATEWAYS,
            kind="HTTPRoute",
            metadata={"namespace": self._namespace, "labels": labels(stack_name(), self._part("route"))},
            spec=http_route(expose, self._service_name, server.port),
            opts=self._within([server]),
        )

    def _prune(
        self, weights: WeightSet, volume: WeightVolume, stage: WeightStage, after: Sequence[pulumi.Resource]
    ) -> None:
        keep_newest = self._planned.stack.weights.keep_newest
        if keep_newest is None:
            return
        WeightPrune(
            self._part(f"prune{weights.suffix}"),
            {
                "namespace": self._namespace,
                "model": weights.model,
                "lock": weights.lock,
                "keep_newest": keep_newest,
                "cache": None if weights.suffix else self._planned.cache_key,
                "volume": volume.source,
                "placement": self._of_jobs(),
                "image": self._planned.stack.stage.image,
                "program": stage.program,
                "owner": stage.owner,
                "security": self._args.get("security", {}),
                "pod": self._args.get("pod", {}).get("stage", {}),
            },
            self._within(after),
        )
