"""The volume with the weights, as the pods of stager and server mount it."""

from typing import cast

import pulumi
import pytest

from components.arguments import Placement, WeightSource
from components.pods.placement import PodPlacement
from components.pods.weight_source import PlacedVolume, placed_volumes, served_volume
from tests.recording_engine import record
from tests.unit.components.samples import H200, ON_H200, TWO_H200S, UNNAMED


def test_a_directory_is_mounted_on_each_named_node() -> None:
    volumes = placed_volumes({"host_path": "/mnt/nvme"}, PodPlacement.of(TWO_H200S))
    assert [(volume.hostname, volume.nodes) for volume in volumes] == [("h200-0", 1), ("h200-1", 1)]


def test_a_directory_of_nodes_without_names_is_filled_by_their_number() -> None:
    (volume,) = placed_volumes({"host_path": "/mnt/nvme"}, PodPlacement.of(UNNAMED))
    assert (volume.hostname, volume.nodes) == (None, 2)


def test_a_claim_that_all_share_is_filled_once() -> None:
    (volume,) = placed_volumes({"claim": "weights"}, PodPlacement.of(TWO_H200S))
    assert volume.hostname is None
    assert volume.pod_volume() == {"name": "weights", "persistent_volume_claim": {"claim_name": "weights"}}


@pytest.mark.parametrize("path", ["/mnt/nvme", "/mnt/nvme/weights"])
def test_a_directory_on_the_nvme_is_never_made_in_place_of_a_disk_that_is_not_mounted(path: str) -> None:
    (volume,) = placed_volumes({"host_path": path}, PodPlacement.of(H200))
    assert volume.pod_volume() == {"name": "weights", "host_path": {"path": path, "type": "Directory"}}


def test_a_directory_on_the_empty_disk_of_a_node_that_has_just_joined_is_made_by_the_stager() -> None:
    (volume,) = placed_volumes({"host_path": "/mnt/nvme"}, PodPlacement.of(UNNAMED))
    assert volume.pod_volume()["host_path"] == {"path": "/mnt/nvme", "type": "DirectoryOrCreate"}
    assert volume.served_pod_volume()["host_path"] == {"path": "/mnt/nvme", "type": "Directory"}


@pytest.mark.parametrize("path", ["/var/lib/heavylift/weights", "/mnt/nvme-other"])
def test_a_directory_elsewhere_is_made_by_the_stager_and_never_by_the_server(path: str) -> None:
    (volume,) = placed_volumes({"host_path": path}, PodPlacement.of(H200))
    assert volume.pod_volume()["host_path"] == {"path": path, "type": "DirectoryOrCreate"}
    assert volume.served_pod_volume()["host_path"] == {"path": path, "type": "Directory"}


@pytest.mark.parametrize(
    ("source", "had"), [({}, "none"), ({"claim": "weights", "host_path": "/mnt/nvme"}, "claim and host_path")]
)
def test_a_source_is_exactly_one_volume(source: dict[str, str], had: str) -> None:
    with pytest.raises(pulumi.RunError, match=f"volume: has {had} of claim, claims and host_path"):
        placed_volumes(cast(WeightSource, source), PodPlacement.of(H200))


def test_claims_by_name_need_the_names() -> None:
    with pytest.raises(pulumi.RunError, match=r"placement\.hostnames is missing"):
        placed_volumes(ON_H200, PodPlacement.of(UNNAMED))


def served(source: WeightSource, placement: Placement) -> PlacedVolume:
    """The volume that servers mount, as a program gets it: outputs need the loop of a program."""
    volumes: list[PlacedVolume] = []
    record(lambda: volumes.append(served_volume(source, PodPlacement.of(placement))), stack="h200")
    return volumes[0]


def test_a_server_on_one_node_mounts_the_claim_of_that_node() -> None:
    assert served(ON_H200, H200).hostname == "h200-0"


def test_servers_of_several_nodes_mount_the_claim_that_is_tied_to_none_of_them() -> None:
    volume = served({"claims": {"h200-0": "a", "h200-1": "b"}, "served_claim": "weights.served"}, TWO_H200S)
    assert (volume.hostname, volume.pod_volume()["persistent_volume_claim"]) == (None, {"claim_name": "weights.served"})


def test_servers_of_several_nodes_are_refused_where_each_claim_is_tied_to_a_node() -> None:
    with pytest.raises(pulumi.RunError, match=r"volume\.served_claim: is missing"):
        served({"claims": {"h200-0": "a", "h200-1": "b"}}, TWO_H200S)
