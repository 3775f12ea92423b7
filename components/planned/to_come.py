"""The objects that the stack is about to create, for checks before anything is created."""

from collections.abc import Sequence
from typing import Any

from components.cluster.admission import Creation
from components.planned.model import PlannedModel
from components.pods.additions import SERVER, STAGE, Additions
from components.pods.jobs.stage_daemon_set import daemon_set_spec
from components.pods.jobs.stage_pod import StagePod
from components.pods.jobs.stager_job import StagerJob
from components.pods.kept_cache import KeptCache
from components.pods.labels import labels
from components.pods.manifest import manifest
from components.pods.names import stack_name
from components.pods.placement import PodPlacement
from components.pods.security import PodSecurity
from components.pods.server_pod import DraftWeights, ServerPod
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import PlacedVolume
from config.catalogue import described_gpu
from config.stack.sections import NodeKind, StackConfig, WeightsKind

_PLACEHOLDER = "heavylift"
"""For names that Pulumi generates, and labels that the cloud sets."""


def creations(planned: PlannedModel, service_name: str) -> Sequence[Creation]:
    """Returns the pods, what stages on the first volume, and the Service, with placeholders for the names that Pulumi
    generates."""
    server, (version, kind, workload) = _server_pod(planned), _stage_workload(planned)
    pod = workload["template"]
    staging = {"generateName": "stage-", **pod["metadata"]}
    service = {"name": service_name, "labels": server.labels}
    servers = [server.template(role) for role in sorted(set(server.roles), key=str)]
    return [
        *(
            Creation("the server's pod", "api/v1:pods", _object("v1", "Pod", _serving(each), each["spec"]))
            for each in servers
        ),
        Creation("the stage pod", "api/v1:pods", _object("v1", "Pod", staging, pod["spec"])),
        Creation(f"the stage {kind}", f"apis/{version}:{kind.lower()}s", _object(version, kind, staging, workload)),
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
        draft=_draft(planned),
        volume=_volume(stack),
        placement=_placement(stack),
        serving=planned.serving,
        security=PodSecurity.of_server(stack.security),
        verifier_image=stack.stage.image,
        verify=stack.weights.verify,
        programs=_PLACEHOLDER,
        cache=KeptCache(_owner(stack), planned.cache_key) if planned.cache_key else None,
        additions=Additions(stack.pod.server, SERVER),
    )


def _draft(planned: PlannedModel) -> DraftWeights | None:
    draft, digest = planned.stack.model.draft, planned.draft_digest
    return DraftWeights(StagedWeights(draft, digest), _PLACEHOLDER) if draft and digest else None


def _stage_workload(planned: PlannedModel) -> tuple[str, str, dict[str, Any]]:
    """Returns version, kind and spec of the first stage Job, or of the DaemonSet that stages a group of nodes."""
    stack, volume = planned.stack, _volume(planned.stack)
    security = PodSecurity.of_stage(stack.security, volume, makes_cache=planned.cache_key is not None)
    additions = Additions(stack.pod.stage, STAGE, runs_to_completion=True)
    job = StagerJob(stack_name(), "stage", stack.stage.image, _placement(stack), _PLACEHOLDER, security, additions)
    pod = StagePod(
        job=job,
        weights=StagedWeights(stack.model, planned.digest),
        owner=_owner(stack),
        has_lock=planned.lock is not None,
        secret=stack.stage.secret,
        service_account=stack.stage_account,
        sources=stack.stage.sources,
        native_xet=stack.stage.native_xet,
        environment=stack.stage.environment,
        cache=planned.cache_key,
    )
    if volume.of_group:
        return "apps/v1", "DaemonSet", daemon_set_spec(pod, volume)
    deadline = planned.limits.stage_deadline_seconds
    return "batch/v1", "Job", pod.job_spec(volume, deadline, watched=True)


def _owner(stack: StackConfig) -> str:
    return f"{stack.cluster.namespace}/{stack_name()}"


def _volume(stack: StackConfig) -> PlacedVolume:
    if stack.weights.kind is WeightsKind.HOST_PATH:
        is_group = _placement(stack).is_group
        return PlacedVolume(None, {"host_path": {"path": stack.weights_path or "/"}}, of_group=is_group)
    return PlacedVolume(None, {"persistent_volume_claim": {"claim_name": _PLACEHOLDER}})


def _placement(stack: StackConfig) -> PodPlacement:
    nodes = stack.nodes
    return PodPlacement(
        nodes=nodes.total,
        hostnames=tuple(nodes.names),
        node_selector={} if nodes.kind is NodeKind.BARE_METAL else {"group": _PLACEHOLDER},
        taints=tuple(nodes.taints),
        gpu_resource=described_gpu(nodes.gpu).vendor.resource if nodes.gpu else None,
        fabric=nodes.fabric,
        nvme_path=nodes.nvme_path,
    )
