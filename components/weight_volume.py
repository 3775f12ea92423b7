"""The volume under the weights: on the nodes' own disks, or from a storage class.

Names are fixed, so that what was staged is found again after `pulumi destroy`. Sizes are fixed at
creation: a claim cannot shrink, and only some classes let it grow. Claims are not awaited, because
one that waits for its first pod would be awaited for ever. Nothing here deletes weights unless the
stack says so.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import PersistentVolume, PersistentVolumeClaim

from components.pods.labels import labels
from components.pods.placement import HOSTNAME_LABEL, Placement
from config.quantity import whole_gibibytes
from config.stack.sections import Weights, WeightsKind

_UNAWAITED = {"pulumi.com/skipAwait": "true"}


def claim_name(instance: str, hostname: str | None = None) -> str:
    """Name of the claim of a stack, or of one of its nodes."""
    return "-".join(part for part in (instance, "weights", hostname) if part)


def volume_name(namespace: str, instance: str, hostname: str) -> str:
    """Name of a node's PersistentVolume, which all namespaces share."""
    return f"heavylift-{namespace}-{claim_name(instance, hostname)}"


@dataclass(frozen=True)
class PlacedVolume:
    """The weights as the pods of one node mount them."""

    hostname: str | None
    """The node; None: the cluster puts pods and volume together."""
    source: dict[str, Any]
    """Volume source of a pod that may write."""

    def pod_volume(self) -> dict[str, Any]:
        """The volume of a pod spec, for the stager."""
        return {"name": "weights", **self.source}

    def served_pod_volume(self) -> dict[str, Any]:
        """The volume of a pod spec, for a server: a directory that is missing is an error and never made."""
        if host_path := self.source.get("host_path"):
            return {"name": "weights", "host_path": host_path | {"type": "Directory"}}
        return self.pod_volume()


_WRITTEN_BY_THE_CLUSTER = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
)
"""Annotations that an adopted claim carries. Only these are left alone: without `pulumi.com/skipAwait` an update of the
claim would wait for a change that never comes (github.com/pulumi/pulumi-kubernetes/issues/4179)."""


class WeightVolumeArgs(TypedDict):
    """What `WeightVolume` needs to know."""

    instance: str
    """Name of the stack, part of all names."""
    namespace: str
    """Namespace of the claims."""
    weights: Weights
    """The volume, as the stack file has it."""
    path: NotRequired[str | None]
    """Directory on the nodes, for `local` and `host-path`."""
    size_bytes: NotRequired[int | None]
    """Size of the volume, for `local` and `claim`."""
    placement: Placement
    """The nodes that stage and serve."""
    shared: NotRequired[bool]
    """Whether pods on several nodes mount the one `claim`; unset: on one node."""
    adopt: NotRequired[str | None]
    """`namespace/name` of a claim that an earlier stack left, to be taken over; unset: a new one is made."""


class WeightVolume(pulumi.ComponentResource):
    """A place for weights on every node of a placement, or one that the cluster provides."""

    claims: pulumi.Output[Sequence[str]]
    """Names of the claims; none for `host-path`."""

    def __init__(self, name: str, args: WeightVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("heavylift:index:WeightVolume", name, {}, opts)
        self._name, self._args = name, args
        match args["weights"].kind:
            case WeightsKind.LOCAL:
                self.volumes = [self._local(hostname) for hostname in args["placement"].hostnames]
            case WeightsKind.HOST_PATH:
                hostnames: Sequence[str | None] = args["placement"].hostnames or [None]
                self.volumes = [self._host_path(hostname) for hostname in hostnames]
            case WeightsKind.CLAIM:
                self.volumes = [self._claim()]
        sources = [volume.source.get("persistent_volume_claim") for volume in self.volumes]
        self.claims = pulumi.Output.all(*[source["claim_name"] for source in sources if source])
        self.register_outputs({"claims": self.claims})

    def _host_path(self, hostname: str | None) -> PlacedVolume:
        path, nvme = self._path(), self._args["placement"].nvme_path
        # A directory made in place of a disk that is not mounted would fill the node's root disk.
        on_nvme = nvme is not None and f"{path}/".startswith(f"{nvme}/")
        kind = "Directory" if on_nvme else "DirectoryOrCreate"
        return PlacedVolume(hostname, {"host_path": {"path": path, "type": kind}})

    def _local(self, hostname: str) -> PlacedVolume:
        namespace, instance = self._args["namespace"], self._args["instance"]
        claim = claim_name(instance, hostname)
        disk = PersistentVolume(
            f"{self._name}-{hostname}",
            metadata={"name": volume_name(namespace, instance, hostname), "labels": labels(instance, "weights")},
            spec={
                "access_modes": ["ReadWriteOnce"],
                "capacity": {"storage": self._size()},
                "claim_ref": {"namespace": namespace, "name": claim},
                "local": {"path": self._path()},
                "node_affinity": {"required": _only_on(hostname)},
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": "",
            },
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["spec.capacity"]),
        )
        return self._claimed(
            PersistentVolumeClaim(
                f"{self._name}-claim-{hostname}",
                metadata=self._claim_metadata(claim),
                spec=self._claim_spec() | {"storage_class_name": "", "volume_name": disk.metadata["name"]},
                opts=pulumi.ResourceOptions(parent=self, ignore_changes=["spec.resources"]),
            ),
            hostname,
        )

    def _claim(self) -> PlacedVolume:
        weights = self._args["weights"]
        storage_class = {"storage_class_name": weights.storage_class} if weights.storage_class else {}
        return self._claimed(
            PersistentVolumeClaim(
                f"{self._name}-claim",
                metadata=self._claim_metadata(claim_name(self._args["instance"])),
                spec=self._claim_spec() | storage_class,
                opts=pulumi.ResourceOptions(
                    parent=self,
                    ignore_changes=["spec", *(f'metadata.annotations["{key}"]' for key in _WRITTEN_BY_THE_CLUSTER)],
                    retain_on_delete=weights.retain,
                    import_=self._args.get("adopt"),
                ),
            ),
            None,
        )

    def _claimed(self, claim: PersistentVolumeClaim, hostname: str | None) -> PlacedVolume:
        return PlacedVolume(hostname, {"persistent_volume_claim": {"claim_name": claim.metadata["name"]}})

    def _claim_metadata(self, claim: str) -> dict[str, Any]:
        return {
            "name": claim,
            "namespace": self._args["namespace"],
            "labels": labels(self._args["instance"], "weights"),
            "annotations": _UNAWAITED,
        }

    def _claim_spec(self) -> dict[str, Any]:
        mode = "ReadWriteMany" if self._args.get("shared") else "ReadWriteOnce"
        return {"access_modes": [mode], "resources": {"requests": {"storage": self._size()}}}

    def _path(self) -> str:
        path = self._args.get("path")
        if path is None:
            raise ValueError(f"WeightVolume {self._name}: kind {self._args['weights'].kind} needs a path")
        return path

    def _size(self) -> str:
        size = self._args.get("size_bytes")
        if size is None:
            raise ValueError(f"WeightVolume {self._name}: kind {self._args['weights'].kind} needs size_bytes")
        return whole_gibibytes(size)


def _only_on(hostname: str) -> dict[str, Any]:
    return {
        "node_selector_terms": [
            {"match_expressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": [hostname]}]}
        ]
    }
