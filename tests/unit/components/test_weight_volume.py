"""The volume under the weights: names that are found again, and nothing that deletes what was staged."""

from dataclasses import replace

import pytest

from components.pods.placement import Placement
from components.weight_volume import PlacedVolume, WeightVolume, WeightVolumeArgs
from config.stack.sections import Weights, WeightsKind
from tests.recording_engine import Recording, record
from tests.unit.components.samples import ANYWHERE, H200

TERABYTE = 10**12


def made(
    kind: WeightsKind,
    placement: Placement = H200,
    *,
    path: str | None = "/mnt/nvme",
    size_bytes: int | None = TERABYTE,
    adopt: str | None = None,
    storage_class: str | None = None,
    retain: bool = True,
    shared: bool = False,
) -> tuple[Recording, list[PlacedVolume]]:
    args: WeightVolumeArgs = {
        "instance": "h200",
        "namespace": "serving",
        "weights": Weights(kind=kind, storage_class=storage_class, retain=retain),
        "path": path,
        "size_bytes": size_bytes,
        "placement": placement,
        "adopt": adopt,
        "shared": shared,
    }
    volumes: list[PlacedVolume] = []
    recording = record(lambda: volumes.extend(WeightVolume("weights", args).volumes))
    return recording, volumes


def test_a_local_disk_is_a_volume_and_a_claim_with_names_that_the_next_stack_finds() -> None:
    recording, (volume,) = made(WeightsKind.LOCAL)
    disk, claim = recording.only(":PersistentVolume"), recording.only(":PersistentVolumeClaim")
    assert disk.inputs["metadata"]["name"] == "heavylift-serving-h200-weights-h200-0"
    assert claim.inputs["metadata"]["name"] == "h200-weights-h200-0"
    assert claim.inputs["metadata"]["namespace"] == "serving"
    assert claim.inputs["spec"]["volumeName"] == disk.inputs["metadata"]["name"]
    assert disk.inputs["spec"]["claimRef"] == {"namespace": "serving", "name": "h200-weights-h200-0"}
    assert volume.hostname == "h200-0"


def test_a_local_disk_is_tied_to_its_node_and_outlives_its_claim() -> None:
    recording, _ = made(WeightsKind.LOCAL)
    spec = recording.only(":PersistentVolume").inputs["spec"]
    assert spec["local"] == {"path": "/mnt/nvme"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["h200-0"]}]


def test_a_local_disk_is_bound_by_name_and_never_by_a_storage_class() -> None:
    recording, _ = made(WeightsKind.LOCAL)
    assert recording.only(":PersistentVolume").inputs["spec"]["storageClassName"] == ""
    assert recording.only(":PersistentVolumeClaim").inputs["spec"]["storageClassName"] == ""


def test_sizes_are_whole_gibibytes_and_fixed_at_creation() -> None:
    recording, _ = made(WeightsKind.LOCAL)
    disk, claim = recording.only(":PersistentVolume"), recording.only(":PersistentVolumeClaim")
    assert disk.inputs["spec"]["capacity"] == {"storage": "932Gi"}, "10^12 bytes are 931.3 GiB"
    assert claim.inputs["spec"]["resources"] == {"requests": {"storage": "932Gi"}}
    assert disk.options["ignoreChanges"] == ["spec.capacity"]
    assert claim.options["ignoreChanges"] == ["spec.resources"]


@pytest.mark.parametrize("kind", [WeightsKind.LOCAL, WeightsKind.CLAIM])
def test_a_claim_that_waits_for_its_first_pod_is_not_awaited(kind: WeightsKind) -> None:
    recording, _ = made(kind)
    annotations = recording.only(":PersistentVolumeClaim").inputs["metadata"]["annotations"]
    assert annotations == {"pulumi.com/skipAwait": "true"}


def test_a_claim_is_kept_when_the_stack_goes_and_taken_over_when_it_comes_back() -> None:
    recording, (volume,) = made(WeightsKind.CLAIM, ANYWHERE, adopt="serving/h200-weights")
    claim = recording.only(":PersistentVolumeClaim")
    assert claim.inputs["metadata"]["name"] == "h200-weights"
    assert claim.options["retainOnDelete"] is True
    assert claim.options["importId"] == "serving/h200-weights"
    assert volume.hostname is None


def test_a_claim_goes_with_the_stack_only_where_the_stack_says_so() -> None:
    recording, _ = made(WeightsKind.CLAIM, ANYWHERE, retain=False)
    assert not recording.only(":PersistentVolumeClaim").options.get("retainOnDelete")


@pytest.mark.parametrize(("storage_class", "given"), [("gp3", {"storageClassName": "gp3"}), (None, {})])
def test_a_claim_names_a_storage_class_only_where_the_stack_does(
    storage_class: str | None, given: dict[str, str]
) -> None:
    recording, _ = made(WeightsKind.CLAIM, ANYWHERE, storage_class=storage_class)
    spec = recording.only(":PersistentVolumeClaim").inputs["spec"]
    assert {key: value for key, value in spec.items() if key == "storageClassName"} == given


@pytest.mark.parametrize(("shared", "mode"), [(False, "ReadWriteOnce"), (True, "ReadWriteMany")])
def test_a_claim_for_pods_on_several_nodes_is_one_that_all_of_them_can_mount(shared: bool, mode: str) -> None:
    recording, _ = made(WeightsKind.CLAIM, shared=shared)
    assert recording.only(":PersistentVolumeClaim").inputs["spec"]["accessModes"] == [mode]


def test_a_directory_of_the_nodes_is_mounted_on_each_of_them_and_makes_no_object() -> None:
    recording, volumes = made(WeightsKind.HOST_PATH, replace(H200, hostnames=["h200-0", "h200-1"]))
    assert len(recording.registrations) == 1
    assert [volume.hostname for volume in volumes] == ["h200-0", "h200-1"]


@pytest.mark.parametrize("path", ["/mnt/nvme", "/mnt/nvme/weights"])
def test_a_directory_on_the_nvme_is_never_made_in_place_of_a_disk_that_is_not_mounted(path: str) -> None:
    _, (volume,) = made(WeightsKind.HOST_PATH, path=path)
    assert volume.pod_volume() == {"name": "weights", "host_path": {"path": path, "type": "Directory"}}


@pytest.mark.parametrize("path", ["/var/lib/heavylift/weights", "/mnt/nvme-other"])
def test_a_directory_elsewhere_is_made_by_the_stager_and_never_by_the_server(path: str) -> None:
    _, (volume,) = made(WeightsKind.HOST_PATH, path=path)
    assert volume.pod_volume()["host_path"] == {"path": path, "type": "DirectoryOrCreate"}
    assert volume.served_pod_volume()["host_path"] == {"path": path, "type": "Directory"}


def test_a_volume_without_its_size_or_path_is_refused() -> None:
    with pytest.raises(ValueError, match="kind claim needs size_bytes"):
        made(WeightsKind.CLAIM, ANYWHERE, size_bytes=None)
    with pytest.raises(ValueError, match="kind local needs a path"):
        made(WeightsKind.LOCAL, path=None)
