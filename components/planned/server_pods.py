"""The server's future pods, for checks before anything is created."""

from collections.abc import Sequence
from typing import Any

from components.pods.labels import labels
from components.pods.manifest import manifest
from components.pods.names import stack_name
from components.pods.placement import PodPlacement
from components.pods.server_pod import ServerPod
from components.pods.serving import Serving
from components.pods.staged_weights import StagedWeights
from components.pods.weight_source import PlacedVolume
from config.catalogue import find_gpu
from config.stack.sections import StackConfig, WeightsKind


def server_pods_to_come(stack: StackConfig, serving: Serving, digest: str) -> Sequence[dict[str, Any]]:
    """Returns one pod for each role, with placeholders for the names that Pulumi generates."""
    nodes = stack.nodes
    source = {"persistent_volume_claim": {"claim_name": "weights"}}
    if stack.weights.kind is WeightsKind.HOST_PATH:
        source = {"host_path": {"path": stack.weights_path or "/"}}
    pod = ServerPod(
        labels=labels(stack_name(), "server"),
        weights=StagedWeights(stack.model, digest),
        volume=PlacedVolume(None, source),
        placement=PodPlacement(
            nodes=max(1, len(nodes.names)),
            hostnames=tuple(nodes.names),
            taints=tuple(nodes.taints),
            gpu_resource=find_gpu(nodes.gpu).vendor.resource if nodes.gpu else None,
            fabric=nodes.fabric,
            nvme_path=nodes.nvme_path,
        ),
        serving=serving,
        verifier_image=stack.stage.image,
        verify=stack.weights.verify,
        programs="programs",
    )
    metadata = {"generateName": "server-", "labels": pod.labels}
    return [{"metadata": metadata, "spec": manifest(pod.spec(role))} for role in sorted(set(pod.roles), key=str)]
