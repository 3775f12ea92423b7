"""The components of AWS, each alone, under Pulumi's mock engine."""

import base64
import json
from collections.abc import Callable
from email import message_from_string
from typing import Any

import pulumi
import pytest
import yaml

from components.aws.device_plugins import DevicePlugins
from components.aws.eks_cluster import EksCluster
from components.aws.eks_gpu_nodes import EksGpuNodes, EksGpuNodesArgs
from components.aws.eks_network import EksNetwork
from components.aws.weight_mirror import WeightMirror
from config.catalogue import CapacityKind, find_instance
from tests.recording_engine import Recording, record

BLOCK = "cr-0123456789abcdef0"
PLACE: EksGpuNodesArgs = {
    "cluster_name": "mine",
    "vpc_id": "vpc-1",
    "subnet_id": "subnet-1",
    "security_group_id": "sg-cluster",
    "instance_type": "p5en.48xlarge",
    "count": 2,
}


def nodes(**changes: Any) -> Recording:
    def program() -> None:
        group = EksGpuNodes("gpu", {**PLACE, **changes})  # type: ignore[typeddict-item]
        pulumi.export("placement", group.placement)

    return record(program)


def block(**changes: Any) -> Recording:
    return nodes(capacity={"kind": CapacityKind.CAPACITY_BLOCK, "id": BLOCK}, **changes)


def inputs(recording: Recording, kind: str) -> Any:
    return recording.only(kind).inputs


def test_nodes_of_a_block_come_from_it_and_from_nowhere_else() -> None:
    recording = block(efa=True)
    template, group = inputs(recording, ":LaunchTemplate"), inputs(recording, ":NodeGroup")
    assert template["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert template["capacityReservationSpecification"] == {
        "capacityReservationPreference": "capacity-reservations-only",
        "capacityReservationTarget": {"capacityReservationId": BLOCK},
    }
    assert group["capacityType"] == "CAPACITY_BLOCK"
    assert "instanceTypes" not in group
    assert recording.of_type(":PlacementGroup") == []
    assert "placement" not in template


def test_a_reservation_is_no_market_and_may_bring_a_placement_group() -> None:
    recording = nodes(
        capacity={"kind": CapacityKind.RESERVATION, "id": BLOCK}, efa=True, placement_group="of-reservation"
    )
    template = inputs(recording, ":LaunchTemplate")
    assert "instanceMarketOptions" not in template
    assert template["placement"] == {"groupName": "of-reservation"}
    assert inputs(recording, ":NodeGroup")["capacityType"] == "ON_DEMAND"


def test_nodes_on_demand_with_efa_are_placed_together() -> None:
    recording = nodes(efa=True)
    assert inputs(recording, ":PlacementGroup")["strategy"] == "cluster"
    assert "capacityReservationSpecification" not in inputs(recording, ":LaunchTemplate")
    assert nodes().of_type(":PlacementGroup") == []


@pytest.mark.parametrize("name", ["p5.48xlarge", "p5en.48xlarge", "p6-b300.48xlarge", "g6e.48xlarge"])
def test_the_template_has_the_interfaces_of_the_type(name: str) -> None:
    recording = nodes(instance_type=name, efa=True)
    found = inputs(recording, ":LaunchTemplate")["networkInterfaces"]
    expected = find_instance(name).network_interfaces(efa=True)
    assert [(each["networkCardIndex"], each["deviceIndex"], each["interfaceType"]) for each in found] == [
        (each.card, each.device, each.type) for each in expected
    ]
    assert found[0]["securityGroups"] == ["sg-cluster"]
    assert {group for each in found[1:] for group in each["securityGroups"]} == {"gpu-efa-id"}
    assert not [each for each in found if "associatePublicIpAddress" in each]


def test_efa_traffic_is_allowed_in_and_out_within_the_group_alone() -> None:
    recording = block(efa=True)
    for kind in (":SecurityGroupIngressRule", ":SecurityGroupEgressRule"):
        rule = inputs(recording, kind)
        assert rule["securityGroupId"] == rule["referencedSecurityGroupId"] == "gpu-efa-id"
        assert rule["ipProtocol"] == "-1"


