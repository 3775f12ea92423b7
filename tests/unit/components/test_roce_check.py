"""The fabric check for RoCE: a card needs a RoCE v2 address on an interface of the pod."""

from pathlib import Path

import pytest

from components.in_pod import fabric_check
from components.pods import fabric
from config.stack.sections import Fabric, FabricKind

ROCE = Fabric(kind=FabricKind.ROCE, resource="rdma/roce", count=8)
PORT = "sys/class/infiniband/mlx5_0/ports/1"
ZEROS = "0000:0000:0000:0000:0000:0000:0000:0000"
ADDRESSES = (
    (4, "fe80:0000:0000:0000:a4ed:ccff:fe8b:1994", "IB/RoCE v1"),
    (5, "fe80:0000:0000:0000:a4ed:ccff:fe8b:1994", "RoCE v2"),
    (6, "0000:0000:0000:0000:0000:ffff:0a98:000c", "IB/RoCE v1"),
    (7, "0000:0000:0000:0000:0000:ffff:0a98:000c", "RoCE v2"),
)
"""Of a pod with a macvlan interface `net1` over the card; 0 to 3 belong to another pod
(github.com/NVIDIA/nccl/issues/1573)."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A pod with one card of Ethernet, and the interfaces `eth0`, `lo` and `net1`."""
    files = {
        f"{PORT}/state": "4: ACTIVE",
        f"{PORT}/phys_state": "5: LinkUp",
        f"{PORT}/link_layer": "Ethernet",
        "sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0",
        "dev/infiniband/uverbs0": "",
        **{f"sys/class/net/{name}/type": "1" for name in ("eth0", "lo", "net1")},
        **{f"{PORT}/gids/{index}": ZEROS for index in range(4)},
        **{f"{PORT}/gids/{index}": address for index, address, _ in ADDRESSES},
        **{f"{PORT}/gid_attrs/types/{index}": version for index, _, version in ADDRESSES},
        **{f"{PORT}/gid_attrs/ndevs/{index}": "net1" for index, _, _ in ADDRESSES},
        "proc/self/limits": "Max locked memory         unlimited            unlimited            bytes",
        "proc/self/status": "CapEff:\t0000000000000000",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


def check(root: Path, kind: str = "roce") -> list[str]:
    return fabric_check.problems(root, kind=kind, resource="rdma/roce", environment={})


def test_a_pod_with_an_address_of_its_own_on_the_card_passes(root: Path) -> None:
    assert check(root) == []


def test_a_pod_without_an_interface_on_the_cards_network_is_refused(root: Path) -> None:
    (root / "sys/class/net/net1").rename(root / "sys/class/net1_elsewhere")
    [fault] = check(root)
    assert fault.startswith("mlx5_0: no RoCE v2 address on an interface of this pod (eth0, lo)")
    assert "heavylift:nodes.fabric.attachments" in fault


def test_addresses_of_other_pods_do_not_count(root: Path) -> None:
    for index, _, _ in ADDRESSES:
        (root / f"{PORT}/gids/{index}").write_text(f"{ZEROS}\n")
    assert len(check(root)) == 1


def test_version_1_alone_is_refused(root: Path) -> None:
    """NCCL asks for RoCE v2 (NCCL_IB_ROCE_VERSION_NUM, default 2)."""
    for index, _, version in ADDRESSES:
        if version == "RoCE v2":
            (root / f"{PORT}/gid_attrs/types/{index}").unlink()
    assert len(check(root)) == 1


def test_a_link_that_is_down_needs_no_subnet_manager(root: Path) -> None:
    (root / f"{PORT}/state").write_text("1: DOWN\n")
    [fault] = check(root)
    assert fault.endswith("port 1 is 1: DOWN, 5: LinkUp: check cable and switch; or leave it out of the devices")


def test_cards_of_the_other_kind_are_refused(root: Path) -> None:
    [fault] = check(root, "infiniband")
    assert fault.startswith("mlx5_0: its link layer is Ethernet, not InfiniBand")
    (root / f"{PORT}/link_layer").write_text("InfiniBand\n")
    [fault] = check(root)
    assert fault.startswith("mlx5_0: its link layer is InfiniBand, not Ethernet")


def test_nccl_uses_roce_as_it_uses_infiniband_and_the_check_is_told(root: Path) -> None:
    environment = fabric.environment(ROCE)
    assert (environment["NCCL_NET"], environment["NCCL_IB_DISABLE"]) == ("IB", "0")
    assert "NCCL_IB_GID_INDEX" not in environment
    command = fabric.check_command(ROCE, "/heavylift")
    assert command == ["python3", "/heavylift/fabric_check.py", "--resource", "rdma/roce", "--kind=roce"]
