"""The server: vLLM or llama.cpp on one node, started only from weights that were staged and verified.

One Deployment that is recreated, never rolled (a second copy would need GPUs that the first one
holds), behind a Service with a fixed name. An init container refuses to start unless the directory
holds exactly the expected weights. The pod mounts them read-only and offline, and knows no token.
"""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.apps.v1 import Deployment
from pulumi_kubernetes.core.v1 import ConfigMap, Service

from components import llama_cpp, vllm
from components.engine_process import EngineProcess
from components.labels import labels
from components.placement import Placement
from components.serving import Serving
from components.staged_weights import WEIGHTS_MOUNT, StagedWeights
from components.weight_volume import PlacedVolume
from config.quantity import quantity_bytes, whole_gibibytes
from config.stack import Engine, EngineName, Verification

_VERIFIER = Path(__file__).resolve().parent.parent / "stager" / "verify.py"
_VERIFIER_MOUNT = "/heavylift"
_VERIFIER_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
_WEIGHTS = {"name": "weights", "mount_path": WEIGHTS_MOUNT, "read_only": True}


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
    placement: Placement
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


class InferenceServer(pulumi.ComponentResource):
    """Serves one model on one node behind one Service."""

    endpoint: pulumi.Output[str]
    """Base URL of the OpenAI-compatible API within the cluster."""

    def __init__(self, name: str, args: InferenceServerArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:InferenceServer", name, {}, opts)
        self._name, self._args = name, args
        self._labels = labels(args["instance"], "server")
        self._process = _process(args)
        self._verifier = ConfigMap(
            f"{name}-verifier",
            metadata=self._metadata(),
            data={_VERIFIER.name: _VERIFIER.read_text()},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._deployment()
        service = self._service()
        self.endpoint = pulumi.Output.concat(
            "http://", service.metadata["name"], ".", args["namespace"], ".svc:", str(self._process.port), "/v1"
        )
        self.register_outputs({"endpoint": self.endpoint})

    def _deployment(self) -> Deployment:
        serving = self._args["serving"]
        seconds = f"{serving.await_seconds}s"
        return Deployment(
            self._name,
            metadata=self._metadata(),
            spec={
                "replicas": 1,
                "strategy": {"type": "Recreate"},
                "progress_deadline_seconds": serving.progress_deadline_seconds,
                "selector": {"match_labels": self._labels},
                "template": {"metadata": {"labels": self._labels}, "spec": self._pod()},
            },
            opts=pulumi.ResourceOptions(
                parent=self, custom_timeouts=pulumi.CustomTimeouts(create=seconds, update=seconds)
            ),
        )

    def _service(self) -> Service:
        return Service(
            f"{self._name}-service",
            # Pulumi would give up on it after ten minutes without an endpoint; the Deployment is what is awaited.
            metadata=self._metadata()
            | {"name": self._args["instance"], "annotations": {"pulumi.com/skipAwait": "true"}},
            spec={
                "selector": self._labels,
                "ports": [{"name": "http", "port": self._process.port, "target_port": "http"}],
            },
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _pod(self) -> dict[str, Any]:
        verifier = {"name": "verifier", "config_map": {"name": self._verifier.metadata["name"]}}
        empty = [{"name": name, "empty_dir": content} for name, (_, content) in self._empty_directories().items()]
        return {
            "automount_service_account_token": False,
            **self._args["placement"].scheduling(),
            "init_containers": [self._verifier_container()],
            "containers": [self._engine_container()],
            "volumes": [self._args["volume"].served_pod_volume(), verifier, *empty],
        }

    def _verifier_container(self) -> dict[str, Any]:
        weights = self._args["weights"]
        command = ["python3", f"{_VERIFIER_MOUNT}/{_VERIFIER.name}", weights.directory]
        command += ["--repository", weights.model.repository, "--revision", weights.model.revision]
        command += ["--full"] if self._args["verify"] is Verification.FULL else []
        return {
            "name": "verify",
            "image": self._args["verifier_image"],
            "command": command,
            "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
            "resources": _VERIFIER_RESOURCES,
            "security_context": {"allow_privilege_escalation": False},
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [_WEIGHTS, {"name": "verifier", "mount_path": _VERIFIER_MOUNT, "read_only": True}],
        }

    def _engine_container(self) -> dict[str, Any]:
        process, engine, serving = self._process, self._args["engine"], self._args["serving"]
        environment = dict(process.environment) | dict(serving.environment) | dict(engine.environment)
        health = {"http_get": {"path": "/health", "port": "http"}, "timeout_seconds": 10}
        directories = self._empty_directories()
        return {
            "name": "engine",
            "image": engine.image,
            "command": list(process.command),
            "args": list(process.arguments),
            "env": [{"name": name, "value": value} for name, value in sorted(environment.items())],
            "ports": [{"name": "http", "container_port": process.port}],
            "startup_probe": health
            | {
                "period_seconds": serving.startup_period_seconds,
                "failure_threshold": serving.startup_failure_threshold,
            },
            "liveness_probe": health | {"period_seconds": 30, "failure_threshold": 3},
            "readiness_probe": health | {"period_seconds": 10, "failure_threshold": 3},
            "resources": self._resources(),
            "security_context": {"allow_privilege_escalation": False},
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [
                _WEIGHTS,
                *({"name": name, "mount_path": path} for name, (path, _) in directories.items()),
            ],
        }

    def _empty_directories(self) -> dict[str, tuple[str, dict[str, str]]]:
        """The pod's empty volumes: name to mount path and content."""
        serving = self._args["serving"]
        directories: dict[str, tuple[str, dict[str, str]]] = {}
        if self._args["engine"].name is EngineName.VLLM:
            directories["cache"] = (vllm.CACHE_MOUNT, {})
        if serving.shared_memory_bytes:
            size = whole_gibibytes(serving.shared_memory_bytes)
            directories["shared-memory"] = ("/dev/shm", {"medium": "Memory", "size_limit": size})  # noqa: S108
        if serving.masked_directory:
            directories["masked"] = (serving.masked_directory, {})
        return directories

    def _resources(self) -> dict[str, Any]:
        """What is written to `/dev/shm` counts against the memory limit, so the limit has room for it."""
        engine, serving = self._args["engine"], self._args["serving"]
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        if engine.cpus:
            requests["cpu"] = str(engine.cpus)
        if engine.memory:
            requests["memory"] = engine.memory
            limits["memory"] = whole_gibibytes(quantity_bytes(engine.memory) + serving.shared_memory_bytes)
        elif serving.memory_bytes:
            requests["memory"] = limits["memory"] = whole_gibibytes(serving.memory_bytes)
        if (resource := self._args["placement"].gpu_resource) and serving.gpus:
            limits[resource] = str(serving.gpus)
        return {name: amounts for name, amounts in (("requests", requests), ("limits", limits)) if amounts}

    def _metadata(self) -> dict[str, Any]:
        return {"namespace": self._args["namespace"], "labels": self._labels}


def _process(args: InferenceServerArgs) -> EngineProcess:
    if args["engine"].name is EngineName.VLLM:
        return vllm.process(args["weights"], args["serving"])
    file = args.get("model_file")
    if file is None:
        raise ValueError("InferenceServer: llama.cpp needs model_file")
    return llama_cpp.process(args["weights"], args["serving"], file)
