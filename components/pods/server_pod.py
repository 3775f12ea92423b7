"""The pod of a server: the engine, and an init container that fails unless the expected weights are there.

A pod of a group also gets the fabric, and an init container that checks the fabric first. Weights are mounted
read-only, the engine runs offline, and no pod has a token.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import pulumi

from components.in_pod.packaging import VERIFIER
from components.pods import fabric
from components.pods.additions import NONE_TO_SERVERS, Additions
from components.pods.kept_cache import KeptCache
from components.pods.placement import HOSTNAME_LABEL, PodPlacement
from components.pods.security import PodSecurity
from components.pods.serving import Serving
from components.pods.staged_weights import WEIGHTS_MOUNT, StagedWeights
from components.pods.weight_source import PlacedVolume
from components.rollout.pod_report import VERSION_ANNOTATION
from config.quantity import whole_gibibytes
from config.stack.sections import Fabric, Verification
from engines.process import EngineProcess, Probe, ProcessStart, Role, termination_grace_seconds
from engines.registry import engine_of

_PROGRAMS_MOUNT = "/heavylift"
_VERIFIER_MOUNT = "/heavylift/stager"
"""The verifier's files are the package `stager`, of which they import one another."""
_VERIFIER_RESOURCES = {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}}
"""Our own choice: hashing needs little memory. Without a CPU limit, it uses the CPUs that are idle before the engine
starts."""
_WEIGHTS = {"name": "weights", "mount_path": WEIGHTS_MOUNT, "read_only": True}
_PROGRAMS = {"name": "verifier", "mount_path": _PROGRAMS_MOUNT, "read_only": True}


API_KEY = "api-key"
"""Key of the Secret that holds the API key."""

_SHARED_MEMORY = "shared-memory"

_CLEAN_START = ("sh", "-c", 'rm -rf /dev/shm/* && exec "$@"', "sh")
"""Start of a command. The volume of `/dev/shm` lives as long as the pod, so a container that restarts would find the
segments of the process that failed, which fill it and count as the pod's memory."""

_LEADER = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}
"""Label of the leaders. Only leaders serve requests."""


@dataclass(frozen=True)
class DraftWeights:
    """The staged draft model."""

    weights: StagedWeights
    programs: pulumi.Input[str] | None
    """Name of the ConfigMap with the program of its check. None: omitted, for the digest."""


