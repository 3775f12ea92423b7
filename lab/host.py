"""What a lab needs from the host (programs, a free network, one link) and what it leaves (control groups)."""

import os
import platform
import shutil
import time
from pathlib import Path

from lab.errors import LabError
from lab.processes import run
from lab.site import Site


def check_prerequisites(*, root: bool) -> None:
    """Raises one LabError that lists everything missing. Runs before any build."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise LabError(f"the lab needs Linux on x86_64, this is {platform.system()} on {platform.machine()}")
    needed = {"unshare": "util-linux", "tar": "tar"}
    if root:
        needed |= {
            "ip": "iproute2",
            "mount": "mount",
            "nsenter": "util-linux",
            "apt-get": "apt (Debian or Ubuntu)",
            "dpkg-deb": "dpkg (Debian or Ubuntu)",
        }
    missing = [f"{program} (package {package})" for program, package in needed.items() if not shutil.which(program)]
    if root and "overlay" not in Path("/proc/filesystems").read_text():
        missing.append("the kernel's overlay file system (modprobe overlay)")
    if missing:
        raise LabError(f"missing: {', '.join(missing)}")


def choose_subnet() -> int:
    """Returns the first n from 64 on for which no route of this machine overlaps 10.n.0.0/16."""
    routes = run("ip", "-4", "route")
    for candidate in range(64, 128):
        if f"10.{candidate}." not in routes:
            return candidate
    raise LabError(
        "every network from 10.64.0.0/16 to 10.127.0.0/16 is taken: `python -m lab down --all` frees those of labs"
    )


def first_child(pid: int) -> int:
    """Returns the process that `unshare` started, PID 1 of the lab."""
    children = Path(f"/proc/{pid}/task/{pid}/children")
    for _ in range(200):
        found = children.read_text().split()
        if found:
            return int(found[0])
        time.sleep(0.02)
    raise LabError("unshare started nothing: is the kernel short of namespaces?")


def link_host(site: Site, pid: int) -> None:
    """Creates the link between host and lab, and the route to the lab's nodes, pods and Services."""
    commands = (
        f"ip link add {site.link} type veth peer name uplink netns {pid}",
        f"ip address add {site.host_address}/24 dev {site.link}",
        f"ip link set {site.link} up",
        f"ip route add 10.{site.subnet}.0.0/16 via {site.address}",
    )
    for command in commands:
        run(*command.split())


def remove_cgroups(site: Site) -> None:
    """Removes the empty control groups of the lab's nodes. Nothing else outlives the lab's processes."""
    for group in Path("/sys/fs/cgroup").glob(f"**/heavylift-{site.subnet}-*"):
        for directory, _, _ in os.walk(group, topdown=False):
            Path(directory).rmdir()
