"""The fabric check for EFA: devices, NCCL's plugin and huge pages, on recorded trees."""

from pathlib import Path

import pytest

from components.in_pod import fabric_check

PLUGIN = "opt/amazon/ofi-nccl/lib/libnccl-net.so"
LIMITS = "proc/self/limits"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A pod with two EFA devices, as a node of EKS names them, and AWS' libraries."""
    files = {
        **{f"sys/class/infiniband/rdmap{bus}s0/ports/1/state": "4: ACTIVE" for bus in (79, 80)},
        **{f"sys/class/infiniband/rdmap{bus}s0/ports/1/link_layer": "Unspecified" for bus in (79, 80)},
        **{f"sys/class/infiniband_verbs/uverbs{n}/ibdev": f"rdmap{79 + n}s0" for n in (0, 1)},
        **{f"dev/infiniband/uverbs{n}": "" for n in (0, 1)},
        "sys/class/net/eth0/type": "1",
        PLUGIN: "",
        "proc/meminfo": "MemTotal: 1 kB\nHugePages_Total:   21121",
        LIMITS: "Max locked memory         4398046511104        4398046511104        bytes",
        "proc/self/status": "CapEff:\t0000000000000000",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


def check(root: Path, count: int = 2, **environment: str) -> list[str]:
    return fabric_check.problems(
        root, kind="efa", resource="vpc.amazonaws.com/efa", count=count, environment=environment
    )


def test_a_pod_with_all_of_it_passes(root: Path) -> None:
    assert check(root) == []


def test_an_image_without_the_plugin_would_use_tcp(root: Path) -> None:
    (root / PLUGIN).unlink()
    [fault] = check(root)
    assert "libnccl-net.so" in fault
    assert "heavylift:engine.image" in fault


@pytest.mark.parametrize("how", ["LD_LIBRARY_PATH", "ld.so.conf.d"])
def test_the_plugin_is_looked_for_where_the_loader_does(root: Path, how: str) -> None:
    (root / PLUGIN).unlink()
    (root / "opt/nccl").mkdir()
    (root / "opt/nccl/libnccl-net-ofi.so").touch()
    if how == "LD_LIBRARY_PATH":
        assert check(root, LD_LIBRARY_PATH="/nowhere:/opt/nccl") == []
    else:
        (root / "etc/ld.so.conf.d").mkdir(parents=True)
        (root / "etc/ld.so.conf.d/nccl.conf").write_text("# comment\n/opt/nccl\n")
        assert check(root) == []


def test_a_plugin_that_counts_other_devices_is_found_out(root: Path) -> None:
    """Before 0.5.10, the device plugin handed out 10 devices of a p6-b200, which has 8."""
    [fault] = check(root, count=1)
    assert fault.startswith("the container was given 2 EFA devices, and asked for 1 of vpc.amazonaws.com/efa")


def test_no_device_huge_page_or_lockable_memory_is_named_each(root: Path) -> None:
    for number in (0, 1):
        (root / f"dev/infiniband/uverbs{number}").unlink()
    (root / "proc/meminfo").write_text("HugePages_Total:       0\n")
    (root / LIMITS).write_text("Max locked memory         65536                65536                bytes\n")
    found = check(root)
    assert [fault.split(" ")[:4] for fault in found] == [
        ["the", "container", "was", "given"],
        ["the", "node", "has", "no"],
        ["locked", "memory", "is", "limited"],
    ]
