"""The node that an instance becomes: figures of public READMEs and of AWS' documents."""

import base64
from typing import Any

import pytest

from lab.aws.server.node import Instance, node_manifest
from lab.aws.server.store import REGIONS
from tests.unit.lab.aws.account import Account

RAID0 = base64.b64encode(b"spec:\n  instance:\n    localStorage:\n      strategy: RAID0\n").decode()
CARDS = [{"NetworkCardIndex": 0, "DeviceIndex": 0}] + [
    {"NetworkCardIndex": card, "DeviceIndex": int(card == 0), "InterfaceType": "efa-only"} for card in range(32)
]


@pytest.fixture
def manifest(account: Account) -> dict[str, Any]:
    """The node of a p5.48xlarge with all EFA interfaces and RAID0."""
    template = account.template(InstanceType="p5.48xlarge", NetworkInterfaces=CARDS, UserData=RAID0)
    taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}
    account.create_group(launchTemplate={"id": template}, labels={"group": "g"}, taints=[taint])
    group = REGIONS["123456789012"]["us-east-1"].groups[account.cluster, "gpu"]
    return node_manifest(group, Instance("i-1", "10.0.0.4", "us-east-1a"), "us-east-1")


def test_resources_are_those_that_public_logs_show(manifest: dict[str, Any]) -> None:
    # github.com/awslabs/awsome-distributed-ai: a p5 node shows `pods: 100`, 42,242 Mi of huge pages and, of 8 x 3800
    # GB, 27.36 TB allocatable.
    status = manifest["status"]
    assert status["capacity"]["pods"] == "100"
    assert status["capacity"]["hugepages-2Mi"] == "42242Mi"
    assert status["capacity"]["memory"] == f"{2048 * 1024}Mi"
    assert status["allocatable"]["ephemeral-storage"] == str(27_360 * 10**9)


def test_devices_are_promised_until_a_plugin_finds_them(manifest: dict[str, Any]) -> None:
    annotations = manifest["metadata"]["annotations"]
    assert annotations["heavylift.lab/devices-of-nvidia.com_gpu"] == "8"
    assert annotations["heavylift.lab/devices-of-vpc.amazonaws.com_efa"] == "32"
    assert "nvidia.com/gpu" not in manifest["status"]["allocatable"]


def test_labels_and_taints_are_kubernetes_own(manifest: dict[str, Any]) -> None:
    assert manifest["metadata"]["name"] == "ip-10-0-0-4.ec2.internal"
    labels = manifest["metadata"]["labels"]
    assert labels["node.kubernetes.io/instance-type"] == "p5.48xlarge"
    assert labels["topology.kubernetes.io/zone"] == "us-east-1a"
    assert labels["group"] == "g"
    assert manifest["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
