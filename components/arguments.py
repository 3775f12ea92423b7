"""Arguments that several components take: where pods go, and the volume with the weights."""

from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, TypeVar, cast

import pulumi
from pydantic import ValidationError, create_model

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