def test_without_efa_there_is_one_interface_and_no_group_for_it() -> None:
    recording = block()
    assert len(inputs(recording, ":LaunchTemplate")["networkInterfaces"]) == 1
    assert recording.of_type(":SecurityGroup") == []


def test_user_data_makes_one_array_and_lets_memory_be_locked() -> None:
    text = base64.b64decode(inputs(block(), ":LaunchTemplate")["userData"]).decode()
    (part,) = [each for each in message_from_string(text).walk() if not each.is_multipart()]
    assert part.get_content_type() == "application/node.eks.aws"
    spec = yaml.safe_load(str(part.get_payload()))["spec"]
    assert spec["instance"]["localStorage"]["strategy"] == "RAID0"
    limits = spec["containerd"]["baseRuntimeSpec"]["process"]["rlimits"]
    assert {limit["type"] for limit in limits} == {"RLIMIT_NOFILE", "RLIMIT_MEMLOCK"}
    # nodeadm reads them as floats: a larger number would come back as another one.
    assert all(int(float(limit["hard"])) == limit["hard"] <= 2**53 for limit in limits)


def test_eks_scales_the_group_and_aliases_do_not_change_it() -> None:
    recording = block()
    group = recording.only(":NodeGroup")
    assert group.options["ignoreChanges"] == ["scalingConfig.desiredSize"]
    assert group.inputs["scalingConfig"] == {"minSize": 0, "maxSize": 2, "desiredSize": 2}
    assert group.inputs["launchTemplate"] == {"id": f"gpu-{BLOCK}-id", "version": "1"}
    assert "releaseVersion" not in group.inputs
    assert group.inputs["updateConfig"]["updateStrategy"] == "MINIMAL"


def test_the_next_reservation_is_another_group_with_another_label() -> None:
    first, second = block(), nodes(capacity={"kind": CapacityKind.CAPACITY_BLOCK, "id": "cr-0123456789abcdef1"})
    assert first.only(":NodeGroup").name != second.only(":NodeGroup").name
    assert inputs(first, ":NodeGroup")["labels"] != inputs(second, ":NodeGroup")["labels"]


