"""The objects that the stack is about to create, for checks before anything is created."""

from collections.abc import Sequence
from typing import Any

from components.cluster.admission import Creation
from components.planned.model import PlannedModel
from components.pods.additions import SERVER, STAGE, Additions
from components.pods.jobs.stage_pod import StagePod
from components.pods.jobs.stager_job import StagerJob
from components.pods.labels import labels
from components.pods.manifest import manifest
from components.pods.names import stack_name
from components.pods.placement import PodPlacement
from components.pods.security import JobSecurity
from components.pods.server_pod import ServerPod
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import PlacedVolume
from config.catalogue import described_gpu
from config.stack.sections import StackConfig, WeightsKind

_PLACEHOLDER = "heavylift"
"""For names that Pulumi generates."""


def creations(planned: PlannedModel, service_name: str) -> Sequence[Creation]:
    """Returns the pods, the first stage Job and the Service, with placeholders for the names that Pulumi generates."""
    server, job = _server_pod(planned), _stage_job(planned)
    pod = job["template"]
    staging = {"generateName": "stage-", **pod["metadata"]}
    service = {"name": service_name, "labels": server.labels}
    servers = [server.template(role) for role in sorted(set(server.roles), key=str)]
    return [
        *(
            Creation("the server's pod", "api/v1:pods", _object("v1", "Pod", _serving(each), each["spec"]))
            for each in servers
        ),
        Creation("the stage pod", "api/v1:pods", _object("v1", "Pod", staging, pod["spec"])),
        Creation("the stage Job", "apis/batch/v1:jobs", _object("batch/v1", "Job", staging, job)),
        Creation("the Service", "api/v1:services", _object("v1", "Service", service, server.service_spec())),
    ]


def _serving(template: dict[str, Any]) -> dict[str, Any]:
    """Returns the metadata of a pod, without the annotation whose value only the engine computes."""
    annotations = {name: value for name, value in template["metadata"]["annotations"].items() if isinstance(value, str)}
    return {"generateName": "server-", **template["metadata"], "annotations": annotations}


def _object(version: str, kind: str, metadata: dict[str, Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": manifest(spec)}


def _server_pod(planned: PlannedModel) -> ServerPod:
    stack = planned.stack
    return ServerPod(
        labels=labels(stack_name(), "server"),
        weights=StagedWeights(stack.model, planned.digest),
        volume=_volume(stack),
        placement=_placement(stack),
        serving=planned.serving,
        verifier_image=stack.stage.image,
        verify=stack.weights.verify,
        programs=_PLACEHOLDER,
        additions=Additions(stack.pod.server, SERVER),
    )


def _stage_job(planned: PlannedModel) -> dict[str, Any]:
    """Returns the spec of the first stage Job."""
    stack, volume = planned.stack, _volume(planned.stack)
    security = JobSecurity.of(stack.security, volume)
    additions = Additions(stack.pod.stage, STAGE, runs_to_completion=True)
    job = StagerJob(stack_name(), "stage", stack.stage.image, _placement(stack), _PLACEHOLDER, security, additions)
    pod = StagePod(
        job=job,
        weights=StagedWeights(stack.model, planned.digest),
        owner=f"{stack.cluster.namespace}/{stack_name()}",
        has_lock=planned.lock is not None,
        secret=stack.stage.secret,
        service_account=stack.stage.service_account,
        sources=stack.stage.sources,
        native_xet=stack.stage.native_xet,
        environment=stack.stage.environment,
    )
    return job.spec(planned.limits.stage_deadline_seconds, pod.spec(volume), watched=True)


def _volume(stack: StackConfig) -> PlacedVolume:
    if stack.weights.kind is WeightsKind.HOST_PATH:
        return PlacedVolume(None, {"host_path": {"path": stack.weights_path or "/"}})
    return PlacedVolume(None, {"persistent_volume_claim": {"claim_name": _PLACEHOLDER}})


def _placement(stack: StackConfig) -> PodPlacement:
    nodes = stack.nodes
    return PodPlacement(
        nodes=nodes.total,
        hostnames=tuple(nodes.names),
        taints=tuple(nodes.taints),
        gpu_resource=described_gpu(nodes.gpu).vendor.resource if nodes.gpu else None,
        fabric=nodes.fabric,
        nvme_path=nodes.nvme_path,
    )
