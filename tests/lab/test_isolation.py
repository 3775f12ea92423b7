"""A lab leaves nothing on the host, runs next to another lab, and reports what it cannot do."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from lab.lifecycle import Lab
from lab.site import CHECKOUT, Site, directory_of, load
from tests.lab.sharing import LABS_OF_THEIR_OWN

pytestmark = LABS_OF_THEIR_OWN


def outline() -> dict[str, object]:
    """Returns what a lab could leave on the host: mounts, links, routes and rules."""

    def said(*command: str) -> list[str]:
        return sorted(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())

    return {
        "mounts": sorted(Path("/proc/self/mountinfo").read_text().splitlines()),
        "links": sorted(path.name for path in Path("/sys/class/net").iterdir()),
        "routes": said("ip", "-4", "route"),
        "tables": Path("/proc/net/ip_tables_names").read_text() if Path("/proc/net/ip_tables_names").exists() else "",
    }


def network_namespaces(root: int | None = None) -> set[str]:
    """Returns the network namespaces of all processes, or of those below the process `root`."""
    parents, namespaces = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, ValueError):
            # The program's name is in parentheses and may contain spaces.
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            namespaces[int(path.name)] = os.readlink(path / "ns/net")  # noqa: PTH115 - no path, but `net:[NUMBER]`

    def below_root(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    return {namespace for pid, namespace in namespaces.items() if root is None or below_root(pid)}


def processes_of(directory: Path) -> list[str]:
    """Returns the command lines of live processes that contain the lab's directory."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except OSError:
            continue
        if str(directory).encode() in command:
            found.append(command.replace(b"\0", b" ").decode())
    return found


def command(checkout: Path, *words: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """Runs the lab's command line in a checkout."""
    python = str(checkout / ".venv/bin/python")
    return subprocess.run(
        [*prefix, python, "-m", "lab", *words], cwd=checkout, capture_output=True, text=True, check=False, timeout=300
    )


def test_two_labs_stand_side_by_side_and_a_killed_one_leaves_nothing(site: Site, second_checkout: Path) -> None:
    before = outline()
    taken_up = command(second_checkout, "up", "--nodes", "8xh200")
    assert taken_up.returncode == 0, taken_up.stderr
    second = load(directory_of(second_checkout))
    assert second is not None
    assert second.running
    assert second.subnet != site.subnet
    assert "h200-0" in command(second_checkout, "status").stdout

    # Other tests' pods come and go: only the second lab's own namespaces count.
    own = network_namespaces(second.pid) - {os.readlink("/proc/self/ns/net")}  # noqa: PTH115
    assert own
    os.kill(second.pid, signal.SIGKILL)

    # The kernel removes links some time after the last process of their namespace.
    deadline = time.monotonic() + 240
    while (processes_of(second.directory) or outline() != before) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(second.directory) == []
    assert outline() == before
    assert not own & network_namespaces()
    assert site.running
    refused = command(second_checkout, "status")
    assert refused.returncode == 1
    assert "no lab is up" in refused.stderr

    down = command(second_checkout, "down")
    assert down.returncode == 0
    assert f"took down the lab of {second_checkout}: 1 real node" in down.stderr
    assert list(second.directory.parent.glob(f"{second.directory.name}*")) == [], "neither directory nor lock"
    assert not list(Path("/sys/fs/cgroup").glob(f"**/heavylift-{second.subnet}-*"))


def test_without_root_the_control_plane_and_simulated_nodes_run_and_the_rest_is_named(
    site: Site, second_checkout: Path
) -> None:
    # The owner of the files, without capabilities: the lab runs as a user without root rights.
    as_user = ("unshare", "--user")
    taken_up = command(second_checkout, "up", "--nodes", "2x8h100", prefix=as_user)
    assert taken_up.returncode == 0, taken_up.stderr
    assert "left out: real nodes" in taken_up.stderr
    status = command(second_checkout, "status", prefix=as_user)
    assert "h100-1" in status.stdout
    assert "real-0" not in status.stdout
    second = load(directory_of(second_checkout))
    assert second is not None
    os.kill(second.pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    while processes_of(second.directory) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert processes_of(second.directory) == []
    again = command(second_checkout, "up", prefix=as_user)
    assert again.returncode == 0, again.stderr
    assert f"clearing away what is left of the lab of {second_checkout}" in again.stderr


def test_a_second_up_leaves_a_running_lab_as_it_is(lab: Lab, site: Site) -> None:
    borrowed = lab.directory / "borrowed"
    was_borrowed = borrowed.exists()
    again = command(CHECKOUT, "up")
    assert again.returncode == 0, again.stderr
    assert lab.site.pid == site.pid
    assert not borrowed.exists(), "it stays up when the tests are over"
    if was_borrowed:
        borrowed.touch()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add-nodes", "9xh200"), "no profile '9xh200': expected one of 8xh200"),
        (("break", "nobody", "--not-ready"), "no node 'nobody'"),
        (("logs", "nothing"), "no process 'nothing': expected one of"),
    ],
)
def test_a_mistake_gets_one_line_and_exit_status_1(site: Site, words: tuple[str, ...], message: str) -> None:
    answer = command(CHECKOUT, *words)
    assert answer.returncode == 1
    assert message in answer.stderr
    assert len(answer.stderr.splitlines()) == 1
