"""EC2 instance types: the catalogue against recorded answers of EC2, and the interfaces of their launch templates."""

from collections import Counter

import pytest

from config.catalogue import CapacityKind, Instance, find_instance, instances
from config.catalogue.reading import read
from tests.recorded_ec2 import instance_types, shape

ALL = pytest.mark.parametrize("instance", instances(), ids=lambda instance: instance.type)


@ALL
def test_the_catalogue_has_what_ec2_answered(instance: Instance) -> None:
    recorded = instance_types()[instance.type]
    disks = recorded.get("InstanceStorageInfo", {}).get("Disks", [])
    assert instance.vcpus == recorded["VCpuInfo"]["DefaultVCpus"]
    assert instance.memory_bytes == recorded["MemoryInfo"]["SizeInMiB"] * 2**20
    assert instance.gpus == sum(gpu["Count"] for gpu in recorded["GpuInfo"]["Gpus"])
    assert instance.nvme_bytes == sum(disk["Count"] * disk["SizeInGB"] for disk in disks) * 10**9
    assert set(instance.usage_classes) == set(recorded["SupportedUsageClasses"])
    entry = next(entry for entry in read("aws_instances.json")["instances"] if entry["type"] == instance.type)
    assert {key: entry[key] for key in shape(instance.type)} == shape(instance.type)


@ALL
def test_the_interfaces_are_what_ec2_takes(instance: Instance) -> None:
    """Limits: as many EFA interfaces as EC2 allows, none beyond what a card takes, no index twice."""
    recorded = instance_types()[instance.type]["NetworkInfo"]
    cards = {card["NetworkCardIndex"]: card for card in recorded["NetworkCards"]}
    layout = instance.network_interfaces(efa=True)
    kinds = Counter(interface.type for interface in layout)
    assert kinds == {"interface": 1} | (
        {"efa-only": recorded["EfaInfo"]["MaximumEfaInterfaces"]} if recorded["EfaSupported"] else {}
    )
    assert len({(interface.card, interface.device) for interface in layout}) == len(layout)
    for interface in layout:
        assert interface.type in cards[interface.card]["InterfaceTypes"]
        assert interface.device < cards[interface.card]["MaximumNetworkInterfaces"]


@pytest.mark.parametrize(
    ("name", "interfaces", "on_card_0"),
    [("p5.48xlarge", 33, 2), ("p5en.48xlarge", 17, 2), ("p6-b200.48xlarge", 9, 2), ("p6-b300.48xlarge", 17, 1)],
)
def test_the_layouts_that_aws_documents(name: str, interfaces: int, on_card_0: int) -> None:
    """p6-b300: github.com/aws/aws-parallelcluster/issues/7143; others: the EC2 User Guide, EFA on accelerated types."""
    layout = find_instance(name).network_interfaces(efa=True)
    assert len(layout) == interfaces
    assert [(each.card, each.device, each.type) for each in layout[:2]] == [
        (0, 0, "interface"),
        (0, 1, "efa-only") if on_card_0 == 2 else (1, 0, "efa-only"),
    ]
    assert all(each.device == 0 for each in layout if each.card > 0)


def test_one_node_has_one_interface() -> None:
    assert [each.type for each in find_instance("p5.48xlarge").network_interfaces(efa=False)] == ["interface"]


@pytest.mark.parametrize(
    ("name", "pods"), [("p5.48xlarge", 100), ("p5en.48xlarge", 198), ("p4d.24xlarge", 737), ("p5.4xlarge", 118)]
)
def test_addresses_agree_with_the_published_number_of_pods(name: str, pods: int) -> None:
    """Pods = interfaces x (addresses - 1) + 2 (github.com/awslabs/amazon-eks-ami, nodeadm instance-info.jsonl)."""
    instance = find_instance(name)
    assert instance.addresses - instance.cards[0].interfaces + 2 == pods


def test_only_types_with_capacity_blocks_have_a_price_of_them() -> None:
    for instance in instances():
        assert instance.capacity_block is None or "capacity-block" in instance.usage_classes
    p5en = find_instance("p5en.48xlarge")
    prices = [p5en.price(kind) for kind in CapacityKind]
    assert [price.usd_per_hour for price in prices if price] == [63.296, 63.296, 41.61]
