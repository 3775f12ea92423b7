"""The fabric check: one good container passes, and each fault is told by a message of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from components.in_pod import fabric_check

DATA = Path(__file__).parents[2] / "data/fabric"
CONTAINER = DATA / "container.json"
RECORDED = json.loads((DATA / "recorded.json").read_text())
CARDS = ("hfi1_0", "mlx4_0", "mlx5_0")
ENVIRONMENT = {"NCCL_IB_DISABLE": "0", "NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
FIRST_PORT = "sys/class/infiniband/mlx5_0/ports/1"
NO_CAPABILITY = "CapEff:\t0000000000000000\n"
IPC_LOCK_IN_FORCE = "CapEff:\t0000000000004000\n"
DEFAULT_LIMIT = RECORDED["limits"]["a distribution's default"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The container's trees, without a fault."""
    write(tmp_path, json.loads(CONTAINER.read_text())["files"])
    return tmp_path


@pytest.fixture
def recorded(root: Path) -> Path:
    """The same with the cards of three real machines, all of which it was given."""
    shutil.rmtree(root / "sys/class/infiniband")
    shutil.rmtree(root / "sys/class/infiniband_verbs")
    write(root, RECORDED["files"])
    for number, card in enumerate(CARDS):
        verbs = f"uverbs{number}"
        write(root, {f"sys/class/infiniband_verbs/{verbs}/ibdev": f"{card}\n", f"dev/infiniband/{verbs}": ""})
    return root


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def check(root: Path, *devices: str, **environment: str) -> list[str]:
    return fabric_check.problems(root, devices=devices, resource="rdma/ib", environment=ENVIRONMENT | environment)


def test_a_container_that_was_given_working_cards_passes(root: Path) -> None:
    assert check(root) == []
    assert check(root, "mlx5_0", "mlx5_1") == []


def test_cards_of_real_machines_pass(recorded: Path) -> None:
    assert check(recorded) == []
    assert check(recorded, *CARDS) == []


@pytest.mark.parametrize(
    ("state", "phys_state"),
    [("1: DOWN\n", "3: Disabled\n"), ("2: INIT\n", "5: LinkUp\n"), ("3: ARMED\n", "5: LinkUp\n")],
)
def test_one_working_port_of_a_card_is_enough_and_none_is_told_with_the_state_of_each(
    recorded: Path, state: str, phys_state: str
) -> None:
    """States and their numbers: the kernel's drivers/infiniband/core/sysfs.c."""
    for port in ("1", "2"):
        assert check(recorded) == []
        directory = f"sys/class/infiniband/mlx4_0/ports/{port}"
        write(recorded, {f"{directory}/state": state, f"{directory}/phys_state": phys_state})
    [fault] = check(recorded)
    said = f"{state.strip()}, {phys_state.strip()}"
    assert fault.startswith(f"mlx4_0: port 1 is {said}; port 2 is {said}: check cable and switch")


def test_a_card_without_link_layer_or_ports_is_refused_and_breaks_nothing(recorded: Path) -> None:
    """As old drivers have them, and other kinds of devices."""
    (recorded / "sys/class/infiniband/hfi1_0/ports/1/link_layer").unlink()
    shutil.rmtree(recorded / "sys/class/infiniband/mlx5_0/ports")
    faults = check(recorded)
    assert len(faults) == 2
    for fault, card in zip(faults, ("hfi1_0", "mlx5_0"), strict=True):
        assert fault.startswith(f"{card}: its link layer is unknown, not InfiniBand")


def test_a_card_whose_driver_answers_with_an_error_is_refused_and_breaks_nothing(recorded: Path) -> None:
    state = recorded / "sys/class/infiniband/hfi1_0/ports/1/state"
    state.unlink()
    state.mkdir()  # reading it fails, as it does where the kernel cannot query the port
    [fault] = check(recorded)
    assert fault.startswith("hfi1_0: port 1 is unknown, 5: LinkUp: check cable and switch")


def test_a_node_without_cards_is_refused(root: Path) -> None:
    (root / "sys/class/infiniband").rename(root / "sys/class/no_infiniband")
    [fault] = check(root)
    assert "the node has no InfiniBand device" in fault
    assert "mlx5_ib" in fault


def test_a_container_that_the_device_plugin_gave_nothing_is_refused(root: Path) -> None:
    """The silent case: the links are up and the cards are named right, and NCCL uses sockets all the same."""
    (root / "dev/infiniband").rename(root / "dev/elsewhere")
    [fault] = check(root)
    assert "was given none of the node's 3 InfiniBand devices" in fault
    assert "rdma/ib" in fault


