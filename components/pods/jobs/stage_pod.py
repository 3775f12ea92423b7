"""The pod that stages weights: an init container that installs the requirements, and the stager.

In a Job, the stager is the pod's container. On a group of nodes it is another init container, and the pod stays.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pulumi

from components.in_pod.packaging import INSTALLER
from components.pods.jobs.stage_fleet import StageFleet
from components.pods.jobs.stager_job import RUN_STAGER, STAGER, StagerJob
from components.pods.labels import stage_labels
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import PlacedVolume
from stager.manifest import OWN_DIRECTORY

LOCK_FILE = "weights.lock.json"
TOKEN_KEY = "HF_TOKEN"  # noqa: S105 - the name of the key, not a token

_PACKAGES = "packages"
_PACKAGES_MOUNT = "/packages"

_RESOURCES = {
    "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
    "limits": {"memory": "2Gi", "ephemeral-storage": "2Gi"},
}
"""The stager's buffers do not grow with the size of the model. The requirements use the ephemeral storage."""

_RESIDENT_RESOURCES = _RESOURCES | {"requests": {"cpu": "100m", "memory": "128Mi", "ephemeral-storage": "1Gi"}}
"""For a pod that stays: the scheduler reserves the largest request of its containers while the pod exists, and the
server needs the rest. The stager may use what is idle, which is nearly all before the server starts."""

_WAIT_RESOURCES = {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}
_WAIT = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); signal.sigwait([signal.SIGTERM])"
"""Waits without work until the pod is deleted. The first process of a container must ask for SIGTERM to get it."""


@dataclass(frozen=True)
class StagePod:
    """The pods of one component that stage its weights, one for each volume."""

    job: StagerJob
    weights: StagedWeights
    owner: pulumi.Input[str]
    """Owner of the staged weights, as `<namespace>/<owner>`."""
    has_lock: bool
    """Whether the ConfigMap of the program has a lock."""
    token: pulumi.Input[str] | None = None
    """Name of the Secret with the hub's token. None: no token."""
    secret: pulumi.Input[str] | None = None
    service_account: pulumi.Input[str] | None = None
    sources: Sequence[str] = ("hub",)
    streams: int | None = None
    native_xet: bool = False
    environment: Mapping[str, pulumi.Input[str]] = field(default_factory=dict)
    fleet: StageFleet | None = None
    cache: str | None = None
    """Key of the cache to make for the server (`KeptCache.key`). None: none."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the pods. Those of other weights have others."""
        return stage_labels(self.job.instance, self.job.component, self.weights.digest)

    def job_spec(self, volume: PlacedVolume, deadline_seconds: int, *, watched: bool) -> dict[str, Any]:
        """Returns the spec of the Job that stages one volume. `watched`: see `StagerJob.spec`."""
        return self.job.spec(
            deadline_seconds,
            self.spec(volume),
            pod_labels=self.labels,
            watched=watched,
            needs_credentials=self.needs_credentials,
        )

    def spec(self, volume: PlacedVolume) -> dict[str, Any]:
        """Returns the spec of a Job's pod, which ends when the weights are staged."""
        pod = self._pod(volume, [self._requirements_container(volume)], self._stage_container(volume))
        return pod | self.fleet.pod(volume) if self.fleet else pod

    def resident_spec(self, volume: PlacedVolume) -> dict[str, Any]:
        """Returns the spec of a DaemonSet's pod, which is ready when the weights are staged, and stays."""
        before = [self._requirements_container(volume), self._stage_container(volume)]
        wait = self.job.container("wait", ["python3", "-c", _WAIT], resources=_WAIT_RESOURCES, weights=False)
        # The DaemonSet spreads its pods itself, and pods of other weights may be on the same node.
        return self._pod(replace(volume, nodes=1), before, wait) | {"restart_policy": "Always"}

    @property
    def needs_credentials(self) -> bool:
        """Whether a service account is to give the stager the credentials of a mirror in S3."""
        return self.service_account is not None and any(source.startswith("s3://") for source in self.sources)

    def _pod(self, volume: PlacedVolume, before: Sequence[dict[str, Any]], container: dict[str, Any]) -> dict[str, Any]:
        return self.job.pod(
            volume, container, init_containers=before, scratch=[_PACKAGES], service_account=self.service_account
        )

    def _requirements_container(self, volume: PlacedVolume) -> dict[str, Any]:
        return self.job.container(
            "requirements",
            ["python3", f"{STAGER}/{INSTALLER}", _PACKAGES_MOUNT],
            resources=_RESIDENT_RESOURCES if volume.of_group else _RESOURCES,
            environment=self._environment(),
            scratch={_PACKAGES: _PACKAGES_MOUNT},
            weights=False,
        )

    def _stage_container(self, volume: PlacedVolume) -> dict[str, Any]:
        fleet_arguments = self.fleet.arguments(volume) if self.fleet else []
        container = self.job.container(
            "stage",
            [*RUN_STAGER, "stage", *self._arguments(), *fleet_arguments],
            resources=_RESIDENT_RESOURCES if volume.of_group else _RESOURCES,
            environment=self._environment(),
            scratch={_PACKAGES: _PACKAGES_MOUNT},
        )
        return {
            **container,
            "env": [*container["env"], *self._token_environment(), *(self.fleet.environment if self.fleet else [])],
            **({"ports": self.fleet.ports} if self.fleet else {}),
            **({} if self.secret is None else {"env_from": [{"secret_ref": {"name": self.secret}}]}),
        }

    def _arguments(self) -> list[pulumi.Input[str]]:
        model, owner = self.weights.model, self.owner
        return [
            *("--directory", self.weights.directory, "--repository", model.repository, "--revision", model.revision),
            f"--user={owner}" if isinstance(owner, str) else pulumi.Output.concat("--user=", owner),
            *(f"--include={pattern}" for pattern in model.include),
            *(f"--source={source}" for source in self.sources),
            *(["--require-credentials"] if self.needs_credentials else []),
            *([f"--streams={self.streams}"] if self.streams else []),
            *(["--native-xet"] if self.native_xet else []),
            *(["--allow-unpinned"] if model.allow_unpinned else []),
            *([f"--lock={STAGER}/{LOCK_FILE}"] if self.has_lock else []),
            *self._cache_arguments(),
        ]

    def _cache_arguments(self) -> list[str]:
        if self.cache is None:
            return []
        owner = self.job.security.makes_for
        return [f"--cache={self.cache}", *([] if owner is None else [f"--cache-owner={owner}"])]

    def _environment(self) -> dict[str, pulumi.Input[str]]:
        """Returns the environment of both containers. The caller's environment takes precedence."""
        return {
            "HF_HOME": f"{self.weights.directory}/{OWN_DIRECTORY}/hub",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": _PACKAGES_MOUNT,
            # By default, Xet's client caches chunks of its downloads on the volume of the weights.
            **({"HF_XET_CHUNK_CACHE_SIZE_BYTES": "0"} if self.native_xet else {}),
            **self.environment,
        }

    def _token_environment(self) -> list[dict[str, Any]]:
        if self.token is None:
            return []
        return [{"name": TOKEN_KEY, "value_from": {"secret_key_ref": {"name": self.token, "key": TOKEN_KEY}}}]
