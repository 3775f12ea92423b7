"""The volume under the weights: names that are found again, and nothing that deletes what was staged."""

from typing import Any

import pulumi
import pytest

from components.arguments import Placement
from components.weight_volume import WeightVolume, WeightVolumeArgs
from config.stack.sections import WeightsKind
from tests.recording_engine import Recording, record
from tests.unit.components.samples import ANYWHERE, H200, TWO_H200S, UNNAMED

TERABYTE = 10**12


def made(
    kind: WeightsKind,
    placement: Placement = H200,
    *,
    name: str = "weights",
    path: str | None = "/mnt/nvme",
    size_bytes: int | None = TERABYTE,
    adopt: str | None = None,
    storage_class: str | None = None,
    retain: bool = True,
    shared: bool = False,
) -> Recording:
    args: WeightVolumeArgs = {
        "kind": kind,
        "namespace": "serving",
        "path": path,
        "size_bytes": size_bytes,
        "storage_class": storage_class,
        "retain": retain,
        "placement": placement,
        "adopt": adopt,
        "shared": shared,
    }
    return record(lambda: WeightVolume(name, args), stack="h200")


def outputs(recording: Recording) -> dict[str, Any]:
    (registered,) = recording.outputs_of("WeightVolume")
    return registered


def test_a_local_disk_is_a_volume_and_a_claim_with_names_that_the_next_stack_finds() -> None:
    recording = made(WeightsKind.LOCAL)
    disk, claim = recording.only(":PersistentVolume"), recording.only(":PersistentVolumeClaim")
    assert disk.inputs["metadata"]["name"] == "heavylift-serving-h200-weights-h200-0"
    assert claim.inputs["metadata"]["name"] == "h200-weights-h200-0"
    assert claim.inputs["metadata"]["namespace"] == "serving"
    assert claim.inputs["spec"]["volumeName"] == disk.inputs["metadata"]["name"]
    assert disk.inputs["spec"]["claimRef"] == {"namespace": "serving", "name": "h200-weights-h200-0"}
    assert outputs(recording) == {"claims": {"h200-0": "h200-weights-h200-0"}}


def test_a_local_disk_is_tied_to_its_node_and_outlives_its_claim() -> None:
    recording = made(WeightsKind.LOCAL)
    spec = recording.only(":PersistentVolume").inputs["spec"]
    assert spec["local"] == {"path": "/mnt/nvme"}
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["h200-0"]}]


def test_a_local_disk_is_bound_by_name_and_never_by_a_storage_class() -> None:
    recording = made(WeightsKind.LOCAL)
    assert recording.only(":PersistentVolume").inputs["spec"]["storageClassName"] == ""
    assert recording.only(":PersistentVolumeClaim").inputs["spec"]["storageClassName"] == ""


def test_sizes_are_whole_gibibytes_and_fixed_at_creation() -> None:
    recording = made(WeightsKind.LOCAL)
    disk, claim = recording.only(":PersistentVolume"), recording.only(":PersistentVolumeClaim")
    assert disk.inputs["spec"]["capacity"] == {"storage": "932Gi"}, "10^12 bytes are 931.3 GiB"
    assert claim.inputs["spec"]["resources"] == {"requests": {"storage": "932Gi"}}
    assert disk.options["ignoreChanges"] == ["spec.capacity"]
    assert claim.options["ignoreChanges"] == ["spec.resources"]


@pytest.mark.parametrize("kind", [WeightsKind.LOCAL, WeightsKind.CLAIM])
def test_a_claim_that_waits_for_its_first_pod_is_not_awaited(kind: WeightsKind) -> None:
    recording = made(kind)
    annotations = recording.only(":PersistentVolumeClaim").inputs["metadata"]["annotations"]
    assert annotations == {"pulumi.com/skipAwait": "true"}


def test_a_claim_is_kept_when_the_stack_goes_and_taken_over_when_it_comes_back() -> None:
    recording = made(WeightsKind.CLAIM, ANYWHERE, adopt="serving/h200-weights")
    claim = recording.only(":PersistentVolumeClaim")
    assert claim.inputs["metadata"]["name"] == "h200-weights"
    assert claim.options["retainOnDelete"] is True
    assert claim.options["importId"] == "serving/h200-weights"
    assert outputs(recording) == {"claim": "h200-weights", "claims": {}}


