"""The server: vLLM, SGLang or llama.cpp behind one Service, which starts only from staged and verified weights.

A single pod is a Deployment with the strategy Recreate, because a rolling update would need a second set of GPUs.
Several pods are groups of a LeaderWorkerSet. The Service has a fixed name and is created when the server answers, so
that resources that depend on the component wait for the server.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.apiextensions import CustomResource
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Secret, Service
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.arguments import (
    Placement,
    ServerEngine,
    ServerPods,
    StartLimits,
    WeightSource,
    read_section,
    whole_numbers,
)
from components.cluster.api import ClusterUnreachable, cluster_api
from components.in_pod.packaging import verifier_texts
from components.inference_group import disruption_budget, leader_worker_set
from components.network.api_server import api_server_addresses
from components.network.policies import server_policy
from components.pods import fabric
from components.pods.additions import Additions
from components.pods.kept_cache import KeptCache
from components.pods.labels import labels
from components.pods.names import object_name, stack_name
from components.pods.ordered_weights import ordered_weights
from components.pods.placement import PodPlacement
from components.pods.security import PodSecurity
from components.pods.server_pod import API_KEY, DraftWeights, ServerPod
from components.pods.serving import Serving
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import served_volume
from components.rollout import server_watch
from components.rollout.first_answer import ProbeRequest
from components.rollout.server_watch import AWAITED_HERE, Server
from config.stack import arguments
from config.stack.sections import Network, PodNetwork, Security, Verification
from engines.process import EngineProcess, Role, termination_grace_seconds
from planner.time_limits import PULUMI_GRACE_SECONDS

_NOT_ASKED = "unknown: no kubeconfig was given to ask the server with"

_OPEN = (
    "the API key does not protect {paths}: whoever reaches the Service can use them; heavylift:network.from says who "
    "reaches it, and heavylift:expose lets clients outside the cluster use other paths only"
)

_HOST_NETWORK = (
    "the server's pods use the network of their nodes (nodes.fabric.network: host), to which no NetworkPolicy applies: "
    "whoever reaches the nodes reaches the ports of the ranks, which ask for no key; close them by a firewall"
)

_DELETION_SECONDS = 600
"""Pulumi's default for a deletion, here beside the time that the pods get to terminate."""


class InferenceServerArgs(TypedDict):
    """The arguments of `InferenceServer`."""

    namespace: pulumi.Input[str]
    """Namespace of all objects."""
    model: arguments.StagedRepository
    """The model to serve, one repository at one revision. The volume must contain its staged weights."""
    lock: NotRequired[str | None]
    """Text of the weights lock file that the stage used. Unset: none."""
    files_sha256: NotRequired[pulumi.Input[str] | None]
    """Without a lock: `WeightStage.files_sha256`, with which the check before serving compares the manifest. Unset or
    empty: the check knows only repository and revision."""
    draft: NotRequired[arguments.StagedRepository | None]
    """The draft model for speculative decoding, one repository at one revision. The volume must contain its staged
    weights, and `engine.arguments` say how many tokens it drafts. Unset: none."""
    draft_lock: NotRequired[str | None]
    """Text of the lock file with which the draft model was staged. Unset: none."""
    draft_files_sha256: NotRequired[pulumi.Input[str] | None]
    """As `files_sha256`, of the draft model."""
    volume: WeightSource
    """The volume with the weights."""
    placement: Placement
    """The nodes to serve on."""
    engine: ServerEngine
    """The engine, with its arguments and environment."""
    pods: NotRequired[ServerPods]
    """The number of pods, and the resources of each. Unset: one pod without GPUs."""
    limits: NotRequired[StartLimits]
    """Time limits for a server to start and to terminate. Unset: long enough for the largest models."""
    verifier_image: pulumi.Input[str]
    """Image with Python 3.11 or newer, such as `python:3.12-slim`, for the init container that checks the weights."""
    verify: NotRequired[Verification]
    """What to check before each start. `quick`: small files by hash, large files by size and times. `full`: every byte.
    Unset: `quick`."""
    cache: NotRequired[str | None]
    """Key of the directory beside the weights where vLLM keeps what it compiles, as for `WeightStage`, which makes it.
    Unset: it compiles at each start."""
    owner: NotRequired[pulumi.Input[str]]
    """Owner of that directory: `WeightStage.owner`. Required with `cache`."""
    service_name: NotRequired[str | None]
    """Name of the Service. Unset: `<stack>-<name>`."""
    api_key: NotRequired[pulumi.Input[str] | None]
    """API key that clients send as `Authorization: Bearer <key>`, as a secret. Unset: the API is open to everyone who
    reaches the Service."""
    network: NotRequired[arguments.Network]
    """Who may call the server, and what its pods may reach. Unset: every client may, and the server reaches its own
    ranks and DNS only."""
    security: NotRequired[arguments.Security]
    """User and rights of the server's pods. Unset: what Pod Security level `restricted` requires, but for a directory
    of the node as the volume."""
    pod: NotRequired[arguments.PodSettings]
    """Additions to the server's pods. Unset: none."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of the Deployment or LeaderWorkerSet, whose change restarts nothing. Unset: none."""
    scrape_annotations: NotRequired[bool]
    """Annotate the pods for a Prometheus that follows `prometheus.io/scrape`. A change restarts the server. Unset:
    false."""
    kubeconfig: NotRequired[pulumi.Input[str] | None]
    """Text of a kubeconfig, as a secret. With it, `pulumi up` reports the pods' progress, fails early if they cannot
    start, and requests one token from the server. Unset: Pulumi's own wait."""
    context: NotRequired[str | None]
    """Context of that kubeconfig. Unset: its current one."""


