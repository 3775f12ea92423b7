"""One model, from the sections of a stack file to a server that answers: plan, preflight, volume, stage, serve, prune.

Fails with the planner's reasons before it registers a resource. Most programs need only this component; each of the
components that it contains also works alone.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, assert_never

import pulumi
from pulumi_kubernetes.core.v1 import Namespace, ServiceAccount

from components.arguments import Placement, whole_numbers
from components.bare_metal_gpu_nodes import BareMetalGpuNodes
from components.cluster.preflight import PreflightResult
from components.inference_server import InferenceServer
from components.leader_worker_set_controller import LeaderWorkerSetController
from components.planned.cluster_check import checked_cluster
from components.planned.model import planned_model
from components.pods.labels import labels
from components.pods.names import object_name, stack_name
from components.weight_prune import WeightPrune
from components.weight_stage import WeightStage
from components.weight_volume import WeightVolume
from config.catalogue import described_gpu
from config.stack import arguments
from config.stack.sections import Installation, NodeKind


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
    """User and group of the Jobs. Unset: user 2000, or the image's own for weights of kind `host-path`."""
    pod: NotRequired[arguments.Pod]
    """Additions to the pods of the server and of the Jobs. Unset: none."""
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


class Release(TypedDict):
    """What is served, in enough detail to compare it with another stack."""

    repository: str
    """Repository on the model hub."""
    revision: str
    """Revision, as the stack states it."""
    include: Sequence[str]
    """Patterns of the staged files. Empty: all files."""
    weights_digest: str
    """Digest of the staged weights."""
    lock_sha256: NotRequired[str]
    """SHA-256 of the weights lock file. Unset: no lock."""
    engine: str
    """Name of the engine."""
    version: str
    """Version of the engine."""
    image: str
    """Image of the engine."""


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
        self._namespace, self._candidates = cluster.namespace, cluster.preflight.candidates

        self._made_first = namespace = self._made_namespace(cluster.preflight)
        self._placement = self._placed()
        volume = self._volume(cluster.preflight, namespace)
        stage = self._stage(volume, [*namespace, volume])
        server = self._server(volume, stage, self._installed())
        self._prune(volume, stage, [server])

        self.endpoint, self.answered = server.endpoint, server.answered
        stack = self._planned.stack
        self.model = pulumi.Output.from_input(stack.engine.served_name or stack.model.repository)
        self.revision = pulumi.Output.from_input(stack.model.revision)
        self.plan = pulumi.Output.from_input(self._planned.plan.as_dict())
        self.release = pulumi.Output.from_input(self._release())
        self.files_sha256 = stage.files_sha256
        outputs = ("endpoint", "answered", "model", "revision", "plan", "release", "files_sha256")
        self.register_outputs({output: getattr(self, output) for output in outputs})

    def _sections(self) -> dict[str, Any]:
        """Returns the sections as in a stack file."""
        args = self._args
        in_aws = {"aws": args["aws"]} if "aws" in args else {}
        return {section: args[section] for section in ("model", "weights", "stage", "engine")} | {
            **in_aws,
            "nodes": args.get("nodes", {}),
            "security": args.get("security", {}),
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

    def _stage(self, volume: WeightVolume, after: Sequence[pulumi.Resource]) -> WeightStage:
        stage, limits = self._planned.stack.stage, self._planned.limits
        return WeightStage(
            self._part("stage"),
            {
                "namespace": self._namespace,
                "model": self._args["model"],
                "lock": self._lock(),
                "volume": volume.source,
                "placement": self._of_jobs(),
                "image": stage.image,
                "sources": stage.sources,
                "fan_out": self._planned.stack.fan_out,
                "streams": stage.streams,
                "native_xet": stage.native_xet,
                "environment": stage.environment,
                "secret": stage.secret,
                "service_account": self._account(),
                "security": self._args.get("security", {}),
                "pod": self._args.get("pod", {}).get("stage", {}),
                "hub_token": self._args.get("hub_token"),
                "owner": self._service_name,
                "deadline_seconds": limits.stage_deadline_seconds,
                "await_seconds": limits.stage_await_seconds,
                "kubeconfig": self._args.get("kubeconfig"),
                "context": self._args.get("context"),
            },
            self._within(after),
        )

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
        self, volume: WeightVolume, stage: WeightStage, installed: Sequence[pulumi.Resource]
    ) -> InferenceServer:
        stack = self._planned.stack
        return InferenceServer(
            self._part("server"),
            {
                "namespace": self._namespace,
                "model": self._args["model"],
                "lock": self._lock(),
                "files_sha256": stage.files_sha256,
                "volume": volume.source,
                "placement": self._placement,
                "engine": self._planned.engine,
                "pods": self._planned.pods,
                "limits": self._planned.start_limits,
                "verifier_image": stack.stage.image,
                "verify": stack.weights.verify,
                "service_name": self._service_name,
                "api_key": self._args.get("api_key"),
                "pod": self._args.get("pod", {}).get("server", {}),
                "kubeconfig": self._args.get("kubeconfig"),
                "context": self._args.get("context"),
            },
            self._within([stage, stage.staged, *installed]),
        )

    def _prune(self, volume: WeightVolume, stage: WeightStage, after: Sequence[pulumi.Resource]) -> None:
        keep_newest = self._planned.stack.weights.keep_newest
        if keep_newest is None:
            return
        WeightPrune(
            self._part("prune"),
            {
                "namespace": self._namespace,
                "model": self._args["model"],
                "lock": self._lock(),
                "keep_newest": keep_newest,
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

    def _lock(self) -> str | None:
        return self._planned.lock.text if self._planned.lock else None

    def _release(self) -> Release:
        model, engine, lock = self._planned.stack.model, self._planned.stack.engine, self._planned.lock
        release: Release = {
            "repository": model.repository,
            "revision": model.revision,
            "include": list(model.include),
            "weights_digest": self._planned.digest,
            "engine": str(engine.name),
            "version": engine.version,
            "image": engine.image,
        }
        return {**release, "lock_sha256": lock.sha256} if lock else release
