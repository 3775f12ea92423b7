"""The volume for the weights: on the nodes' own disks, or from a storage class.

Names are fixed, so that a stack finds its staged weights again after `pulumi destroy`. Sizes are fixed at creation,
because a claim cannot shrink, and only some classes let it grow. Pulumi does not wait for claims, because a claim may
bind only when its first pod starts. The component deletes weights only if the caller sets `retain` to false.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_kubernetes.core.v1 import PersistentVolume, PersistentVolumeClaim

from components.arguments import Placement, WeightSource, whole_numbers
from components.pods.labels import labels
from components.pods.names import claim_name, disk_name, object_name, served_claim_name, stack_name
from components.pods.placement import HOSTNAME_LABEL
from config.quantity import whole_gibibytes
from config.stack.sections import WeightsKind

_UNAWAITED = {"pulumi.com/skipAwait": "true"}

_WRITTEN_BY_THE_CLUSTER = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/selected-node",
    "volume.kubernetes.io/storage-provisioner",
)
"""Annotations of an adopted claim that Pulumi must ignore. It must not ignore all annotations: without
`pulumi.com/skipAwait`, an update of the claim would never finish (github.com/pulumi/pulumi-kubernetes/issues/4179)."""


class WeightVolumeArgs(TypedDict):
    """The arguments of `WeightVolume`."""

    kind: WeightsKind
    """`local`: a PersistentVolume on each node's disk, and one for the servers of several nodes. `host-path`: a
    directory on each node. `claim`: one PersistentVolumeClaim from a storage class."""
    placement: Placement
    """The nodes that stage and serve."""
    namespace: NotRequired[pulumi.Input[str] | None]
    """Namespace of the claims, for `local` and `claim`."""
    path: NotRequired[str | None]
    """Directory on the nodes, for `local` and `host-path`."""
    size_bytes: NotRequired[int | None]
    """Size of the volume, for `local` and `claim`."""
    storage_class: NotRequired[pulumi.Input[str] | None]
    """Storage class, for `claim`. Unset: the cluster's default."""
    shared: NotRequired[bool]
    """Whether pods on several nodes mount the `claim`. Unset: pods on one node."""
    retain: NotRequired[bool]
    """Keep the `claim` after `pulumi destroy`. Unset: true."""
    adopt: NotRequired[str | None]
    """`namespace/name` of an existing `claim` to adopt. Unset: create a new one."""


