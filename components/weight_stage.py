"""The Job that downloads and verifies the weights before a server starts, one Job on each node with its own disk.

The digest of the weights is part of the Job's name, so that other weights create a new Job. A change of the stager does
not restart the server. The next `pulumi up` replaces a failed Job, and the new one continues where the old one stopped.
Resources that need the weights depend on `staged`. Only this pod gets the hub's token.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Secret

from components.arguments import Placement, WeightSource, whole_numbers
from components.cluster.api import cluster_api
from components.in_pod.packaging import INSTALLER, stager_archive, stager_texts
from components.pods.labels import labels
from components.pods.names import object_name, stack_name
from components.pods.placement import PodPlacement
from components.pods.stage_fleet import StageFleet
from components.pods.staged_weights import StagedWeights
from components.pods.stager_job import FIXED_FIELDS, RUN_STAGER, STAGER, StagerJob, job_name
from components.pods.weight_source import PlacedVolume, placed_volumes
from components.rollout import stage_watch
from components.rollout.server_watch import AWAITED_HERE
from components.rollout.stage_watch import StageJobs
from config.stack import arguments
from planner.time_limits import PULUMI_GRACE_SECONDS
from stager.manifest import OWN_DIRECTORY

_PACKAGES = "packages"
_PACKAGES_MOUNT = "/packages"
_LOCK_FILE = "weights.lock.json"
_TOKEN_KEY = "HF_TOKEN"  # noqa: S105 - the name of the key, not a token

_DEADLINE_SECONDS = 24 * 3600
"""Default for callers without a plan: 1 TB per day is 12 MB/s. A Job without a deadline could run forever."""

_RESOURCES = {
    "requests": {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "1Gi"},
    "limits": {"memory": "2Gi", "ephemeral-storage": "2Gi"},
}
"""The stager's buffers do not grow with the size of the model. The requirements use the ephemeral storage."""


class WeightStageArgs(TypedDict):
    """The arguments of `WeightStage`."""

    namespace: pulumi.Input[str]
    """Namespace of all objects."""
    model: arguments.Model
    """The model to stage: one repository at one revision."""
    lock: NotRequired[str | None]
    """Text of the weights lock file, which lists the files to stage. Unset: the hub's list at the revision."""
    volume: WeightSource
    """The volume to fill. Each node with its own volume gets a Job."""
    placement: Placement
    """The nodes where the server runs."""
    image: pulumi.Input[str]
    """Image with Python 3.11 or newer, such as `python:3.12-slim`."""
    sources: NotRequired[Sequence[str]]
    """Sources of the bytes, tried in this order: `hub`, `s3://bucket/prefix`, `https://host/path`. Unset: `hub`."""
    fan_out: NotRequired[bool]
    """Let the nodes share one download. Requires a lock, and two or more named nodes with their own volumes. Unset:
    false."""
    streams: NotRequired[int | None]
    """Parallel connections of each node. Unset: as many as increase the throughput."""
    native_xet: NotRequired[bool]
    """Let the hub's client download whole files with the Xet protocol. Unset: false."""
    environment: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Additional environment of the Job, such as HTTPS_PROXY or PIP_INDEX_URL. Must not hold secrets. Unset: none."""
    secret: NotRequired[pulumi.Input[str] | None]
    """Name of a Secret in the namespace whose keys become environment of the stager. Unset: none."""
    service_account: NotRequired[pulumi.Input[str] | None]
    """Service account of the Job, for clouds that grant it access to a mirror. Unset: the namespace's default account,
    without its token."""
    hub_token: NotRequired[pulumi.Input[str] | None]
    """The model hub's token, as a secret. Unset: public repositories only."""
    owner: NotRequired[str | None]
    """Owner of the staged weights, for pruning. Unset: `<stack>-<name>`."""
    deadline_seconds: NotRequired[int]
    """Deadline of the Job, after which it fails. Unset: 24 hours."""
    await_seconds: NotRequired[int]
    """Timeout of `pulumi up` for the Job. Longer than the deadline, so that `pulumi up` reports why the Job failed.
    Unset: the deadline and 2 minutes."""
    kubeconfig: NotRequired[pulumi.Input[str] | None]
    """Text of a kubeconfig, as a secret. With it, `pulumi up` reports the pods' progress, fails early if they cannot
    start or finish, and does not retry an error that the stager calls final. Unset: Pulumi's own wait."""
    context: NotRequired[str | None]
    """Context of that kubeconfig. Unset: its current one."""