class InferenceServer(pulumi.ComponentResource):
    """Serves one model behind one Service, from staged and verified weights."""

    endpoint: pulumi.Output[str]
    """Base URL of the OpenAI-compatible API within the cluster. Known when the server is ready."""
    answered: pulumi.Output[str]
    """Whether the server gave a first token: `yes`, or `unknown: <reason>`. A preview shows the expected value."""
    workload: pulumi.Output[str]
    """Name of the Deployment or LeaderWorkerSet. The names of its pods begin with it."""

    def __init__(self, name: str, args: InferenceServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._name, self._args = name, whole_numbers(args)
        self._service_name = self._args.get("service_name") or object_name(name)
        self._labels = labels(stack_name(), name)
        self._serving = Serving.of(self._args["engine"], self._args.get("pods", {}), self._args.get("limits", {}))
        self._weights = StagedWeights.of(self._args["model"], self._args.get("lock"))
        draft = self._args.get("draft")
        self._draft = StagedWeights.of(draft, self._args.get("draft_lock"), "draft") if draft else None
        placement = PodPlacement.of(self._args["placement"])
        volume = served_volume(self._args["volume"], placement)
        security = PodSecurity.of_server(read_section(Security, "security", self._args.get("security") or {}))
        super().__init__("heavylift:index:InferenceServer", name, {}, opts)
        key = self._key_secret()
        self.key_secret = key.metadata["name"] if key else None
        self._pod = ServerPod(
            labels=self._labels,
            weights=self._weights,
            volume=volume,
            placement=placement,
            serving=self._serving,
            security=security,
            verifier_image=self._args["verifier_image"],
            verify=Verification(self._args.get("verify", Verification.QUICK)),
            programs=self._programs().metadata["name"],
            draft=self._draft_weights(),
            api_key=self.key_secret,
            cache=self._cache(),
            additions=Additions.of_server(self._args.get("pod")),
            scraped=self._args.get("scrape_annotations", False),
        )
        process = self._pod.process(Role.ALONE)
        if key and process.keyed.open_paths:
            pulumi.warn(_OPEN.format(paths=", ".join(process.keyed.open_paths)), self)
        if self._serving.nodes > 1 and placement.fabric and placement.fabric.network is PodNetwork.HOST:
            pulumi.warn(_HOST_NETWORK, self)
        self._policy = self._network_policy(process)
        workload = self._workload()
        # The SDK sets it on every CustomResource, and declares it on none.
        self.workload = workload.metadata["name"]  # type: ignore[union-attr]
        self.answered = self._until_it_answers(workload, process)
        self.port = process.port
        service = self._service(self.answered.apply(lambda _: workload))
        self.endpoint = pulumi.Output.concat(
            "http://", service.metadata["name"], ".", self._args["namespace"], ".svc:", str(process.port), "/v1"
        )
        outputs = ("endpoint", "answered", "workload")
        self.register_outputs({output: getattr(self, output) for output in outputs})

    @property
    def _is_watched(self) -> bool:
        return self._args.get("kubeconfig") is not None

    def _programs(self) -> ConfigMap:
        check = {} if self._serving.nodes == 1 else {fabric.CHECK.name: fabric.CHECK.read_text()}
        return ConfigMap(
            f"{self._name}-verifier",
            metadata=self._metadata(),
            data=check | verifier_texts(),
            binary_data=ordered_weights(self._weights, self._args.get("lock"), self._args.get("files_sha256")),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _draft_weights(self) -> DraftWeights | None:
        """Returns the draft model with the ConfigMap of its check, which expects other files than that of the model."""
        if self._draft is None:
            return None
        programs = ConfigMap(
            f"{self._name}-draft-verifier",
            metadata=self._metadata(),
            data=verifier_texts(),
            binary_data=ordered_weights(
                self._draft, self._args.get("draft_lock"), self._args.get("draft_files_sha256")
            ),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return DraftWeights(self._draft, programs.metadata["name"])

    def _cache(self) -> KeptCache | None:
        key, owner = self._args.get("cache"), self._args.get("owner")
        if key is None:
            return None
        if owner is None:
            raise pulumi.RunError("owner: is missing: expected WeightStage.owner with cache; nothing was created")
        return KeptCache(owner, key)

    def _key_secret(self) -> Secret | None:
        """Creates the Secret with the API key. It is immutable, so that another key gets another Secret, and the pods
        start again with it."""
        key = self._args.get("api_key")
        if key is None:
            return None
        return Secret(
            f"{self._name}-api-key",
            metadata=self._metadata(),
            immutable=True,
            string_data={API_KEY: pulumi.Output.secret(key)},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _network_policy(self, process: EngineProcess) -> NetworkPolicy:
        """Creates the policy of the server's pods, before the pods."""
        network = read_section(Network, "network", self._args.get("network") or {})
        kubeconfig, is_group = self._args.get("kubeconfig"), self._serving.nodes > 1
        policy = partial(server_policy, self._labels, process.port, network, is_group=is_group)
        spec: Any = policy(())
        if network.callers is not None and kubeconfig is not None:
            spec = pulumi.Output.unsecret(pulumi.Output.from_input(kubeconfig).apply(self._api_server)).apply(policy)
        return NetworkPolicy(
            f"{self._name}-network",
            metadata=self._metadata(),
            spec=spec,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _api_server(self, kubeconfig: str) -> list[str]:
        """Returns the addresses of the API server, for its request. Empty in a preview that cannot reach it."""
        try:
            return api_server_addresses(cluster_api(kubeconfig, self._args.get("context")))
        except ClusterUnreachable as refusal:
            if pulumi.runtime.is_dry_run():
                return []
            raise pulumi.RunError(f"the addresses of the API server cannot be read: {refusal}") from None

    def _workload(self) -> Deployment | CustomResource:
        if self._serving.pods == 1:
            return self._deployment()
        disruption_budget(self._name, self._metadata(), self._labels, self)
        own_wait = {"pulumi.com/waitFor": "condition=Available"}
        return leader_worker_set(self._name, self._workload_metadata(own_wait), self._pod, self._options())

    def _until_it_answers(self, workload: pulumi.CustomResource, process: EngineProcess) -> pulumi.Output[str]:
        """Waits until the server is ready. Returns whether it answers. A preview does not wait."""
        args, serving = self._args, self._serving
        kubeconfig = args.get("kubeconfig")
        if kubeconfig is None:
            return workload.id.apply(lambda _: _NOT_ASKED)

        async def answered(known: list[str]) -> str:
            identity, namespace, version, config, key = known
            server = Server(
                api=cluster_api(config, args.get("context")),
                namespace=namespace,
                instance=stack_name(),
                labels=self._labels,
                version=version,
                request=_first_request(process, self._pod.served_name, key),
                pods=serving.pods,
                seconds=serving.await_seconds,
            )
            name = identity.rpartition("/")[2]
            if pulumi.runtime.is_dry_run():
                await server_watch.warn_if_gone(server, name)
                return "yes"
            return await server_watch.wait_until_ready(server, name, lambda words: pulumi.info(words, workload))

        key = args.get("api_key") or ""
        known = pulumi.Output.all(workload.id, args["namespace"], self._pod.version, kubeconfig, key)
        return pulumi.Output.unsecret(known.apply(answered))

    def _deployment(self) -> Deployment:
        own_wait: dict[str, Any] = {"progress_deadline_seconds": self._serving.await_seconds}
        return Deployment(
            self._name,
            metadata=self._workload_metadata({}),
            spec={
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"match_labels": self._labels},
                "template": self._pod.template(Role.ALONE),
                **({} if self._is_watched else own_wait),
            },
            opts=self._options(),
        )

    def _options(self) -> pulumi.ResourceOptions:
        """Pulumi's timeouts are longer than the cluster's. With a kubeconfig, Pulumi waits for deletions only."""
        start = None if self._is_watched else f"{self._serving.await_seconds + PULUMI_GRACE_SECONDS}s"
        end = f"{termination_grace_seconds(self._serving.drain_seconds) + _DELETION_SECONDS}s"
        timeouts = pulumi.CustomTimeouts(create=start, update=start, delete=end)
        return pulumi.ResourceOptions(parent=self, custom_timeouts=timeouts, depends_on=[self._policy])

    def _service(self, serving: pulumi.Output[pulumi.Resource]) -> Service:
        return Service(
            f"{self._name}-service",
            # The wait for the pods is enough: a server that is briefly down must not fail the Service.
            metadata=self._metadata() | {"name": self._service_name, "annotations": {"pulumi.com/skipAwait": "true"}},
            spec=self._pod.service_spec(),
            opts=pulumi.ResourceOptions(parent=self, depends_on=[serving]),
        )

    def _metadata(self) -> dict[str, Any]:
        return {"namespace": self._args["namespace"], "labels": self._labels}

    def _workload_metadata(self, own_wait: Mapping[str, str]) -> dict[str, Any]:
        """`own_wait`: annotations by which Pulumi waits, if nobody watches the pods."""
        waits = AWAITED_HERE if self._is_watched else own_wait
        annotations = {**self._args.get("annotations", {}), **waits}
        labels = {**self._labels, **self._pod.additions.settings.labels}
        return self._metadata() | {"labels": labels} | ({"annotations": annotations} if annotations else {})


def _first_request(process: EngineProcess, model: str, key: str) -> ProbeRequest:
    if not key:
        return ProbeRequest(process.port, model)
    headers = {process.keyed.header: key} if process.keyed.header else {}
    return ProbeRequest(process.port, model, process.keyed.path, headers, process.keyed.takes_prompt)
