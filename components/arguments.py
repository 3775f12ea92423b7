"""Arguments that several components take: where pods go, and the volume with the weights."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, TypeVar, cast

import pulumi
from pydantic import ValidationError, create_model

from config.engine_name import EngineName
from config.errors import sentences
from config.stack import arguments, sections

AnySection = TypeVar("AnySection", bound=sections.Section)
Arguments = TypeVar("Arguments")


class Placement(TypedDict):
    """The nodes that pods go to. Stager and server take the same ones, so that they land together."""

    nodes: int
    """How many nodes there are."""
    hostnames: NotRequired[Sequence[str]]
    """The nodes' names. Unset: they are not known before there is a cluster, as in a cloud; pods find their nodes by
    `node_selector`."""
    node_selector: NotRequired[pulumi.Input[Mapping[str, str]]]
    """Labels that the nodes carry. Unset: any node."""
    taints: NotRequired[Sequence[arguments.Taint]]
    """Taints of the nodes, which the pods tolerate. Unset: none."""
    gpu_resource: NotRequired[str | None]
    """Extended resource under which a pod asks for GPUs, such as `nvidia.com/gpu`. Unset: there are none."""
    fabric: NotRequired[arguments.Fabric | None]
    """Network between the GPUs of different nodes. Unset: there is none."""
    nvme_path: NotRequired[str | None]
    """Where each node's local NVMe is mounted, such as `/mnt/nvme`. Unset: not known."""


class WeightSource(TypedDict):
    """The volume with the weights, as pods mount it: exactly one of the three keys."""

    claim: NotRequired[pulumi.Input[str]]
    """Name of a PersistentVolumeClaim that all pods share."""
    claims: NotRequired[pulumi.Input[Mapping[str, str]]]
    """Name of each node's own PersistentVolumeClaim, by the node's name; `Placement.hostnames` has the same names."""
    host_path: NotRequired[str]
    """Directory of every node, such as `/mnt/nvme`."""


class ServerEngine(TypedDict):
    """The engine of a server, and what it is started with."""

    name: EngineName
    """`vllm` or `llama.cpp`."""
    image: pulumi.Input[str]
    """Image of the engine, such as `vllm/vllm-openai:v0.33.0`."""
    arguments: NotRequired[Sequence[str]]
    """Arguments of the engine. Model, served name, host, port and the ranks of a group are set for you. Unset: none."""
    environment: NotRequired[Mapping[str, pulumi.Input[str]]]
    """Environment of the engine. No secrets. Unset: none."""
    model_file: NotRequired[str | None]
    """The file to serve, or the first of its shards, for an engine that serves one file: `llama.cpp` needs it."""


class ServerPods(TypedDict):
    """How many pods a server has, and what each asks for."""

    replicas: NotRequired[int]
    """Servers behind the one Service, each on nodes of its own. Unset: 1."""
    nodes_per_server: NotRequired[int]
    """Nodes of each server, one pod on each; more than 1 start and end together, and need LeaderWorkerSet. Unset: 1."""
    gpus_per_pod: NotRequired[int]
    """GPUs of each pod. Unset: none."""
    cpus: NotRequired[int | None]
    """CPUs of each pod. Unset: none are asked for."""
    memory_request: NotRequired[str | None]
    """Memory that each pod asks for, such as `256Gi`. Unset: none is asked for."""
    memory_limit: NotRequired[str | None]
    """Most memory that each pod may use, what it writes to `/dev/shm` included. Unset: no limit."""
    shared_memory_bytes: NotRequired[int]
    """Size of `/dev/shm`, in memory. Unset: the container runtime's default."""
    collective_library: NotRequired[str | None]
    """Library through which the ranks of a server talk, `NCCL` or `RCCL`; it is named in messages. Unset: NCCL."""
    masked_directory: NotRequired[str | None]
    """Directory of the image to be hidden under an empty volume. Unset: none."""


class StartLimits(TypedDict):
    """How long a server may take to start and to end, in seconds."""

    engine_ready_seconds: NotRequired[int]
    """An engine with a ready time-out of its own gives itself up after this long. Unset: an hour."""
    startup_period_seconds: NotRequired[int]
    """Period of the startup probe. Unset: 10."""
    startup_failure_threshold: NotRequired[int]
    """How often the startup probe may fail. Unset: as often as an hour and a minute allow."""
    await_seconds: NotRequired[int]
    """`pulumi up` waits this long for a server that makes no progress. Unset: an hour and a half."""
    termination_grace_seconds: NotRequired[int]
    """A pod that is told to end is killed after this long. Unset: 60."""


def whole_numbers(values: Arguments) -> Arguments:
    """The same arguments with `8.0` as `8`: Pulumi's protocol has one kind of number, and its component host passes
    that on."""
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
    """The section `key` from plain values. Raises pulumi.RunError with every fault."""
    whole = create_model("Sections", **{key: (section, ...)})  # type: ignore[call-overload]
    try:
        return cast(AnySection, getattr(whole.model_validate({key: values}), key))
    except ValidationError as error:
        raise pulumi.RunError("\n  ".join(["nothing was created:", *sentences(error, whole)])) from None
