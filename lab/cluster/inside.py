"""The lab's process: with root, PID 1 of the lab's namespaces. All other processes of the lab are its children.

Run as `python -m lab.cluster.inside DIRECTORY`. When it ends, the kernel ends the others.
"""

import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from lab.cluster import control_plane, servers
from lab.processes import Program, run
from lab.site import Site, load

UPLINK = "uplink"
BRIDGE = "lab"


def wait_for_link(name: str, seconds: float = 30) -> None:
    """Waits until this network namespace has a link of that name."""
    deadline = time.monotonic() + seconds
    while subprocess.run(["ip", "link", "show", name], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no link {name} was handed over")
        time.sleep(0.05)


def join_network(site: Site) -> None:
    """Creates a bridge with the host's link and the lab's address. The real nodes join it later."""
    wait_for_link(UPLINK)
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge")
    run("ip", "link", "set", UPLINK, "master", BRIDGE, "up")
    run("ip", "address", "add", f"{site.address}/24", "dev", BRIDGE)
    run("ip", "link", "set", BRIDGE, "up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def wait_for_api(site: Site) -> None:
    """Waits until the API server reports that it is ready."""
    context = ssl.create_default_context(cafile=str(site.directory / "certificates/ca.crt"))
    address = site.url("api", "https")
    while True:
        try:
            with urllib.request.urlopen(f"{address}/readyz", context=context, timeout=5):  # noqa: S310 - https only
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)


def start(site: Site) -> dict[int, Program]:
    """Starts all programs in order and returns them by process ID."""
    running: dict[int, Program] = {}

    def begin(program: Program) -> None:
        running[program.start(site.logs).pid] = program

    for program in servers.all_servers(site):
        begin(program)
    begin(control_plane.etcd(site))
    begin(control_plane.api_server(site))
    wait_for_api(site)
    for describe in (control_plane.controller_manager, control_plane.scheduler, control_plane.kwok):
        begin(describe(site))
    if site.isolated:
        begin(control_plane.coredns(site))
    manifests = control_plane.leader_worker_set_manifests(site)
    apply = (control_plane.kubectl(), "--kubeconfig", site.kubeconfig, "apply", "--server-side", "-f", "-")
    run(*apply, text=manifests)
    begin(control_plane.leader_worker_set(site))
    return running


def hold(running: dict[int, Program]) -> None:
    """Reaps processes that end, logs each, and never returns."""
    while True:
        pid, status = os.wait()
        program = running.pop(pid, None)
        if program is not None:
            sys.stderr.write(f"{program.name} ended with status {os.waitstatus_to_exitcode(status)}\n")
            sys.stderr.flush()


def main() -> None:
    """Starts the lab that `site.json` in the given directory describes."""
    site = load(Path(sys.argv[1]))
    if site is None:
        raise SystemExit(f"{sys.argv[1]} holds no lab")
    if site.isolated:
        run("mount", "--make-rprivate", "/")
        join_network(site)
    running = start(site)
    (site.directory / "ready").touch()
    hold(running)


if __name__ == "__main__":
    main()
