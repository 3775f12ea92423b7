"""The volume with the weights, as pods mount it: written by the stager, read by the server."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pulumi

from components.arguments import WeightSource
from components.pods.placement import PodPlacement


@dataclass(frozen=True)
class PlacedVolume:
    """The weights as the pods of one node mount them, or of several whose names are not known."""

    hostname: str | None
    """The node; None: the cluster puts pods and volume together."""
    source: dict[str, Any]
    """Volume source of a pod that may write."""
    nodes: int = 1
    """Nodes that each have such a volume of their own; more than 1 only where their names are not known."""

    def unnamed(self) -> "PlacedVolume":
        """The same volume without the name of its claim."""
        if "persistent_volume_claim" not in self.source:
            return self
        return replace(self, source={"persistent_volume_claim": {"claim_name": None}})

    def pod_volume(self) -> dict[str, Any]:
        """The volume of a pod spec, for the stager."""
        return {"name": "weights", **self.source}

    def served_pod_volume(self) -> dict[str, Any]:
        """The volume of a pod spec, for a server: a directory that is missing is an error and never made."""
        if host_path := self.source.get("host_path"):
            return {"name": "weights", "host_path": host_path | {"type": "Directory"}}
        return self.pod_volume()


def placed_volumes(source: WeightSource, placement: PodPlacement) -> Sequence[PlacedVolume]:
    """Every volume that has to be filled: one for each node, or one that all share.

    Raises pulumi.RunError when the source is not exactly one volume, or the nodes' names are needed and not known.
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
    return [PlacedVolume(None, directory, placement.nodes)]


def _claimed(claim: pulumi.Input[str], hostname: str | None) -> PlacedVolume:
    return PlacedVolume(hostname, {"persistent_volume_claim": {"claim_name": claim}})


def _directory(path: str, placement: PodPlacement) -> dict[str, Any]:
    # A directory made in place of a disk that is not mounted would fill the node's root disk.
    nvme = placement.nvme_path
    on_nvme = nvme is not None and f"{path}/".startswith(f"{nvme}/")
    return {"host_path": {"path": path, "type": "Directory" if on_nvme else "DirectoryOrCreate"}}
