"""The server: vLLM or llama.cpp behind one Service, started only from weights that were staged and verified.

One pod is a Deployment that is recreated, never rolled: a second copy would need GPUs that the first one holds. A
server over several nodes, or several servers, are groups of a LeaderWorkerSet. The Service has a fixed name, and comes
when the server serves: whatever depends on the component waits for that.
"""

from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service

from components.cluster.api import ClusterApi
from components.inference_group import LEADER, disruption_budget, leader_worker_set
from components.pods import fabric
from components.pods.labels import labels
from components.pods.placement import PodPlacement
from components.pods.server_pod import VERIFIER, ServerPod
from components.pods.serving import Serving
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import PlacedVolume
from components.rollout import server_watch
from components.rollout.server_watch import AWAITED_HERE, Server
from config.stack.sections import Engine, Verification
from engines.process import Role


class InferenceServerArgs(TypedDict):
    """What `InferenceServer` needs to know."""

    instance: str
    """Name of the stack, and of the Service."""
    namespace: str
    """Namespace of all objects."""
    weights: StagedWeights
    """What is served, and must be found on the volume."""
    volume: PlacedVolume
    """The volume that holds the weights."""
    placement: PodPlacement
    """The nodes to serve on."""
    engine: Engine
    """Image and requests, as the stack file has them."""
    model_file: NotRequired[str | None]
    """llama.cpp: the GGUF file to serve."""
    serving: Serving
    """What the plan settles."""
    verifier_image: str
    """Image with Python for the init container."""
    verify: Verification
    """How much is read again before each start."""
    api: ClusterApi
    """The cluster that it is made in, to see from there when it serves."""


class InferenceServer(pulumi.ComponentResource):
    """Serves one model behind one Service."""

    endpoint: pulumi.Output[str]
    """Base URL of the OpenAI-compatible API within the cluster; known when it answers."""

    def __init__(self, name: str, args: InferenceServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:InferenceServer", name, {}, opts)
        self._name, self._args = name, args
        self._labels = labels(args["instance"], "server")
        self._pod = self._server_pod()
        port = self._pod.process(Role.ALONE).port
        service = self._service(port, self._serving(self._workload(), port))
        self.endpoint = pulumi.Output.concat(
            "http://", service.metadata["name"], ".", args["namespace"], ".svc:", str(port), "/v1"
        )
        self.register_outputs({"endpoint": self.endpoint})

    def _server_pod(self) -> ServerPod:
        args = self._args
        return ServerPod(
            labels=self._labels,
            weights=args["weights"],
            volume=args["volume"],
            placement=args["placement"],
            engine=args["engine"],
            model_file=args.get("model_file"),
            serving=args["serving"],
            verifier_image=args["verifier_image"],
            verify=args["verify"],
            programs=self._programs().metadata["name"],
        )

    def _programs(self) -> ConfigMap:
        programs = [VERIFIER] if self._args["serving"].nodes == 1 else [fabric.CHECK, VERIFIER]
        return ConfigMap(
            f"{self._name}-verifier",
            metadata=self._metadata(),
            data={program.name: program.read_text() for program in programs},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _workload(self) -> pulumi.CustomResource:
        if self._args["serving"].pods == 1:
            return self._deployment()
        disruption_budget(self._name, self._metadata(), self._labels, self)
        return leader_worker_set(self._name, self._metadata(), self._pod, self)

    def _serving(self, workload: pulumi.CustomResource, port: int) -> pulumi.Output[pulumi.Resource]:
        """The workload, as soon as it serves; in a preview, at once."""
        args, serving = self._args, self._args["serving"]
        server = Server(
            api=args["api"],
            namespace=args["namespace"],
            instance=args["instance"],
            labels=self._labels,
            version=self._pod.version,
            port=port,
            pods=serving.pods,
            seconds=serving.await_seconds,
        )

        async def awaited(identity: str) -> pulumi.Resource:
            if not pulumi.runtime.is_dry_run():
                name = identity.rpartition("/")[2]
                await server_watch.until_it_serves(server, name, lambda words: pulumi.info(words, workload))
            return workload

        return workload.id.apply(awaited)

    def _deployment(self) -> Deployment:
        return Deployment(
            self._name,
            metadata=self._metadata() | {"annotations": AWAITED_HERE},
            spec={
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "selector": {"match_labels": self._labels},
                "template": self._pod.template(Role.ALONE),
            },
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _service(self, port: int, serving: pulumi.Output[pulumi.Resource]) -> Service:
        leaders = LEADER if self._args["serving"].pods > 1 else {}
        return Service(
            f"{self._name}-service",
            # The pods were awaited; a server that is down for a moment is no fault of the Service.
            metadata=self._metadata()
            | {"name": self._args["instance"], "annotations": {"pulumi.com/skipAwait": "true"}},
            spec={
                "selector": self._labels | leaders,
                "ports": [{"name": "http", "port": port, "target_port": "http"}],
            },
            opts=pulumi.ResourceOptions(parent=self, depends_on=[serving]),
        )

    def _metadata(self) -> dict[str, Any]:
        return {"namespace": self._args["namespace"], "labels": self._labels}
