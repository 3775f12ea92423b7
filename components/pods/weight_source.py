"""The volume with the weights, as pods mount it. The stager writes to it, and the server reads it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from components.arguments import WeightSource
from components.pods.placement import PodPlacement


@dataclass(frozen=True)
class PlacedVolume:
    """The volume of one node, or of several nodes with unknown names."""

    hostname: str | None
    """Name of the node. None: the scheduler puts pods and volume on the same node."""
    source: dict[str, Any]
    """Volume source in the stager's pod."""
    nodes: int = 1
    """Number of nodes with such a volume each. More than 1 only if the nodes' names are unknown."""
    of_group: bool = False
    """Whether each node of a group has such a volume, with no weights on a node that has just joined."""

    def unnamed(self) -> "PlacedVolume":
        """Returns the volume without the name of its claim."""
        if "persistent_volume_claim" not in self.source:
            return self
        return replace(self, source={"persistent_volume_claim": {"claim_name": None}})

    def pod_volume(self) -> dict[str, Any]:
        """Returns the volume of the stager's pod spec."""
        return {"name": "weights", **self.source}

    def served_pod_volume(self) -> dict[str, Any]:
        """Returns the volume of a server's pod spec. If a directory is missing, the pod fails to start."""
        if host_path := self.source.get("host_path"):
            return {"name": "weights", "host_path": host_path | {"type": "Directory"}}
        return self.pod_volume()


def placed_volumes(source: WeightSource, placement: PodPlacement) -> Sequence[PlacedVolume]:
    """Returns every volume to fill: one for each node, or one that all nodes share.

    Raises pulumi.RunError if the source is not exactly one volume, or a required name of a node is missing.
    """
    given = [key for key in ("claim", "claims", "host_path") if source.get(key) is not None]
    if len(given) != 1:
        raise pulumi.RunError(
            f"volume: has {' and '.join(given) or 'none'} of claim, claims and host_path: expected exactly one; "
            "nothing was created"
        )
    if (claim := source.get("claim")) is not None:
        return [_claimed(claim, None)]
    if (claims := source.get("claims")) is not None:
        if not placement.hostnames:
            raise pulumi.RunError(
                "volume.claims: each node has a claim by its name, and placement.hostnames is missing: expected the "
                "names of the nodes, or one claim that all share; nothing was created"
            )
        by_node = pulumi.Output.from_input(claims)
        return [_claimed(by_node[hostname], hostname) for hostname in placement.hostnames]
    directory = _directory(source["host_path"], placement)
    if placement.hostnames:
        return [PlacedVolume(hostname, directory) for hostname in placement.hostnames]
    return [PlacedVolume(None, directory, placement.nodes, placement.is_group)]


def served_volume(source: WeightSource, placement: PodPlacement) -> PlacedVolume:
    """Returns the volume that servers mount.

    Raises pulumi.RunError as `placed_volumes` does, or if servers of several nodes would mount the claim of one.
    """
    volume = placed_volumes(source, placement)[0]
    if source.get("claims") is None or len(placement.hostnames) == 1:
        return volume
    if (claim := source.get("served_claim")) is None:
        raise pulumi.RunError(
            "volume.served_claim: is missing: each claim of volume.claims ties a pod to its node; expected the claim "
            "that is the same directory on every node, as a WeightVolume makes it; nothing was created"
        )
    return _claimed(claim, None)


def _claimed(claim: pulumi.Input[str], hostname: str | None) -> PlacedVolume:
    return PlacedVolume(hostname, {"persistent_volume_claim": {"claim_name": claim}})


def _directory(path: str, placement: PodPlacement) -> dict[str, Any]:
    # If the disk is not mounted, a directory that the kubelet creates in its place would fill the node's root disk. The
    # nodes of a group join with an empty disk, where nothing but the stager creates the directory.
    nvme = placement.nvme_path
    must_exist = nvme is not None and f"{path}/".startswith(f"{nvme}/") and not placement.is_group
    return {"host_path": {"path": path, "type": "Directory" if must_exist else "DirectoryOrCreate"}}
