"""The Job that downloads and verifies the weights before a server starts, one on each node with a disk of its own.

It is named by the digest of what it stages: other weights make another Job and never edit one, and
another stager leaves the server alone. A failed Job is replaced by the next `pulumi up`, and goes on
where it stopped. The hub's token reaches this pod only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Secret

from components.pods.labels import labels
from components.pods.placement import Placement
from components.pods.staged_weights import StagedWeights
from components.pods.stager_job import PROGRAM_MOUNT, STAGER, StagerJob, job_name
from components.weight_volume import PlacedVolume
from config.stack.sections import Stage
from stager.verify import OWN_DIRECTORY

_PACKAGES = "packages"
_PACKAGES_MOUNT = "/packages"
_LOCK_FILE = "weights.lock.json"
_TOKEN_KEY = "HF_TOKEN"  # noqa: S105 - the name of the key, not a token

_PROGRAM = Path(__file__).resolve().parent.parent
_INSTALLER = Path(__file__).parent / "in_pod" / "install_requirements.py"

_RESOURCES = {
    "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
    "limits": {"memory": "2Gi", "ephemeral-storage": "2Gi"},
}
"""The stager's buffers are bounded whatever the size of the model; ephemeral storage is for the requirements."""


def stager_files() -> dict[str, str]:
    """The stager's program as it travels to the pod: file name to text, sorted."""
    stager = _PROGRAM / "stager"
    files = [*stager.glob("*.py"), *stager.glob("requirements.*"), _INSTALLER]
    return {file.name: file.read_text() for file in sorted(files, key=lambda file: file.name)}


class WeightStageArgs(TypedDict):
    """What `WeightStage` needs to know."""

    instance: str
    """Name of the stack."""
    namespace: str
    """Namespace of all objects."""
    weights: StagedWeights
    """What is staged."""
    volumes: Sequence[PlacedVolume]
    """The volumes to fill; one Job each."""
    placement: Placement
    """The nodes where the server will run."""
    stage: Stage
    """Image, sources and environment, as the stack file has them."""
    lock: NotRequired[str | None]
    """Text of the weights lock file; what it lists is staged. Unset: the hub's own list at the revision."""
    hub_token: NotRequired[pulumi.Input[str] | None]
    """The model hub's token, as a secret. Unset: public repositories only."""
    deadline_seconds: int
    """The Job fails after this long."""
    await_seconds: int
    """Pulumi waits this long for the Job; longer than the deadline, so that the Job's own reason is seen."""


class WeightStage(pulumi.ComponentResource):
    """Stages one set of weights on every volume; ready when all of it is there and verified."""

    directory: pulumi.Output[str]
    """The directory that was filled, in the pods that mount the volume."""
    program: pulumi.Output[str]
    """Name of the ConfigMap that holds the stager, for other Jobs of it."""

    def __init__(self, name: str, args: WeightStageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:WeightStage", name, {}, opts)
        self._name, self._args = name, args
        self._program = ConfigMap(
            f"{name}-program",
            metadata=self._metadata(),
            data=stager_files() | ({_LOCK_FILE: lock} if (lock := args.get("lock")) else {}),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self._token = self._token_secret()
        self._stager = StagerJob(
            args["instance"], "stage", args["stage"].image, args["placement"], self._program.metadata["name"]
        )
        for volume in args["volumes"]:
            self._job(volume)
        self.directory = pulumi.Output.from_input(args["weights"].directory)
        self.program = self._program.metadata["name"]
        self.register_outputs({"directory": self.directory, "program": self.program})

    def _token_secret(self) -> Secret | None:
        token = self._args.get("hub_token")
        if token is None:
            return None
        return Secret(
            f"{self._name}-hub-token",
            metadata=self._metadata(),
            string_data={_TOKEN_KEY: pulumi.Output.secret(token)},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _job(self, volume: PlacedVolume) -> Job:
        seconds = f"{self._args['await_seconds']}s"
        return Job(
            job_name(self._name, self._args["weights"].digest, volume.hostname),
            metadata=self._metadata() | {"annotations": {"pulumi.com/replaceUnready": "true"}},
            spec=self._stager.spec(self._args["deadline_seconds"], self._pod(volume)),
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create=seconds, update=seconds),
            ),
        )

    def _pod(self, volume: PlacedVolume) -> dict[str, Any]:
        return self._stager.pod(
            volume,
            self._stage_container(),
            init_containers=[self._requirements_container()],
            scratch=[_PACKAGES],
            service_account=self._args["stage"].service_account,
        )

    def _requirements_container(self) -> dict[str, Any]:
        return self._stager.container(
            "requirements",
            ["python3", f"{STAGER}/{_INSTALLER.name}", _PACKAGES_MOUNT],
            resources=_RESOURCES,
            environment=self._environment(),
            scratch={_PACKAGES: _PACKAGES_MOUNT},
            weights=False,
        )

    def _stage_container(self) -> dict[str, Any]:
        container = self._stager.container(
            "stage",
            ["python3", "-m", "stager", "stage", *self._arguments()],
            resources=_RESOURCES,
            environment=self._environment(),
            scratch={_PACKAGES: _PACKAGES_MOUNT},
        )
        secret = self._args["stage"].secret
        return {
            **container,
            "env": [*container["env"], *self._token_environment()],
            **({"env_from": [{"secret_ref": {"name": secret}}]} if secret else {}),
        }

    def _arguments(self) -> list[str]:
        weights, stage = self._args["weights"], self._args["stage"]
        model = weights.model
        arguments = ["--directory", weights.directory, "--repository", model.repository, "--revision", model.revision]
        arguments += [f"--user={self._args['namespace']}/{self._args['instance']}"]
        arguments += [f"--include={pattern}" for pattern in model.include]
        arguments += [f"--source={source}" for source in stage.sources]
        arguments += ["--native-xet"] if stage.native_xet else []
        arguments += ["--allow-unpinned"] if model.allow_unpinned else []
        arguments += [f"--lock={STAGER}/{_LOCK_FILE}"] if self._args.get("lock") else []
        return arguments

    def _environment(self) -> dict[str, str]:
        """What both containers see; the stack's own environment wins."""
        return {
            "HF_HOME": f"{self._args['weights'].directory}/{OWN_DIRECTORY}/hub",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": f"{PROGRAM_MOUNT}:{_PACKAGES_MOUNT}",
            # Xet's client would keep chunks of what it fetched for a next time, on the volume of the weights.
            **({"HF_XET_CHUNK_CACHE_SIZE_BYTES": "0"} if self._args["stage"].native_xet else {}),
        } | dict(self._args["stage"].environment)

    def _token_environment(self) -> list[dict[str, Any]]:
        if self._token is None:
            return []
        reference = {"name": self._token.metadata["name"], "key": _TOKEN_KEY}
        return [{"name": _TOKEN_KEY, "value_from": {"secret_key_ref": reference}}]

    def _metadata(self) -> dict[str, Any]:
        return {"namespace": self._args["namespace"], "labels": labels(self._args["instance"], "stage")}
