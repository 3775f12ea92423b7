"""The Job that downloads and verifies the weights before a server starts, one Job on each node with its own disk.

The digest of the weights is part of the Job's name, so that other weights create a new Job. A change of the stager does
not restart the server. The next `pulumi up` replaces a failed Job, and the new one continues where the old one stopped.
Resources that need the weights depend on `staged`. Only this pod gets the hub's token.

A DaemonSet stages nodes that only labels or a number describe. Its pods stay: when a node replaces another one, its
empty disk is staged without an update.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.apps.v1 import DaemonSet
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.core.v1 import ConfigMap, Secret
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.arguments import Placement, WeightSource, read_section, whole_numbers
from components.cluster.api import cluster_api
from components.in_pod.packaging import stager_archive, stager_texts
from components.network.policies import stage_policy
from components.pods.additions import Additions
from components.pods.jobs.stage_daemon_set import daemon_set_spec
from components.pods.jobs.stage_fleet import PORT, StageFleet
from components.pods.jobs.stage_pod import LOCK_FILE, TOKEN_KEY, StagePod
from components.pods.jobs.stager_job import FIXED_FIELDS, StagerJob, job_name
from components.pods.labels import labels
from components.pods.names import object_name, stack_name
from components.pods.placement import PodPlacement
from components.pods.security import PodSecurity
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import PlacedVolume, placed_volumes
from components.rollout import daemon_set_watch, stage_watch, staged_files
from components.rollout.server_watch import AWAITED_HERE
from components.rollout.stage_progress import Staging
from config.stack import arguments
from config.stack.sections.pod import Security
from planner.time_limits import PULUMI_GRACE_SECONDS

_DEADLINE_SECONDS = 24 * 3600
"""Default for callers without a plan: 1 TB per day is 12 MB/s. A Job without a deadline could run forever."""


_Wait = Callable[[Staging, Sequence[str]], Awaitable[str]]
"""Waits for workloads by their names, and returns the hash of the files that their pods reported."""


class WeightStageArgs(TypedDict):
    """The arguments of `WeightStage`."""

    namespace: pulumi.Input[str]
    """Namespace of all objects."""
    model: arguments.StagedRepository
    """The model to stage: one repository at one revision."""
    lock: NotRequired[str | None]
    """Text of the weights lock file, which lists the files to stage. Unset: the hub's list at the revision."""
    volume: WeightSource
    """The volume to fill. Each named node with its own volume gets a Job. With `host_path`, nodes without names that
    have labels, or are several, get a DaemonSet."""
    placement: Placement
    """The nodes where the server runs."""
    image: pulumi.Input[str]
    """Image with Python 3.11 or newer, such as `python:3.12-slim`."""
    sources: NotRequired[Sequence[str]]
    """Sources of the bytes, tried in this order: `hub`, `s3://bucket/prefix`, `https://host/path`. Unset: `hub`."""
    fan_out: NotRequired[bool]
    """Let the nodes share one download. Requires a lock, and two or more named nodes with their own volumes. Unset:
    false."""
    cache: NotRequired[str | None]
    """Key of the directory that the Job makes for what the server's engine compiles: 16 hexadecimal digits that stand
    for image, release and user of the server. `InferenceServer` and `WeightPrune` get the same. Unset: none."""
    streams: NotRequired[int | None]
    """Parallel connections of each node. Unset: as many as increase the throughput."""
    native_xet: NotRequired[bool]
    """Let the hub's client download whole files with the Xet protocol. Unset: false."""
    environment: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Additional environment of the Job, such as HTTPS_PROXY or PIP_INDEX_URL. Must not hold secrets. Unset: none."""
    secret: NotRequired[pulumi.Input[str] | None]
    """Name of a Secret in the namespace whose keys become environment of the stager. Unset: none."""
    service_account: NotRequired[pulumi.Input[str] | None]
    """Service account of the Job, for clouds that grant it access to a mirror. With a source in S3, a pod that gets no
    credentials from it is replaced by a new one. Unset: the namespace's default account. No pod gets the account's
    token for the API server."""
    security: NotRequired[arguments.Security]
    """User and rights of the Job's pods. Unset: user 2000 for claims, the image's own for a directory of the node."""
    pod: NotRequired[arguments.PodSettings]
    """Additions to the Job's pods. Unset: none."""
    hub_token: NotRequired[pulumi.Input[str] | None]
    """The model hub's token, as a secret. Unset: public repositories only."""
    owner: NotRequired[str | None]
    """Owner of the staged weights, for pruning. Unset: `<stack>-<name>`."""
    annotations: NotRequired[Mapping[str, str]]
    """Annotations of the Jobs or of the DaemonSet. Unset: none."""
    deadline_seconds: NotRequired[int]
    """Deadline of the Job, after which it fails. A DaemonSet has none. Unset: 24 hours."""
    await_seconds: NotRequired[int]
    """Timeout of `pulumi up` for the Job. Longer than the deadline, so that `pulumi up` reports why the Job failed.
    Unset: the deadline and 2 minutes."""
    kubeconfig: NotRequired[pulumi.Input[str] | None]
    """Text of a kubeconfig, as a secret. With it, `pulumi up` reports the pods' progress, fails early if they cannot
    start or finish, and does not retry an error that the stager calls final. Unset: Pulumi's own wait."""
    context: NotRequired[str | None]
    """Context of that kubeconfig. Unset: its current one."""