def test_the_placement_is_by_count_and_label() -> None:
    (outputs,) = block(efa=True).outputs_of("Stack")
    placement = outputs["placement"]
    assert "hostnames" not in placement
    assert placement["nodes"] == 2
    assert placement["node_selector"] == inputs(block(), ":NodeGroup")["labels"]
    assert placement["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    assert placement["fabric"] == {"kind": "efa", "resource": "vpc.amazonaws.com/efa", "count": 16}
    assert placement["nvme_path"] == "/mnt/k8s-disks/0/heavylift"


def network() -> Recording:
    zones = ["use2-az3", "use2-az1"]
    return record(lambda: EksNetwork("net", {"region": "us-east-2", "zones": zones, "cidr": "10.0.0.0/16"}))


def test_subnets_do_not_overlap_and_a_zone_keeps_its_range() -> None:
    found = {subnet.name: subnet.inputs["cidrBlock"] for subnet in network().of_type(":Subnet")}
    assert found == {
        "net-public": "10.0.0.0/20",
        "net-private-use2-az1": "10.0.16.0/20",
        "net-private-use2-az3": "10.0.48.0/20",
    }


def test_s3_is_reached_without_nat() -> None:
    endpoint = inputs(network(), ":VpcEndpoint")
    assert (endpoint["serviceName"], endpoint["vpcEndpointType"]) == ("com.amazonaws.us-east-2.s3", "Gateway")
    assert endpoint["routeTableIds"] == ["net-private-id"]


def cluster(**changes: Any) -> Recording:
    def program() -> None:
        arguments: Any = {"region": "us-east-2", "version": "1.35", "subnet_ids": ["subnet-1", "subnet-2"], **changes}
        pulumi.export("kubeconfig", EksCluster("eks", arguments).kubeconfig)

    return record(program)


def test_the_api_server_is_private_unless_ranges_are_named() -> None:
    closed = inputs(cluster(), ":Cluster")["vpcConfig"]
    assert (closed["endpointPrivateAccess"], closed["endpointPublicAccess"]) == (True, False)
    opened = inputs(cluster(public_access_cidrs=["198.18.7.0/24"]), ":Cluster")["vpcConfig"]
    assert opened["publicAccessCidrs"] == ["198.18.7.0/24"]


def test_nodes_wait_for_the_add_ons_that_they_need_and_others_wait_for_nodes() -> None:
    recording = cluster()
    waits = {each.name: {urn.rsplit("::", 1)[1] for urn in each.depends_on} for each in recording.registrations}
    assert {"eks-vpc-cni", "eks-kube-proxy", "eks-eks-pod-identity-agent"} <= waits["eks-system"] | {
        urn.rsplit("::", 1)[1] for urn in recording.only(":NodeGroup").depends_on
    }
    assert "eks-system" in waits["eks-coredns"]
    assert "eks-system" not in waits["eks-vpc-cni"]
    cni = next(each for each in recording.of_type(":Addon") if each.name == "eks-vpc-cni")
    assert json.loads(cni.inputs["configurationValues"]) == {"enableNetworkPolicy": "true"}


def test_admins_get_an_access_entry() -> None:
    admin = "arn:aws:iam::123456789012:role/admin"
    recording = cluster(admins=[admin])
    assert inputs(recording, ":AccessEntry")["principalArn"] == admin
    assert inputs(recording, ":AccessPolicyAssociation")["accessScope"] == {"type": "cluster"}


def test_the_kubeconfig_names_no_path_of_a_machine_and_holds_no_token() -> None:
    (outputs,) = cluster().outputs_of("Stack")
    document = json.loads(outputs["kubeconfig"])
    (user,) = document["users"]
    plugin = user["user"]["exec"]
    assert user["user"].keys() == {"exec"}
    assert not [part for part in (plugin["command"], *plugin["args"]) if part.startswith("/")]
    assert plugin["args"][-2:] == ["us-east-2", "eks"]


def mirror(**changes: Any) -> Recording:
    arguments: Any = {"cluster_name": "mine", "namespace": "heavylift", "service_account": "stager", **changes}
    program: Callable[[], object] = lambda: WeightMirror("mirror", arguments)  # noqa: E731
    return record(program)


def test_the_stager_may_read_its_prefix_and_nothing_else() -> None:
    recording = mirror(bucket="weights", prefixes=["kimi"])
    policy = json.loads(inputs(recording, ":RolePolicy")["policy"])
    get, listed = policy["Statement"]
    assert (get["Action"], get["Resource"]) == ("s3:GetObject", ["arn:aws:s3:::weights/kimi/*"])
    assert (listed["Action"], listed["Resource"]) == ("s3:ListBucket", "arn:aws:s3:::weights")
    assert listed["Condition"] == {"StringLike": {"s3:prefix": ["kimi", "kimi/*"]}}
    trust = json.loads(inputs(recording, ":Role")["assumeRolePolicy"])["Statement"][0]
    assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
    assert trust["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert recording.of_type(":Bucket") == []


def test_a_new_bucket_is_private_and_outlives_the_stack() -> None:
    recording = mirror()
    assert recording.only(":Bucket").options["retainOnDelete"]
    block_all = inputs(recording, ":BucketPublicAccessBlock")
    assert [value for key, value in block_all.items() if key != "bucket"] == [True] * 4
    assert inputs(recording, ":BucketVersioning")["versioningConfiguration"] == {"status": "Enabled"}


def test_device_plugins_go_by_label_and_tolerate_the_taint() -> None:
    def program() -> None:
        DevicePlugins(
            "plugins",
            {"region": "eu-north-1", "node_selector": {"group": "mine"}, "taint": "nvidia.com/gpu", "efa": True},
        )

    pods = [each.inputs["spec"]["template"]["spec"] for each in record(program).of_type(":DaemonSet")]
    assert len(pods) == 2
    for pod in pods:
        assert pod["nodeSelector"] == {"group": "mine"}
        assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists"}]
        assert "affinity" not in pod
    assert any("eu-north-1" in pod["containers"][0]["image"] for pod in pods)