class WeightStage(pulumi.ComponentResource):
    """A Job that stages one set of weights on every volume. Ready when all weights are staged and verified."""

    directory: pulumi.Output[str]
    """Directory of the weights in pods that mount the volume. Known when all weights are staged and verified."""
    digest: pulumi.Output[str]
    """Digest of repository, revision, patterns and lock file. Names the directory."""
    program: pulumi.Output[str]
    """Name of the ConfigMap that holds the stager, for other Jobs that run it."""
    owner: pulumi.Output[str]
    """Owner of the staged weights, as `<namespace>/<owner>`."""

    def __init__(self, name: str, args: WeightStageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._name, self._args = name, whole_numbers(args)
        self._weights = StagedWeights.of(self._args["model"], self._args.get("lock"))
        self._placement = PodPlacement.of(self._args["placement"])
        volumes = placed_volumes(self._args["volume"], self._placement)
        owner = self._args.get("owner") or object_name(name)
        super().__init__("heavylift:index:WeightStage", name, {}, opts)
        self.owner = pulumi.Output.concat(self._args["namespace"], "/", owner)
        self._program = self._program_map()
        self._token = self._token_secret()
        self._fleet = self._fleet_of(volumes)
        self._stager = StagerJob(
            stack_name(), name, self._args["image"], self._placement, self._program.metadata["name"]
        )
        self._staged = self._awaited([self._job(volume) for volume in volumes])
        self.directory = self._staged.apply(lambda _: self._weights.directory)
        self.digest = pulumi.Output.from_input(self._weights.digest)
        self.program = self._program.metadata["name"]
        self.register_outputs(
            {"directory": self.directory, "digest": self.digest, "program": self.program, "owner": self.owner}
        )

    @property
    def staged(self) -> pulumi.Output[pulumi.Resource]:
        """This component, once all weights are staged and verified. Resources that need the weights depend on it."""
        return self._staged

    def _program_map(self) -> ConfigMap:
        lock = self._args.get("lock")
        return ConfigMap(
            f"{self._name}-program",
            metadata=self._metadata(),
            data=stager_texts() | ({_LOCK_FILE: lock} if lock else {}),
            binary_data=stager_archive(),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _fleet_of(self, volumes: Sequence[PlacedVolume]) -> StageFleet | None:
        if not self._args.get("fan_out"):
            return None
        if len(volumes) < 2 or not self._args.get("lock"):
            raise pulumi.RunError(
                f"fan_out: {len(volumes)} volume(s), {'a' if self._args.get('lock') else 'no'} lock: expected two "
                "nodes or more by name, each with a volume of its own, and a lock; nothing was created"
            )
        return StageFleet(self._name, self._args["namespace"], volumes, self)

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
        deadline, watched = self._args.get("deadline_seconds") or _DEADLINE_SECONDS, self._is_watched
        annotations = {"pulumi.com/replaceUnready": "true"} | (AWAITED_HERE if watched else {})
        timeout = f"{self._await_seconds()}s"
        return Job(
            job_name(self._name, self._weights.digest, volume.hostname),
            metadata=self._metadata() | {"annotations": annotations},
            spec=self._stager.spec(deadline, self._pod(volume), volume.nodes, watched=watched),
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                replace_on_changes=FIXED_FIELDS,
                custom_timeouts=None if watched else pulumi.CustomTimeouts(create=timeout, update=timeout),
            ),
        )

    def _await_seconds(self) -> int:
        deadline = self._args.get("deadline_seconds") or _DEADLINE_SECONDS
        return self._args.get("await_seconds") or deadline + PULUMI_GRACE_SECONDS

    def _awaited(self, jobs: Sequence[Job]) -> pulumi.Output[pulumi.Resource]:
        async def awaited(known: Sequence[str | None]) -> pulumi.Resource:
            kubeconfig, namespace, *identities = known
            names = [str(identity).rpartition("/")[2] for identity in identities]
            if kubeconfig is not None:
                api = cluster_api(kubeconfig, self._args.get("context"))
                stage = StageJobs(api, str(namespace), labels(stack_name(), self._name), self._await_seconds())
                if pulumi.runtime.is_dry_run():
                    await stage_watch.warn_if_gone(stage, names)
                else:
                    await stage_watch.wait_until_staged(stage, names, self._say)
            return self

        args = self._args
        known = pulumi.Output.all(args.get("kubeconfig"), args["namespace"], *[job.id for job in jobs])
        return pulumi.Output.unsecret(known.apply(awaited))

    @property
    def _is_watched(self) -> bool:
        return self._args.get("kubeconfig") is not None

    def _say(self, words: str, fleeting: bool) -> None:
        pulumi.info(words, self, ephemeral=fleeting)

    def _pod(self, volume: PlacedVolume) -> dict[str, Any]:
        pod = self._stager.pod(
            volume,
            self._stage_container(volume),
            init_containers=[self._requirements_container()],
            scratch=[_PACKAGES],
            service_account=self._args.get("service_account"),
        )
        return pod | self._fleet.pod(volume) if self._fleet else pod

    def _requirements_container(self) -> dict[str, Any]:
        return self._stager.container(
            "requirements",
            ["python3", f"{STAGER}/{INSTALLER}", _PACKAGES_MOUNT],
            resources=_RESOURCES,
            environment=self._environment(),
            scratch={_PACKAGES: _PACKAGES_MOUNT},
            weights=False,
        )

    def _stage_container(self, volume: PlacedVolume) -> dict[str, Any]:
        container = self._stager.container(
            "stage",
            [*RUN_STAGER, "stage", *self._arguments(), *self._fleet_arguments(volume)],
            resources=_RESOURCES,
            environment=self._environment(),
            scratch={_PACKAGES: _PACKAGES_MOUNT},
        )
        secret = self._args.get("secret")
        return {
            **container,
            "env": [*container["env"], *self._token_environment(), *(self._fleet.environment if self._fleet else [])],
            **({"ports": self._fleet.ports} if self._fleet else {}),
            **({} if secret is None else {"env_from": [{"secret_ref": {"name": secret}}]}),
        }

    def _arguments(self) -> list[pulumi.Input[str]]:
        args, model = self._args, self._weights.model
        directory = self._weights.directory
        return [
            *("--directory", directory, "--repository", model.repository, "--revision", model.revision),
            pulumi.Output.concat("--user=", self.owner),
            *(f"--include={pattern}" for pattern in model.include),
            *(f"--source={source}" for source in args.get("sources") or ["hub"]),
            *([f"--streams={args['streams']}"] if args.get("streams") else []),
            *(["--native-xet"] if args.get("native_xet") else []),
            *(["--allow-unpinned"] if model.allow_unpinned else []),
            *([f"--lock={STAGER}/{_LOCK_FILE}"] if args.get("lock") else []),
        ]

    def _fleet_arguments(self, volume: PlacedVolume) -> list[pulumi.Input[str]]:
        return self._fleet.arguments(volume) if self._fleet else []

    def _environment(self) -> dict[str, pulumi.Input[str]]:
        """Returns the environment of both containers. The caller's environment takes precedence."""
        return {
            "HF_HOME": f"{self._weights.directory}/{OWN_DIRECTORY}/hub",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONPATH": _PACKAGES_MOUNT,
            # By default, Xet's client caches chunks of its downloads on the volume of the weights.
            **({"HF_XET_CHUNK_CACHE_SIZE_BYTES": "0"} if self._args.get("native_xet") else {}),
            **(self._args.get("environment") or {}),
        }

    def _token_environment(self) -> list[dict[str, Any]]:
        if self._token is None:
            return []
        reference = {"name": self._token.metadata["name"], "key": _TOKEN_KEY}
        return [{"name": _TOKEN_KEY, "value_from": {"secret_key_ref": reference}}]

    def _metadata(self) -> dict[str, Any]:
        return {"namespace": self._args["namespace"], "labels": labels(stack_name(), self._name)}