@pytest.mark.parametrize(
    ("state", "phys_state", "message"),
    [
        ("1: DOWN\n", "2: Polling\n", "mlx5_0: port 1 is 1: DOWN, 2: Polling: check cable and switch"),
        ("2: INIT\n", "5: LinkUp\n", "that a subnet manager runs"),
    ],
)
def test_a_link_that_is_down_or_without_a_subnet_manager_is_refused(
    root: Path, state: str, phys_state: str, message: str
) -> None:
    (root / FIRST_PORT / "state").write_text(state)
    (root / FIRST_PORT / "phys_state").write_text(phys_state)
    [fault] = check(root)
    assert message in fault


def test_a_card_that_is_down_does_not_matter_where_others_are_named(root: Path) -> None:
    (root / FIRST_PORT / "state").write_text("1: DOWN\n")
    assert check(root, "mlx5_1") == []


def test_an_ethernet_card_is_no_infiniband(root: Path) -> None:
    (root / FIRST_PORT / "link_layer").write_text("Ethernet\n")
    [fault] = check(root)
    assert "mlx5_0: its link layer is Ethernet, not InfiniBand" in fault
    assert "nodes.fabric.devices" in fault


def test_a_named_card_that_the_node_lacks_is_refused_with_those_it_has(root: Path) -> None:
    [fault] = check(root, "mlx5_1", "mlx5_7")
    assert fault.startswith("mlx5_7: no such device, the node has mlx5_0, mlx5_1, mlx5_2")


def test_a_named_card_that_the_container_was_not_given_is_refused(root: Path) -> None:
    [fault] = check(root, "mlx5_1", "mlx5_2")
    assert fault.startswith("mlx5_2: the container was not given this device")


def test_a_device_file_that_may_not_be_opened_is_refused(root: Path) -> None:
    (root / "dev/infiniband/uverbs1").unlink()
    (root / "dev/infiniband/uverbs1").mkdir()  # cannot be opened for writing, by root neither
    [fault] = check(root)
    assert fault.startswith("mlx5_1: /dev/infiniband/uverbs1 cannot be opened")


def limited(root: Path, capabilities: str) -> list[str]:
    (root / "proc/self/limits").write_text(DEFAULT_LIMIT)
    (root / "proc/self/status").write_text(capabilities)
    return check(root)


def test_too_little_locked_memory_is_refused_with_where_it_is_set(root: Path) -> None:
    [fault] = limited(root, NO_CAPABILITY)
    assert "locked memory is limited to 65536 bytes" in fault
    assert "LimitMEMLOCK=infinity" in fault


def test_a_limit_that_is_as_good_as_none_passes(root: Path) -> None:
    (root / "proc/self/limits").write_text(RECORDED["limits"]["practically none"])
    (root / "proc/self/status").write_text(NO_CAPABILITY)
    assert check(root) == []


def test_the_capability_counts_only_where_it_is_in_force(root: Path) -> None:
    """A container may be granted IPC_LOCK and not have it: it takes effect for root alone."""
    granted = "CapPrm:\t0000000000004000\n" + NO_CAPABILITY
    assert len(limited(root, granted)) == 1
    assert limited(root, IPC_LOCK_IN_FORCE) == []


def test_an_environment_that_turns_infiniband_off_is_refused(root: Path) -> None:
    [fault] = check(root, NCCL_IB_DISABLE="1")
    assert fault.startswith("NCCL_IB_DISABLE is 1")


def test_an_interface_that_the_pod_lacks_is_refused_with_those_it_has(root: Path) -> None:
    faults = check(root, NCCL_SOCKET_IFNAME="bond0", GLOO_SOCKET_IFNAME="bond0")
    assert len(faults) == 2
    assert "NCCL_SOCKET_IFNAME is bond0, and the interfaces are eth0, lo" in faults[0]


def run(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The program as the container runs it: alone, without anything of this project on its path."""
    command = [sys.executable, "-I", fabric_check.__file__, "--root", str(root), "--resource", "rdma/ib", *options]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)


def test_run_alone_it_says_in_one_line_that_all_is_well(root: Path) -> None:
    answer = run(root)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "InfiniBand is there: NCCL will use it\n", "")


def test_run_alone_it_prints_all_problems_at_once_and_fails(root: Path) -> None:
    (root / FIRST_PORT / "state").write_text("1: DOWN\n")
    (root / "proc/self/limits").write_text(DEFAULT_LIMIT)
    (root / "proc/self/status").write_text(NO_CAPABILITY)
    answer = run(root)
    assert answer.returncode == 1
    heading, *faults = answer.stderr.splitlines()
    assert heading.startswith("NCCL would not use InfiniBand here")
    assert len(faults) == 2
    assert "Traceback" not in answer.stderr


def test_its_messages_name_the_collective_library_that_it_was_told(root: Path) -> None:
    assert run(root, "--library", "RCCL").stdout == "InfiniBand is there: RCCL will use it\n"
