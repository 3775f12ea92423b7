"""What the pods of a group get for their fabric."""

import pytest

from components.pods import fabric
from config.catalogue import CollectiveLibrary
from config.stack.sections import Fabric, FabricKind, GpuDirect, PodNetwork

INFINIBAND = Fabric(kind=FabricKind.INFINIBAND, resource="rdma/ib", count=8)
EFA = Fabric(kind=FabricKind.EFA, resource="vpc.amazonaws.com/efa", count=16)


def changed(**changes: object) -> Fabric:
    return INFINIBAND.model_copy(update=changes)


def test_with_infiniband_nccl_fails_instead_of_falling_back_on_sockets() -> None:
    assert fabric.environment(INFINIBAND) == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "NCCL_IB_DISABLE": "0",
        "NCCL_NET": "IB",
        "NCCL_SOCKET_IFNAME": "eth0",
    }


def test_devices_are_named_exactly_so_that_mlx5_1_does_not_stand_for_mlx5_10() -> None:
    assert fabric.environment(changed(devices=["mlx5_1", "mlx5_4"]))["NCCL_IB_HCA"] == "=mlx5_1,mlx5_4"


def test_the_distance_for_direct_transfers_is_the_stacks() -> None:
    assert fabric.environment(changed(gpu_direct=GpuDirect.SWITCHES))["NCCL_NET_GDR_LEVEL"] == "PXB"


@pytest.mark.parametrize("between", [None, INFINIBAND, EFA])
def test_no_rank_may_bind_to_loopback(between: Fabric | None) -> None:
    environment = fabric.environment(between)
    assert (environment["NCCL_SOCKET_IFNAME"], environment["GLOO_SOCKET_IFNAME"]) == ("eth0", "eth0")


def test_efa_goes_through_libfabric_and_knows_nothing_of_infiniband() -> None:
    environment = fabric.environment(EFA)
    assert environment["FI_PROVIDER"] == "efa"
    assert not [name for name in environment if name.startswith("NCCL_IB") or name == "NCCL_NET"]
    assert fabric.resources(EFA) == {"vpc.amazonaws.com/efa": "16", "hugepages-2Mi": "5120Mi"}
    command = fabric.check_command(EFA, "/heavylift")
    assert command is not None
    assert {"--kind=efa", "--count=16", "vpc.amazonaws.com/efa"} <= set(command)


def test_the_ranks_meet_on_the_nodes_network_where_the_stack_says_so() -> None:
    on_host = changed(network=PodNetwork.HOST, interface="bond0")
    assert fabric.pod_network(on_host) == {"host_network": True, "dns_policy": "ClusterFirstWithHostNet"}
    assert fabric.environment(on_host)["GLOO_SOCKET_IFNAME"] == "bond0"
    assert fabric.pod_network(INFINIBAND) == {}


def test_secondary_networks_are_asked_for_by_annotation() -> None:
    attached = changed(attachments=["ib-0", "fabric/ib-1"])
    assert fabric.annotations(attached) == {"k8s.v1.cni.cncf.io/networks": "ib-0,fabric/ib-1"}
    assert fabric.annotations(INFINIBAND) == {}


def test_the_check_looks_at_the_devices_that_the_stack_names() -> None:
    command = fabric.check_command(changed(devices=["mlx5_0", "mlx5_1"]), "/heavylift")
    assert command == [
        *("python3", "/heavylift/fabric_check.py", "--resource", "rdma/ib"),
        *("--device=mlx5_0", "--device=mlx5_1"),
    ]


def test_the_check_names_the_collective_library_of_the_gpus() -> None:
    command = fabric.check_command(INFINIBAND, "/heavylift", CollectiveLibrary.RCCL)
    assert command is not None
    assert command[-1] == "--library=RCCL"
    assert fabric.check_command(INFINIBAND, "/heavylift", CollectiveLibrary.NCCL) == command[:-1]