@dataclass(frozen=True)
class ServerPod:
    """The pods of one server: what they share, and their specs by role."""

    labels: dict[str, str]
    weights: StagedWeights
    volume: PlacedVolume
    placement: PodPlacement
    serving: Serving
    security: PodSecurity
    verifier_image: pulumi.Input[str]
    """Image with Python for the init container."""
    verify: Verification
    programs: pulumi.Input[str] | None
    """Name of the ConfigMap with the programs of the init containers. None: omitted, for the digest."""
    draft: DraftWeights | None = None
    """The draft model for speculative decoding. None: there is none."""
    api_key: pulumi.Input[str] | None = None
    """Name of the Secret with the API key. None: the API is open."""
    cache: KeptCache | None = None
    """Where the engine keeps what it compiles. None: nowhere."""
    additions: Additions = NONE_TO_SERVERS
    scraped: bool = False
    """Whether annotations tell Prometheus where the pods that answer have their metrics."""

    def template(self, role: Role) -> dict[str, Any]:
        """Returns the pod template of a role."""
        annotations = {
            VERSION_ANNOTATION: self.version,
            **fabric.annotations(self._fabric(role)),
            **self._scrape_annotations(role),
        }
        return self.additions.template({"labels": self.labels, "annotations": annotations}, self.spec(role))

    @cached_property
    def version(self) -> pulumi.Output[str]:
        """Digest of the pod template; distinguishes current pods from those before a change.

        It does not cover the names of ConfigMap and claim, because a preview may not know them, and they change only
        together with something that it covers.
        """
        draft = replace(self.draft, programs=None) if self.draft else None
        cache = replace(self.cache, owner="") if self.cache else None
        unnamed = replace(self, programs=None, draft=draft, cache=cache, volume=self.volume.unnamed())
        parts: list[Any] = [[unnamed.spec(role), fabric.annotations(self._fabric(role))] for role in self.roles]
        if added := self.additions.settings.model_dump(exclude_defaults=True):
            parts.append(added)
        if self.scraped:
            parts.append(self._scrape_annotations(self.roles[0]))
        return pulumi.Output.json_dumps(parts, sort_keys=True).apply(
            lambda text: sha256(text.encode()).hexdigest()[:16]
        )

    @property
    def roles(self) -> tuple[Role, Role]:
        """Returns the role of each server's first pod, and the role of its other pods."""
        return (Role.ALONE, Role.ALONE) if self.serving.nodes == 1 else (Role.LEADER, Role.WORKER)

    @property
    def served_name(self) -> str:
        """Returns the name of the model in clients' requests."""
        return self.serving.served_name or self.weights.model.repository

    def process(self, role: Role) -> EngineProcess:
        """Returns the engine's process for a role."""
        start = ProcessStart(
            directory=self.weights.directory,
            served_name=self.served_name,
            host=self.serving.host,
            model_file=self.serving.model_file,
            arguments=self.serving.arguments,
            nodes=self.serving.nodes,
            ready_seconds=self.serving.engine_ready_seconds,
            drain_seconds=self.serving.drain_seconds,
            draft_directory=self.draft.weights.directory if self.draft else None,
            keeps_cache=self.cache is not None,
        )
        return engine_of(self.serving.engine).process(start, role)

    def service_spec(self) -> dict[str, Any]:
        """Returns the spec of the Service of all servers."""
        leaders = _LEADER if self.serving.pods > 1 else {}
        port = self.process(Role.ALONE).port
        return {
            "selector": self.labels | leaders,
            "ports": [{"name": "http", "port": port, "target_port": "http"}],
        }

    def _scrape_annotations(self, role: Role) -> dict[str, str]:
        """Returns the annotations that Prometheus' own Kubernetes example and Helm chart follow."""
        if not self.scraped or role is Role.WORKER:
            return {}
        path, port = engine_of(self.serving.engine).metrics.path, self.process(role).port
        return {"prometheus.io/scrape": "true", "prometheus.io/path": path, "prometheus.io/port": str(port)}

    def _fabric(self, role: Role) -> Fabric | None:
        return None if role is Role.ALONE else self.placement.fabric

    def spec(self, role: Role) -> dict[str, Any]:
        """Returns the pod spec of a role."""
        programs = [{"name": "verifier", "config_map": {"name": self.programs}}]
        checks = [self._verifier_container("verify", self.weights, "verifier")]
        if self.draft:
            programs.append({"name": "draft-verifier", "config_map": {"name": self.draft.programs}})
            checks.append(self._verifier_container("verify-draft", self.draft.weights, "draft-verifier"))
        directories = self._empty_directories(self.process(role))
        empty = [{"name": name, "empty_dir": content} for name, (_, content) in directories.items()]
        return {
            "automount_service_account_token": False,
            "enable_service_links": False,
            **self.security.pod(),
            "termination_grace_period_seconds": termination_grace_seconds(self.serving.drain_seconds),
            **self._scheduling(),
            **fabric.pod_network(self._fabric(role)),
            "init_containers": [*self._fabric_containers(role), *checks],
            "containers": [self._engine_container(role)],
            "volumes": [self.volume.served_pod_volume(), *programs, *empty],
        }

    def _scheduling(self) -> dict[str, Any]:
        """Returns the scheduling fields: the nodes of the placement, at most one pod on each."""
        fields = self.placement.scheduling()
        if self.serving.pods == 1:
            return fields
        others = {"label_selector": {"match_labels": self.labels}, "topology_key": HOSTNAME_LABEL}
        anti_affinity = {"pod_anti_affinity": {"required_during_scheduling_ignored_during_execution": [others]}}
        return fields | {"affinity": fields.get("affinity", {}) | anti_affinity}

    def _fabric_containers(self, role: Role) -> list[dict[str, Any]]:
        """Returns the fabric check, which runs with the engine's image, environment, devices and rights."""
        command = fabric.check_command(self._fabric(role), _PROGRAMS_MOUNT, self.serving.collective_library)
        if command is None:
            return []
        limits = {"cpu": "1", "memory": "256Mi", **fabric.resources(self._fabric(role))}
        return [
            {
                "name": "fabric",
                "image": self.serving.image,
                "command": command,
                "env": self._environment(role),
                "resources": {"limits": limits},
                **self.security.container(),
                "termination_message_policy": "FallbackToLogsOnError",
                "volume_mounts": [_PROGRAMS],
            }
        ]

    def _verifier_container(self, name: str, weights: StagedWeights, programs: str) -> dict[str, Any]:
        """Returns the container that checks weights, by the programs in the volume of that name."""
        model = weights.model
        command = ["python3", f"{_VERIFIER_MOUNT}/{VERIFIER}", weights.directory]
        command += ["--repository", model.repository, "--revision", model.revision]
        command += ["--full"] if self.verify is Verification.FULL else []
        # A node that has just joined may be given this pod while it is staged.
        command += [f"--wait-seconds={self.serving.weights_seconds}"] if self.volume.of_group else []
        return {
            "name": name,
            "image": self.verifier_image,
            "command": command,
            "env": [{"name": "PYTHONDONTWRITEBYTECODE", "value": "1"}],
            "resources": _VERIFIER_RESOURCES,
            **self.security.container(),
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [_WEIGHTS, {"name": programs, "mount_path": _VERIFIER_MOUNT, "read_only": True}],
        }

    def _engine_container(self, role: Role) -> dict[str, Any]:
        process = self.process(role)
        directories = self._empty_directories(process)
        return {
            "name": "engine",
            "image": self.serving.image,
            "command": [*(_CLEAN_START if _SHARED_MEMORY in directories else ()), *process.command],
            "args": list(process.arguments),
            "env": [*self._environment(role), *self._key_variable(role, process)],
            **({} if role is Role.WORKER else self._port_and_probes(process)),
            **({"lifecycle": {"pre_stop": {"exec_": {"command": list(process.pre_stop)}}}} if process.pre_stop else {}),
            "resources": self._resources(role),
            **self.security.container(),
            "termination_message_policy": "FallbackToLogsOnError",
            "volume_mounts": [
                _WEIGHTS,
                *self._cache_mount(process),
                *({"name": name, "mount_path": path} for name, (path, _) in directories.items()),
            ],
        }

    def _cache_mount(self, process: EngineProcess) -> list[dict[str, Any]]:
        """Returns the only mount with write access to the volume: the directory of this server's user."""
        if self.cache is None or process.kept_cache is None:
            return []
        return [{"name": "weights", "mount_path": process.kept_cache, "sub_path": self.cache.sub_path}]

    def _port_and_probes(self, process: EngineProcess) -> dict[str, Any]:
        """Returns port and probes. Workers have neither, because the leader is healthy only if its whole group is."""
        startup = Probe(self.serving.startup_period_seconds, self.serving.startup_failure_threshold)
        return {
            "ports": [{"name": "http", "container_port": process.port}],
            "startup_probe": _probe(process.health_path, startup),
            "liveness_probe": _probe(process.health_path, process.liveness),
            "readiness_probe": _probe(process.health_path, process.readiness),
        }

    def _environment(self, role: Role) -> list[dict[str, Any]]:
        """Returns the environment. Precedence: caller, then engine, then fabric."""
        group_variables = {} if role is Role.ALONE else fabric.environment(self.placement.fabric)
        process = self.process(role)
        values: dict[str, pulumi.Input[str]] = {**group_variables, **process.environment, **self.serving.environment}
        plain = [{"name": name, "value": values[name]} for name in sorted(values)]
        fields = [
            {"name": name, "value_from": {"field_ref": {"field_path": path}}}
            for name, path in sorted(process.pod_fields.items())
        ]
        return [*plain, *fields]

    def _key_variable(self, role: Role, process: EngineProcess) -> list[dict[str, Any]]:
        if self.api_key is None or role is Role.WORKER:
            return []
        key = {"secret_key_ref": {"name": self.api_key, "key": API_KEY}}
        return [{"name": process.keyed.variable, "value_from": key}]

    def _empty_directories(self, process: EngineProcess) -> dict[str, tuple[str, dict[str, str]]]:
        """Returns the pod's `emptyDir` volumes: name to mount path and content."""
        serving = self.serving
        directories: dict[str, tuple[str, dict[str, str]]] = {
            name: (mount, {}) for name, mount in process.cache_directories.items()
        }
        if self.security.is_restricted:
            directories["tmp"] = ("/tmp", {})  # noqa: S108 - a volume of the pod
        if serving.shared_memory_bytes:
            size = whole_gibibytes(serving.shared_memory_bytes)
            directories[_SHARED_MEMORY] = ("/dev/shm", {"medium": "Memory", "size_limit": size})  # noqa: S108
        if serving.masked_directory:
            directories["masked"] = (serving.masked_directory, {})
        return directories

    def _resources(self, role: Role) -> dict[str, Any]:
        serving = self.serving
        requests = {"cpu": str(serving.cpus) if serving.cpus else None, "memory": serving.memory_request}
        limits: dict[str, str | None] = {"memory": serving.memory_limit}
        if (resource := self.placement.gpu_resource) and serving.gpus:
            limits[resource] = str(serving.gpus)
        limits |= fabric.resources(self._fabric(role))
        stated = {
            kind: {name: amount for name, amount in amounts.items() if amount is not None}
            for kind, amounts in (("requests", requests), ("limits", limits))
        }
        return {kind: amounts for kind, amounts in stated.items() if amounts}


def _probe(path: str, probe: Probe) -> dict[str, Any]:
    return {
        "http_get": {"path": path, "port": "http"},
        "timeout_seconds": probe.timeout_seconds,
        "period_seconds": probe.period_seconds,
        "failure_threshold": probe.failure_threshold,
    }
