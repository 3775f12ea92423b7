"""A node group of EKS: what its instance type says of the nodes, and how its instances are bought."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import ValidationInfo, field_validator

from config.catalogue import CapacityKind, Instance, NotInCatalogueError, described_gpu, find_instance
from config.matching import Matching
from config.stack.sections.fields import Section

NVME_MOUNT = "/mnt/k8s-disks/0"
"""Where nodeadm mounts the instance store disks as one array (github.com/awslabs/amazon-eks-ami, setup-local-disks)."""

NVME_PATH = f"{NVME_MOUNT}/heavylift"
"""Directory of the weights on that array, beside those of the kubelet and the container runtime."""

EFA_RESOURCE = "vpc.amazonaws.com/efa"
"""Extended resource of the EFA device plugin."""

TAINT_VALUE = "true"
"""Value of the GPU nodes' taint, which keeps other pods away. Its key is the GPUs' resource, as is usual."""

AMI_DRIVER = "580"
"""Branch of the GPU driver on the EKS image AL2023_x86_64_NVIDIA (github.com/awslabs/amazon-eks-ami, CHANGELOG)."""

PLACEHOLDER_RESERVATION = "cr-00000000000000000"
"""The reservation in the shipped stack files, which the program refuses: nobody has it."""

ReservationId = Annotated[
    str, Matching(r"cr-[0-9a-f]{17}", "the ID of a capacity reservation, such as cr-0123456789abcdef0")
]


class Capacity(Section):
    """How the instances of an EKS node group are bought."""

    kind: CapacityKind = CapacityKind.ON_DEMAND
    """`on-demand`; `reservation`: an on-demand capacity reservation; `capacity-block`: a Capacity Block for ML. The
    program buys neither reservations nor blocks."""
    id: ReservationId | None = None
    """ID of the reservation or block, which these kinds require."""

    @field_validator("id")
    @classmethod
    def _goes_with_kind(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("kind") is CapacityKind.ON_DEMAND:
            raise ValueError("has no meaning for kind on-demand: leave it out, or state the kind of this reservation")
        return value


def instance_of(values: Mapping[str, Any]) -> Instance | None:
    """The instance type of `heavylift:nodes` with these values. None: it names none, or an unknown one."""
    name = values.get("instance_type")
    try:
        return find_instance(name) if isinstance(name, str) else None
    except NotInCatalogueError:
        return None


def gpu_taint(instance: Instance) -> dict[str, str]:
    """The taint of the nodes."""
    return {"key": described_gpu(instance.gpu).vendor.resource, "value": TAINT_VALUE, "effect": "NoSchedule"}


def derived(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of `heavylift:nodes` that follow from the instance type. Empty: the type is not known.

    One node needs no network between nodes, and so gets none: then `fabric` is None.
    """
    instance = instance_of(values)
    if instance is None:
        return {}
    keys: dict[str, Any] = {
        "gpu": instance.gpu,
        "gpus_per_node": instance.gpus,
        "driver": AMI_DRIVER,
        "nvme_path": NVME_PATH,
        "taints": [gpu_taint(instance)],
        "fabric": None,
    }
    count = values.get("count")
    if instance.efa_interfaces and isinstance(count, int) and count > 1:
        keys["fabric"] = {"kind": "efa", "resource": EFA_RESOURCE, "count": instance.efa_interfaces}
    return keys