def test_a_claim_goes_with_the_stack_only_where_the_stack_says_so() -> None:
    recording = made(WeightsKind.CLAIM, ANYWHERE, retain=False)
    assert not recording.only(":PersistentVolumeClaim").options.get("retainOnDelete")


@pytest.mark.parametrize(("storage_class", "given"), [("gp3", {"storageClassName": "gp3"}), (None, {})])
def test_a_claim_names_a_storage_class_only_where_the_stack_does(
    storage_class: str | None, given: dict[str, str]
) -> None:
    recording = made(WeightsKind.CLAIM, ANYWHERE, storage_class=storage_class)
    spec = recording.only(":PersistentVolumeClaim").inputs["spec"]
    assert {key: value for key, value in spec.items() if key == "storageClassName"} == given


@pytest.mark.parametrize(("shared", "mode"), [(False, "ReadWriteOnce"), (True, "ReadWriteMany")])
def test_a_claim_for_pods_on_several_nodes_is_one_that_all_of_them_can_mount(shared: bool, mode: str) -> None:
    recording = made(WeightsKind.CLAIM, shared=shared)
    assert recording.only(":PersistentVolumeClaim").inputs["spec"]["accessModes"] == [mode]


def test_a_directory_of_the_nodes_makes_no_object() -> None:
    recording = made(WeightsKind.HOST_PATH, TWO_H200S)
    assert len(recording.registrations) == 1
    assert outputs(recording) == {"claims": {}, "host_path": "/mnt/nvme"}


def test_each_node_with_a_local_disk_has_a_claim_of_its_own_and_servers_share_one() -> None:
    recording = made(WeightsKind.LOCAL, TWO_H200S)
    assert outputs(recording) == {
        "claims": {"h200-0": "h200-weights-h200-0", "h200-1": "h200-weights-h200-1"},
        "served_claim": "h200-weights.served",
    }
    assert len(recording.of_type(":PersistentVolume")) == 3


def test_servers_of_several_nodes_mount_the_directory_of_whichever_node_they_are_on() -> None:
    recording = made(WeightsKind.LOCAL, TWO_H200S)
    (disk,) = [each for each in recording.of_type(":PersistentVolume") if "hostPath" in each.inputs["spec"]]
    (claim,) = [each for each in recording.of_type(":PersistentVolumeClaim") if each.name == "weights-claim.served"]
    spec = disk.inputs["spec"]
    assert spec["hostPath"] == {"path": "/mnt/nvme", "type": "Directory"}
    assert "nodeAffinity" not in spec, "a spare node may take the place of one that is gone"
    assert spec["claimRef"] == {"namespace": "serving", "name": "h200-weights.served"}
    assert spec["accessModes"] == claim.inputs["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim.inputs["spec"]["volumeName"] == disk.inputs["metadata"]["name"]


@pytest.mark.parametrize("kind", [WeightsKind.LOCAL, WeightsKind.CLAIM])
def test_two_volumes_of_one_stack_share_no_object(kind: WeightsKind) -> None:
    names = [
        {(each.type, each.inputs["metadata"]["name"]) for each in made(kind, name=name).registrations[1:]}
        for name in ("chat-weights", "code-weights")
    ]
    assert names[0]
    assert names[0].isdisjoint(names[1])


@pytest.mark.parametrize(
    ("kind", "placement", "changes", "said"),
    [
        (WeightsKind.CLAIM, ANYWHERE, {"size_bytes": None}, ["size_bytes: is missing: kind claim needs it"]),
        (
            WeightsKind.LOCAL,
            UNNAMED,
            {"path": None, "size_bytes": None},
            [
                "path: is missing: kind local needs it",
                "size_bytes: is missing: kind local needs it",
                "placement.hostnames: is missing: kind local ties each disk to its node by name",
            ],
        ),
    ],
)
def test_everything_that_a_volume_lacks_is_said_at_once(
    kind: WeightsKind, placement: Placement, changes: dict[str, Any], said: list[str]
) -> None:
    with pytest.raises(pulumi.RunError) as refusal:
        made(kind, placement, **changes)
    assert str(refusal.value).splitlines() == [
        "WeightVolume weights: nothing was created:",
        *(f"  {line}" for line in said),
    ]


def test_a_name_that_no_object_can_have_is_refused() -> None:
    with pytest.raises(pulumi.RunError, match="component name 'Chat_1': 'h200-Chat_1' cannot name"):
        made(WeightsKind.CLAIM, name="Chat_1")