class WeightVolume(pulumi.ComponentResource):
    """The volume for the weights, on every node of a placement or from a storage class."""

    claim: pulumi.Output[str | None]
    """Name of the PersistentVolumeClaim, for `claim`."""
    claims: pulumi.Output[Mapping[str, str]]
    """Name of each node's PersistentVolumeClaim by the node's name, for `local`. Empty for other kinds."""
    served_claim: pulumi.Output[str | None]
    """Name of the claim that servers mount, for `local` on several nodes."""
    host_path: pulumi.Output[str | None]
    """Directory on every node, for `host-path`."""

    def __init__(self, name: str, args: WeightVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        self._name, self._args, self._kind = name, whole_numbers(args), WeightsKind(args["kind"])
        if missing := list(self._missing()):
            raise pulumi.RunError("\n  ".join([f"WeightVolume {name}: nothing was created:", *missing]))
        super().__init__("heavylift:index:WeightVolume", name, {}, opts)
        self.source = self._source()
        self.claim = pulumi.Output.from_input(self.source.get("claim"))
        self.claims = pulumi.Output.from_input(self.source.get("claims") or {})
        self.served_claim = pulumi.Output.from_input(self.source.get("served_claim"))
        self.host_path = pulumi.Output.from_input(self.source.get("host_path"))
        outputs = ("claim", "claims", "served_claim", "host_path")
        self.register_outputs({output: getattr(self, output) for output in outputs})

    def _missing(self) -> Iterator[str]:
        args, kind = self._args, self._kind
        needed = {
            WeightsKind.LOCAL: ("path", "size_bytes", "namespace"),
            WeightsKind.HOST_PATH: ("path",),
            WeightsKind.CLAIM: ("size_bytes", "namespace"),
        }
        yield from (f"{key}: is missing: kind {kind} needs it" for key in needed[kind] if args.get(key) is None)
        if kind is WeightsKind.LOCAL and not args["placement"].get("hostnames"):
            yield "placement.hostnames: is missing: kind local ties each disk to its node by name"

    def _source(self) -> WeightSource:
        match self._kind:
            case WeightsKind.LOCAL:
                return self._locals()
            case WeightsKind.HOST_PATH:
                return {"host_path": self._path()}
            case WeightsKind.CLAIM:
                return {"claim": self._claim()}

    def _locals(self) -> WeightSource:
        """Returns each node's claim, through which its weights are staged, and the one that servers mount.

        A `local` volume ties a pod to its node, and each server of several nodes has one pod template. Servers mount a
        volume that is the same directory on every node instead, so that the scheduler may choose a spare one.
        """
        hostnames = self._args["placement"].get("hostnames") or ()
        volume, path = object_name(self._name), self._path()
        claims = {
            hostname: self._bound(
                f"-{hostname}",
                claim_name(volume, hostname),
                "ReadWriteOnce",
                {"local": {"path": path}, "node_affinity": {"required": _only_on(hostname)}},
            )
            for hostname in hostnames
        }
        source: WeightSource = {"claims": pulumi.Output.all(**claims)}
        if len(hostnames) > 1:
            directory = {"host_path": {"path": path, "type": "Directory"}}
            source["served_claim"] = self._bound(".served", served_claim_name(volume), "ReadWriteMany", directory)
        return source

    def _bound(self, suffix: str, claim: str, mode: str, source: dict[str, Any]) -> pulumi.Output[str]:
        """Makes a volume and its claim, and returns the claim's name.

        `suffix`: of their names in the program. `source`: of the volume.
        """
        namespace = self._namespace()
        name = pulumi.Output.from_input(namespace).apply(lambda within: disk_name(within, claim))
        disk = PersistentVolume(
            f"{self._name}{suffix}",
            metadata={"name": name, "labels": self._labels()},
            spec={
                "access_modes": [mode],
                "capacity": {"storage": self._size()},
                "claim_ref": {"namespace": namespace, "name": claim},
                **source,
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": "",
            },
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["spec.capacity"]),
        )
        return PersistentVolumeClaim(
            f"{self._name}-claim{suffix}",
            metadata=self._claim_metadata(claim),
            spec=self._claim_spec(mode) | {"storage_class_name": "", "volume_name": disk.metadata["name"]},
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["spec.resources"]),
        ).metadata["name"]

    def _claim(self) -> pulumi.Output[str]:
        storage_class = self._args.get("storage_class")
        return PersistentVolumeClaim(
            f"{self._name}-claim",
            metadata=self._claim_metadata(claim_name(object_name(self._name))),
            spec=self._claim_spec("ReadWriteMany" if self._args.get("shared") else "ReadWriteOnce")
            | ({} if storage_class is None else {"storage_class_name": storage_class}),
            opts=pulumi.ResourceOptions(
                parent=self,
                ignore_changes=["spec", *(f'metadata.annotations["{key}"]' for key in _WRITTEN_BY_THE_CLUSTER)],
                retain_on_delete=self._args.get("retain", True),
                import_=self._args.get("adopt"),
            ),
        ).metadata["name"]

    def _claim_metadata(self, claim: str) -> dict[str, Any]:
        return {
            "name": claim,
            "namespace": self._namespace(),
            "labels": self._labels(),
            "annotations": _UNAWAITED,
        }

    def _claim_spec(self, mode: str) -> dict[str, Any]:
        return {"access_modes": [mode], "resources": {"requests": {"storage": self._size()}}}

    def _labels(self) -> dict[str, str]:
        return labels(stack_name(), self._name)

    def _path(self) -> str:
        return self._args.get("path") or ""

    def _namespace(self) -> pulumi.Input[str]:
        return self._args.get("namespace") or ""

    def _size(self) -> str:
        return whole_gibibytes(self._args.get("size_bytes") or 0)


def _only_on(hostname: str) -> dict[str, Any]:
    return {
        "node_selector_terms": [
            {"match_expressions": [{"key": HOSTNAME_LABEL, "operator": "In", "values": [hostname]}]}
        ]
    }
