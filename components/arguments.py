"""Arguments that several components share: placement, volume, engine, pods and time limits."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, TypeVar, cast

import pulumi
from pydantic import ValidationError, create_model

from config.engine_name import EngineName
from config.errors import sentences
from config.stack import arguments
from config.stack.sections.fields import AnySection

Arguments = TypeVar("Arguments")


class Placement(TypedDict):
    """The nodes that pods run on. Stager and server take the same placement, so that they run on the same nodes."""

    nodes: int
    """Number of nodes."""
    hostnames: NotRequired[Sequence[str]]
    """The nodes' names. Unset: unknown before the cluster exists, as in a cloud; `node_selector` selects the nodes."""
    candidates: NotRequired[Sequence[str]]
    """Names of the nodes that pods may choose from if `hostnames` is unset. Unset: any node."""
    node_selector: NotRequired[pulumi.Input[Mapping[str, str]]]
    """Labels of the nodes. Unset: any node."""
    taints: NotRequired[Sequence[arguments.Taint]]
    """Taints of the nodes, which the pods tolerate. Unset: none."""
    gpu_resource: NotRequired[str | None]
    """Extended resource for GPUs, such as `nvidia.com/gpu`. Unset: no GPUs."""
    fabric: NotRequired[arguments.Fabric | None]
    """Network between the GPUs of different nodes. Unset: none."""
    nvme_path: NotRequired[str | None]
    """Mount point of each node's local NVMe, such as `/mnt/nvme`. Unset: unknown."""


class WeightSource(TypedDict):
    """The volume with the weights, as pods mount it. Set exactly one of `claim`, `claims` and `host_path`."""

    claim: NotRequired[pulumi.Input[str]]
    """Name of a PersistentVolumeClaim that all pods share."""
    claims: NotRequired[pulumi.Input[Mapping[str, str]]]
    """Name of each node's own PersistentVolumeClaim, by the node's name. `Placement.hostnames` has the same names."""
    served_claim: NotRequired[pulumi.Input[str]]
    """With `claims` of several nodes: name of the claim that is the same directory on each of them, for servers."""
    host_path: NotRequired[str]
    """Directory on every node, such as `/mnt/nvme`."""


class ServerEngine(TypedDict):
    """The engine of a server, with its arguments and environment."""

    name: EngineName
    """`vllm`, `sglang` or `llama.cpp`."""
    image: pulumi.Input[str]
    """Image of the engine, such as `vllm/vllm-openai:v0.33.0`."""
    arguments: NotRequired[Sequence[str]]
    """Arguments of the engine. The component adds model, served name, host, port and a group's ranks. Unset: none."""
    environment: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Environment of the engine. Must not contain secrets. Unset: none."""
    served_name: NotRequired[str | None]
    """Name of the model in clients' requests. Unset: the model's repository."""
    host: NotRequired[str]
    """Address that the engine listens on. Unset: `0.0.0.0`."""
    model_file: NotRequired[str | None]
    """File to serve, or the first of its shards. Required for `llama.cpp`, which serves one file."""


class ServerPods(TypedDict):
    """The number of pods, and the resources of each."""

    replicas: NotRequired[int]
    """Servers behind the Service, each on its own nodes. Unset: 1."""
    nodes_per_server: NotRequired[int]
    """Nodes of each server, with one pod on each. Several pods form a group, which needs LeaderWorkerSet. Unset: 1."""
    gpus_per_pod: NotRequired[int]
    """GPUs of each pod. Unset: none."""
    cpus: NotRequired[int | None]
    """CPU request of each pod. Unset: no request."""
    memory_request: NotRequired[str | None]
    """Memory request of each pod, such as `256Gi`. Unset: no request."""
    memory_limit: NotRequired[str | None]
    """Memory limit of each pod, including `/dev/shm`. Unset: no limit."""
    shared_memory_bytes: NotRequired[int]
    """Size of `/dev/shm`, which is in memory. Unset: the container runtime's default."""
    collective_library: NotRequired[str | None]
    """Communication library of a server's ranks, `NCCL` or `RCCL`, for messages. Unset: NCCL."""
    masked_directory: NotRequired[str | None]
    """Directory of the image that an empty volume hides. Unset: none."""


class StartLimits(TypedDict):
    """Time limits for a server to start and to terminate, in seconds."""

    engine_ready_seconds: NotRequired[int]
    """Ready timeout of an engine that has one. Unset: 1 hour."""
    startup_period_seconds: NotRequired[int]
    """Period of the startup probe. Unset: 10."""
    startup_failure_threshold: NotRequired[int]
    """Failures of the startup probe before the kubelet restarts the engine. Unset: as many as fit into 61 minutes."""
    await_seconds: NotRequired[int]
    """Timeout of `pulumi up` for a server that makes no progress. Unset: 90 minutes."""
    weights_seconds: NotRequired[int]
    """Time that the check before serving waits for missing weights on nodes that a DaemonSet stages, as
    `WeightStage.deadline_seconds`. On other nodes, missing weights are refused at once. Unset: 24 hours."""
    drain_seconds: NotRequired[int]
    """Time for running requests to finish when a pod terminates. vLLM needs the same in its argument
    `--shutdown-timeout`. Unset: 60; 0: none."""


def whole_numbers(values: Arguments) -> Arguments:
    """Converts floats such as `8.0` to integers, because Pulumi's component host passes every number as a float."""
    return cast(Arguments, _whole(values))


def _whole(value: object) -> object:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(inner) for inner in value]
    return value


def read_section(section: type[AnySection], key: str, values: object) -> AnySection:
    """Reads the section `key` from plain values. Raises pulumi.RunError with every fault."""
    whole = create_model("Sections", **{key: (section, ...)})  # type: ignore[call-overload]
    try:
        return cast(AnySection, getattr(whole.model_validate({key: values}), key))
    except ValidationError as error:
        raise pulumi.RunError("\n  ".join(["nothing was created:", *sentences(error, whole)])) from None
