"""What the placeholders of `engines.queries` stand for in one stack."""

import math
from collections.abc import Iterable
from datetime import datetime

from components.pods.names import claim_name
from config.catalogue import described_gpu
from config.catalogue.gpu import VendorName
from config.stack.sections import FabricKind, Metrics, StackConfig, WeightsKind
from config.stack.sections.metrics import DEFAULT_TTFT_SECONDS


def placeholders(
    stack: StackConfig,
    metrics: Metrics,
    *,
    instance: str,
    namespace: str,
    server: str,
    workload: str,
    jobs: str,
    volume: str,
    start_seconds: int,
    ends: str | None,
) -> dict[str, str]:
    """Returns label matchers and values by placeholder, without those that the stack has no use for.

    `instance`: name of the stack. `server`: component label of the server's pods. `workload`: name of its Deployment or
    LeaderWorkerSet. `jobs`: beginning of the names of its stage Jobs. `volume`: name of its claim, or their beginning.
    `start_seconds`: time that a server may take to start. `ends`: end of the nodes' reservation, RFC 3339.
    """
    within = f'namespace="{namespace}"'
    pods = f'pod=~"{workload}-.*"'
    values = {
        "namespace": namespace,
        "stack": instance,
        "server": f'{within},app_kubernetes_io_instance="{instance}",app_kubernetes_io_component="{server}"',
        "pods": f"{within},{pods}",
        "jobs": f'{within},job_name=~"{jobs}.*"',
        "start": f"{math.ceil(start_seconds / 60)}m",
        "ttft": str(float(metrics.ttft_seconds or DEFAULT_TTFT_SECONDS)),
        **_storage(stack, within, volume),
    }
    nodes, fabric = stack.nodes, stack.nodes.fabric
    if nodes.gpu and described_gpu(nodes.gpu).vendor.name is VendorName.NVIDIA:
        values["gpus"] = f"exported_{within},exported_{pods}"
    if nodes.names:
        values["nodes"] = f"nodename=~{_one_of(nodes.names)}"
    if fabric and fabric.kind is not FabricKind.EFA:
        values["devices"] = f"device=~{_one_of(fabric.devices)}" if fabric.devices else 'device=~".+"'
    if ends:
        values["ends"] = str(int(datetime.fromisoformat(ends).timestamp()))
    return values


def _storage(stack: StackConfig, within: str, volume: str) -> dict[str, str]:
    kind, names = stack.weights.kind, stack.nodes.names
    # The kubelet measures a claim only while a pod mounts it, and no volume that is a directory of the node.
    if kind is WeightsKind.HOST_PATH or (kind is WeightsKind.LOCAL and len(names) > 1):
        return {"disk": f'mountpoint="{stack.weights_path}"'}
    claim = claim_name(volume, names[0] if kind is WeightsKind.LOCAL else None)
    return {"claims": f"{within},persistentvolumeclaim=~{_one_of([claim])}"}


def _one_of(names: Iterable[str]) -> str:
    """Returns a PromQL text with an expression for exactly these names."""
    return '"' + "|".join(name.replace(".", "[.]") for name in names) + '"'
