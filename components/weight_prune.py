"""The Job that removes what a stack staged earlier, one for each volume, once the new weights are served.

The stager keeps the newest revisions, the one served among them, and what another stack staged. Nobody waits for the
Job: a server that serves is what `pulumi up` promises, and room is needed only for the next revision. One that failed
is seen in the next preview, which replaces it.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

import pulumi
from pulumi_kubernetes.batch.v1 import Job

from components.pods.labels import labels
from components.pods.placement import Placement
from components.pods.staged_weights import WEIGHTS_MOUNT, StagedWeights
from components.pods.stager_job import StagerJob, job_name
from components.weight_volume import PlacedVolume

_DEADLINE_SECONDS = 3600
"""Removing takes seconds to minutes; the rest is for another stager that may be at work on a directory."""

_RESOURCES = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}

_ANNOTATIONS = {"pulumi.com/skipAwait": "true", "pulumi.com/replaceUnready": "true"}


class WeightPruneArgs(TypedDict):
    """What `WeightPrune` needs to know."""

    instance: str
    """Name of the stack."""
    namespace: str
    """Namespace of all objects."""
    weights: StagedWeights
    """What is served, and never removed."""
    keep_newest: int
    """Revisions of this stack to keep, the one served among them."""
    volumes: Sequence[PlacedVolume]
    """The volumes to make room on; one Job each."""
    placement: Placement
    """The nodes where the server runs."""
    image: str
    """Image of the stager; its Python is all that is needed."""
    program: pulumi.Input[str]
    """Name of the ConfigMap that holds the stager."""


class WeightPrune(pulumi.ComponentResource):
    """Removes a stack's own old revisions from every volume; ready as soon as that has been asked for."""

    jobs: pulumi.Output[Sequence[str]]
    """Names of the Jobs, by which kubectl shows what was removed."""

    def __init__(self, name: str, args: WeightPruneArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:WeightPrune", name, {}, opts)
        self._name, self._args = name, args
        jobs = [self._job(volume) for volume in args["volumes"]]
        self.jobs = pulumi.Output.all(*[job.metadata["name"] for job in jobs])
        self.register_outputs({"jobs": self.jobs})

    def _job(self, volume: PlacedVolume) -> Job:
        args = self._args
        job = StagerJob(args["instance"], "prune", args["image"], args["placement"], args["program"])
        container = job.container(
            "prune", ["python3", "-m", "stager", "prune", *self._arguments()], resources=_RESOURCES
        )
        return Job(
            job_name(self._name, args["weights"].digest, volume.hostname),
            metadata=self._metadata(),
            spec=job.spec(_DEADLINE_SECONDS, job.pod(volume, container)),
            opts=pulumi.ResourceOptions(parent=self, delete_before_replace=True),
        )

    def _arguments(self) -> list[str]:
        args = self._args
        return [
            WEIGHTS_MOUNT,
            f"--user={args['namespace']}/{args['instance']}",
            f"--keep-newest={args['keep_newest']}",
            f"--in-use={args['weights'].digest}",
        ]

    def _metadata(self) -> dict[str, Any]:
        return {
            "namespace": self._args["namespace"],
            "labels": labels(self._args["instance"], "prune"),
            "annotations": _ANNOTATIONS,
        }