class WeightStage(pulumi.ComponentResource):
    """Stages one set of weights on every volume: a Job for each, or a DaemonSet. Ready when all weights are staged and
    verified."""

    directory: pulumi.Output[str]
    """Directory of the weights in pods that mount the volume. Known when all weights are staged and verified."""
    digest: pulumi.Output[str]
    """Digest of repository, revision, patterns and lock file. Names the directory."""
    program: pulumi.Output[str]
    """Name of the ConfigMap that holds the stager, for other Jobs that run it."""
    owner: pulumi.Output[str]
    """Owner of the staged weights, as `<namespace>/<owner>`."""
    files_sha256: pulumi.Output[str]
    """Without a lock: SHA-256 of the sorted lines `<path> <size> <SHA-256>` of all files, from the first stage of this
    revision. A later stage with other files fails. Empty: a lock lists the files, or no kubeconfig was given."""

    def __init__(self, name: str, args: WeightStageArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._name, self._args = name, whole_numbers(args)
        self._weights = StagedWeights.of(self._args["model"], self._args.get("lock"))
        self._placement = PodPlacement.of(self._args["placement"])
        volumes = placed_volumes(self._args["volume"], self._placement)
        owner = self._args.get("owner") or object_name(name)
        super().__init__("heavylift:index:WeightStage", name, {}, opts)
        self.owner = pulumi.Output.concat(self._args["namespace"], "/", owner)
        self._program = self._program_map()
        self._pod = self._pod_of(volumes)
        self._policy = self._network_policy()
        files = self._daemon_set(volumes[0]) if volumes[0].of_group else self._jobs(volumes)
        self._staged = files.apply(lambda _: self)
        self.files_sha256 = self._kept(files)
        self.directory = self._staged.apply(lambda _: self._weights.directory)
        self.digest = pulumi.Output.from_input(self._weights.digest)
        self.program = self._program.metadata["name"]
        outputs = ("directory", "digest", "program", "owner", "files_sha256")
        self.register_outputs({output: getattr(self, output) for output in outputs})

    @property
    def staged(self) -> pulumi.Output[pulumi.Resource]:
        """This component, once all weights are staged and verified. Resources that need the weights depend on it."""
        return self._staged

    def _program_map(self) -> ConfigMap:
        lock = self._args.get("lock")
        return ConfigMap(
            f"{self._name}-program",
            metadata=self._metadata(),
            data=stager_texts() | ({LOCK_FILE: lock} if lock else {}),
            binary_data=stager_archive(),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _network_policy(self) -> NetworkPolicy:
        """Creates the policy of the stage pods, before the pods."""
        port = PORT if self._args.get("fan_out") else None
        return NetworkPolicy(
            f"{self._name}-network",
            metadata=self._metadata(),
            spec=stage_policy(labels(stack_name(), self._name), self._pod.labels, port),
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _pod_of(self, volumes: Sequence[PlacedVolume]) -> StagePod:
        args, token = self._args, self._token_secret()
        settings, cache = read_section(Security, "security", args.get("security") or {}), args.get("cache")
        security = PodSecurity.of_stage(settings, volumes[0], makes_cache=cache is not None)
        additions = Additions.of_jobs(args.get("pod"))
        program = self._program.metadata["name"]
        return StagePod(
            job=StagerJob(stack_name(), self._name, args["image"], self._placement, program, security, additions),
            weights=self._weights,
            owner=self.owner,
            has_lock=bool(args.get("lock")),
            token=token.metadata["name"] if token else None,
            secret=args.get("secret"),
            service_account=args.get("service_account"),
            sources=args.get("sources") or ["hub"],
            streams=args.get("streams"),
            native_xet=args.get("native_xet") or False,
            environment=args.get("environment") or {},
            fleet=self._fleet_of(volumes),
            cache=cache,
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
            string_data={TOKEN_KEY: pulumi.Output.secret(token)},
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _jobs(self, volumes: Sequence[PlacedVolume]) -> pulumi.Output[str]:
        """Makes and awaits the Jobs. Returns the hash of the files that they reported. Empty: none."""

        async def awaited(staging: Staging, names: Sequence[str]) -> str:
            if pulumi.runtime.is_dry_run():
                await stage_watch.warn_if_gone(staging, names)
                return ""
            await stage_watch.wait_until_staged(staging, names, self._say)
            return "" if self._args.get("lock") else await asyncio.to_thread(staged_files.reported, staging, names)

        return self._awaited([self._job(volume) for volume in volumes], labels(stack_name(), self._name), awaited)

    def _daemon_set(self, volume: PlacedVolume) -> pulumi.Output[str]:
        """Makes and awaits the DaemonSet. Returns the hash of the files that its pods reported. Empty: none."""

        async def awaited(staging: Staging, names: Sequence[str]) -> str:
            if pulumi.runtime.is_dry_run():
                await daemon_set_watch.warn_if_gone(staging, names[0])
                return ""
            await daemon_set_watch.wait_until_staged(staging, names[0], volume.nodes, self._say)
            return "" if self._args.get("lock") else await asyncio.to_thread(staged_files.reported, staging)

        # Pulumi takes a DaemonSet for ready that has no nodes yet.
        enough = {"pulumi.com/waitFor": f"jsonpath={{.status.numberReady}}={volume.nodes}"}
        daemon_set = DaemonSet(
            job_name(self._name, self._weights.digest, None),
            metadata=self._metadata()
            | {
                "labels": self._pod.job.labels,
                "annotations": self._annotations() | (AWAITED_HERE if self._is_watched else enough),
            },
            spec=daemon_set_spec(self._pod, volume),
            opts=pulumi.ResourceOptions(parent=self, custom_timeouts=self._timeouts(), depends_on=[self._policy]),
        )
        return self._awaited([daemon_set], self._pod.labels, awaited)

    def _annotations(self) -> dict[str, str]:
        return dict(self._args.get("annotations", {}))

    def _job(self, volume: PlacedVolume) -> Job:
        deadline, watched = self._args.get("deadline_seconds") or _DEADLINE_SECONDS, self._is_watched
        annotations = self._annotations() | {"pulumi.com/replaceUnready": "true"} | (AWAITED_HERE if watched else {})
        return Job(
            job_name(self._name, self._weights.digest, volume.hostname),
            metadata=self._metadata() | {"labels": self._pod.job.labels, "annotations": annotations},
            spec=self._pod.job_spec(volume, deadline, watched=watched),
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                replace_on_changes=FIXED_FIELDS,
                custom_timeouts=self._timeouts(),
                depends_on=[self._policy],
            ),
        )

    def _await_seconds(self) -> int:
        deadline = self._args.get("deadline_seconds") or _DEADLINE_SECONDS
        return self._args.get("await_seconds") or deadline + PULUMI_GRACE_SECONDS

    def _timeouts(self) -> pulumi.CustomTimeouts | None:
        timeout = f"{self._await_seconds()}s"
        return None if self._is_watched else pulumi.CustomTimeouts(create=timeout, update=timeout)

    def _awaited(
        self, workloads: Sequence[pulumi.CustomResource], pods: Mapping[str, str], wait: _Wait
    ) -> pulumi.Output[str]:
        """Waits for the workloads whose pods have these labels. Without a kubeconfig, Pulumi has waited."""

        async def awaited(known: Sequence[str | None]) -> str:
            kubeconfig, namespace, *identities = known
            names = [str(identity).rpartition("/")[2] for identity in identities]
            if kubeconfig is None:
                return ""
            api = cluster_api(kubeconfig, self._args.get("context"))
            return await wait(Staging(api, str(namespace), pods, self._await_seconds()), names)

        args = self._args
        known = pulumi.Output.all(args.get("kubeconfig"), args["namespace"], *[each.id for each in workloads])
        return pulumi.Output.unsecret(known.apply(awaited))

    def _kept(self, files: pulumi.Output[str]) -> pulumi.Output[str]:
        if self._args.get("lock") or not self._is_watched:
            return pulumi.Output.from_input("")
        return staged_files.kept(f"{self._name}-files-{self._weights.digest}", self._metadata(), files, self)

    @property
    def _is_watched(self) -> bool:
        return self._args.get("kubeconfig") is not None

    def _say(self, words: str, fleeting: bool) -> None:
        pulumi.info(words, self, ephemeral=fleeting)

    def _metadata(self) -> dict[str, Any]:
        return {"namespace": self._args["namespace"], "labels": labels(stack_name(), self._name)}
