"""The Job that removes old staged weights after the server is ready, one Job for each volume.

The stager keeps the newest revisions, including the served one, and the weights of other stacks. `pulumi up` does not
wait for this Job, because only the next revision needs the space. The next preview shows a failed Job and replaces it.
"""

from collections.abc import Sequence
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.batch.v1 import Job
from pulumi_kubernetes.networking.v1 import NetworkPolicy

from components.arguments import Placement, WeightSource, read_section, whole_numbers
from components.network.policies import closed_policy
from components.pods.additions import Additions
from components.pods.jobs.stager_job import FIXED_FIELDS, RUN_STAGER, StagerJob, job_name
from components.pods.labels import labels
from components.pods.names import stack_name
from components.pods.placement import PodPlacement
from components.pods.security import PodSecurity
from components.pods.staged_weights import WEIGHTS_MOUNT, StagedWeights
from components.pods.weight_source import PlacedVolume, placed_volumes
from config.stack import arguments
from config.stack.sections.pod import Security

_DEADLINE_SECONDS = 3600
"""Removal takes seconds to minutes. The rest allows for another stager's lease on a directory."""

_RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}

_ANNOTATIONS = {"pulumi.com/skipAwait": "true", "pulumi.com/replaceUnready": "true"}


class WeightPruneArgs(TypedDict):
    """The arguments of `WeightPrune`."""

    namespace: pulumi.Input[str]
    """Namespace of all objects."""
    model: arguments.StagedRepository
    """The served model, which is never removed: one repository at one revision."""
    lock: NotRequired[str | None]
    """Text of the weights lock file that the stage used. Unset: none."""
    cache: NotRequired[str | None]
    """Key of the server's cache, as for `WeightStage`: the owner's other caches are removed. Unset: all stay."""
    keep_newest: int
    """Number of the owner's revisions to keep, including the served one."""
    volume: WeightSource
    """The volume to prune. Each node with its own volume gets a Job."""
    placement: Placement
    """The nodes where the server runs."""
    image: pulumi.Input[str]
    """Image with Python 3.11 or newer, such as `python:3.12-slim`."""
    program: pulumi.Input[str]
    """Name of the ConfigMap that holds the stager: `WeightStage.program`."""
    security: NotRequired[arguments.Security]
    """User and rights of the Job's pods. Unset: user 2000 for claims, the image's own for a directory of the node."""
    pod: NotRequired[arguments.PodSettings]
    """Additions to the Job's pods. Unset: none."""
    owner: pulumi.Input[str]
    """Owner whose revisions are removed: `WeightStage.owner`. Other owners' revisions stay."""


class WeightPrune(pulumi.ComponentResource):
    """A Job that removes one owner's old revisions from every volume. Ready as soon as the Job is created."""

    jobs: pulumi.Output[Sequence[str]]
    """Names of the Jobs; their logs list what was removed."""

    def __init__(self, name: str, args: WeightPruneArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._name, self._args = name, whole_numbers(args)
        self._weights = StagedWeights.of(self._args["model"], self._args.get("lock"))
        self._placement = PodPlacement.of(self._args["placement"])
        volumes = placed_volumes(self._args["volume"], self._placement)
        super().__init__("heavylift:index:WeightPrune", name, {}, opts)
        self._policy = NetworkPolicy(
            f"{name}-network",
            metadata={"namespace": self._args["namespace"], "labels": labels(stack_name(), name)},
            spec=closed_policy(labels(stack_name(), name)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        jobs = [self._job(volume) for volume in volumes]
        self.jobs = pulumi.Output.all(*[job.metadata["name"] for job in jobs])
        self.register_outputs({"jobs": self.jobs})

    def _job(self, volume: PlacedVolume) -> Job:
        args = self._args
        security = PodSecurity.of_jobs(read_section(Security, "security", args.get("security") or {}), volume)
        additions = Additions.of_jobs(args.get("pod"))
        job = StagerJob(stack_name(), self._name, args["image"], self._placement, args["program"], security, additions)
        container = job.container("prune", [*RUN_STAGER, "prune", *self._arguments()], resources=_RESOURCES)
        return Job(
            job_name(self._name, self._weights.digest, volume.hostname),
            metadata=self._metadata() | {"labels": job.labels},
            spec=job.spec(_DEADLINE_SECONDS, job.pod(volume, container), volume.nodes),
            opts=pulumi.ResourceOptions(
                parent=self,
                delete_before_replace=True,
                replace_on_changes=FIXED_FIELDS,
                depends_on=[self._policy],
            ),
        )

    def _arguments(self) -> list[pulumi.Input[str]]:
        return [
            WEIGHTS_MOUNT,
            pulumi.Output.concat("--user=", self._args["owner"]),
            f"--keep-newest={self._args['keep_newest']}",
            f"--in-use={self._weights.digest}",
            *([f"--cache={self._args['cache']}"] if self._args.get("cache") else []),
        ]

    def _metadata(self) -> dict[str, Any]:
        return {
            "namespace": self._args["namespace"],
            "labels": labels(stack_name(), self._name),
            "annotations": _ANNOTATIONS,
        }
