"""The volume with the weights, as the pods of stager and server mount it."""

from typing import cast

import pulumi
import pytest

from components.arguments import WeightSource
from components.pods.placement import PodPlacement
from components.pods.weight_source import placed_volumes
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
