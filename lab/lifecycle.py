"""Starts and stops a lab: checks prerequisites, builds, starts processes, and removes everything at the end."""

import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from lab import engine
from lab.build import images, wheels
from lab.build.cache import Piece, ensure, lock
from lab.build.debian import TOOLS_PIECE
from lab.build.pieces import CONTROL_PLANE, ENGINE, NETWORK_POLICIES_PIECE, REAL_NODE, SERVERS
from lab.cluster import client, control_plane
from lab.cluster.servers import wheels_directory
from lab.errors import LabError
from lab.host import check_prerequisites, choose_subnet, first_child, link_host, remove_cgroups
from lab.processes import run
from lab.site import CHECKOUT, LABS, PORTS, Site, directory_of, free_ports, load
from lab.voice import reminding, say

START_SECONDS = 180
# The kernel removes namespaces asynchronously.
STOP_SECONDS = 120
NETWORK_LOCK = "network.lock"
STAGER_REQUIREMENTS = CHECKOUT / "stager/requirements.txt"
WITHOUT_ROOT = (
    "without root: the control plane, LeaderWorkerSet, simulated nodes, hub and S3 server run; "
    "left out: real nodes, so no container runs, no Service answers, and cluster DNS"
)


def pieces(*, root: bool) -> list[Piece]:
    """Returns the pieces that `up` needs, in build order."""
    needed: list[Piece] = [*CONTROL_PLANE, *SERVERS, images.MODEL]
    if not engine.own_pulumi():
        needed = [*ENGINE, *needed]
    if root:
        needed += [*REAL_NODE, TOOLS_PIECE, *images.IMAGES]
    return needed


def lay_out_hub(site: Site) -> None:
    """Writes the hub's table and the real model to the hub's directory."""
    shutil.copy(CHECKOUT / "lab/repositories.yaml", site.directory)
    (site.directory / images.MODEL_FILE).symlink_to(ensure(images.MODEL) / images.MODEL_FILE)


def stager_wheels() -> Piece:
    """Returns the wheels of the stager's locked requirements, for the Python of the lab's image."""
    return Piece(
        "wheels",
        (STAGER_REQUIREMENTS, str(images.PYTHON.path)),
        lambda workspace, _progress: wheels.download(STAGER_REQUIREMENTS, workspace, *images.wheels_for_image()),
        "about 20 s",
    )


class Lab:
    """The lab of one checkout."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or directory_of(CHECKOUT)

    @property
    def site(self) -> Site:
        """The running lab. Raises LabError if none runs."""
        site = load(self.directory)
        if site is None or not site.running:
            raise LabError(
                f"no lab is up for the checkout {CHECKOUT}: run `make lab` or `python -m lab up` there first"
            )
        return site

    @property
    def up(self) -> bool:
        """Whether the lab runs and its start was completed."""
        site = load(self.directory)
        return bool(site and site.running and (site.directory / "ready").exists())

    @property
    def _lock(self) -> Path:
        """The lock file for starting and stopping this lab. `down` removes it."""
        return self.directory.with_name(f"{self.directory.name}.lock")

    @property
    def _users(self) -> Path:
        """The lock file that the processes that borrow this lab share."""
        return self.directory.with_name(f"{self.directory.name}.users")

    @property
    def _borrowed(self) -> Path:
        """The file that marks a lab started by a borrower. The last borrower stops that lab."""
        return self.directory / "borrowed"

    def _outline(self, site: Site) -> str:
        """Returns a summary: checkout, nodes, network."""
        nodes = "1 real node" if self.real_nodes == 1 else f"{self.real_nodes} real nodes"
        network = f", network 10.{site.subnet}.0.0/16" if site.isolated else ""
        return f"the lab of {site.checkout}: {nodes}{network}"

    @property
    def real_nodes(self) -> int:
        """Returns the number of started nodes that run containers."""
        return len(list((self.directory / "nodes").glob("real-*")))

    def start(self) -> Site:
        """Starts the lab, and builds what the cache lacks first. A running lab stays unchanged, and stays up."""
        return self._take_up(borrowed=False)

    @contextmanager
    def borrowed(self) -> Iterator[Site]:
        """Yields the lab with one real node. If a borrower started the lab, the last borrower stops it."""
        try:
            with lock(self._users, fcntl.LOCK_SH):
                yield self._take_up(borrowed=True)
        finally:
            with suppress(BlockingIOError), lock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB):
                if self._borrowed.exists():
                    self.stop()
                self._users.unlink()

    def _take_up(self, *, borrowed: bool) -> Site:
        root = os.geteuid() == 0
        check_prerequisites(root=root)
        for piece in pieces(root=root):
            ensure(piece)
        with lock(self._lock):
            if not self.up:
                self._start(root=root)
                if borrowed:
                    self._borrowed.touch()
            elif not borrowed:
                self._borrowed.unlink(missing_ok=True)
            return self.site

    def _start(self, *, root: bool) -> Site:
        started = time.monotonic()
        if left := load(self.directory):
            say(f"clearing away what is left of {self._outline(left)}")
        with reminding("clearing away"):
            self._clear()
        with reminding("starting"):
            # Holds a lock from the choice of a network until the link exists, so that no other lab chooses it too.
            with lock(LABS / NETWORK_LOCK):
                site = self._hold(self._prepare(root=root))
            self._wait_until_ready(site)
            if site.isolated:
                self.add_real_node()
        if not site.isolated:
            say(WITHOUT_ROOT)
        say(f"up in {time.monotonic() - started:.0f} s")
        return site

    def _prepare(self, *, root: bool) -> Site:
        """Creates the lab's directory: credentials, the hub's files, the engine."""
        self.directory.mkdir(parents=True)
        subnet = choose_subnet() if root else None
        site = Site(self.directory, CHECKOUT, subnet, PORTS if root else free_ports())
        site.logs.mkdir()
        control_plane.write_credentials(site)
        lay_out_hub(site)
        if root and STAGER_REQUIREMENTS.exists():
            wheels_directory(site).symlink_to(ensure(stager_wheels()))
        else:
            wheels_directory(site).mkdir()
        engine.Engine(self.directory).install()
        return site

    def _hold(self, site: Site) -> Site:
        """Starts the lab's process, and moves the link into its network namespace."""
        site.save()
        command = [sys.executable, "-m", "lab.cluster.inside", str(site.directory)]
        if site.isolated:
            namespaces = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
            command = ["unshare", *namespaces, *command]
        with (site.logs / "lab.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        # The process outlives this one. Without this line, Popen warns.
        process.returncode = 0
        site = replace(site, pid=process.pid)
        site.save()
        if site.isolated:
            link_host(site, first_child(process.pid))
        return site

    def _wait_until_ready(self, site: Site) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not (site.directory / "ready").exists():
            if not site.running or time.monotonic() > deadline:
                tail = (site.logs / "lab.log").read_text()[-2000:]
                raise LabError(f"the control plane did not start; see {site.logs}\n{tail}")
            time.sleep(0.1)

    def add_real_node(self) -> str:
        """Starts the next node that runs containers, waits until it is Ready and returns its name."""
        site = self.site
        if not site.isolated:
            raise LabError("a real node needs root")
        index = self.real_nodes
        if index >= control_plane.MOST_REAL_NODES:
            raise LabError(f"at most {control_plane.MOST_REAL_NODES} real nodes")
        inside = ("nsenter", f"--target={first_child(site.pid)}", "--net", "--mount", "--pid", f"--wd={CHECKOUT}")
        run(*inside, sys.executable, "-m", "lab.cluster.real_node", site.directory, str(index))
        name = f"real-{index}"
        api = client.core(site)
        ready = f"node {name} did not become Ready (logs in {site.logs})"
        client.wait_until(lambda: client.is_ready(client.node(api, name)), START_SECONDS, ready)
        return name

    def enforce_network_policies(self) -> None:
        """Starts an enforcer of NetworkPolicies on each real node, until the lab stops."""
        ensure(NETWORK_POLICIES_PIECE)
        enforcer = ("env", f"PYTHONPATH={CHECKOUT}", sys.executable, "-m", "lab.cluster.network_policies")
        for index in range(self.real_nodes):
            self.on_node(f"real-{index}", *enforcer, self.directory, str(index))

    def on_node(self, name: str, *command: str | Path) -> str:
        """Runs a command in a real node's namespaces and returns its output."""
        site = self.site
        node = [
            sys.executable,
            "-m",
            "lab.cluster.real_node",
            str(site.directory),
            name.removeprefix("real-"),
            "within",
        ]
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_text().split("\0")[:-1]
            except OSError:
                continue
            if words == node:
                return run("nsenter", f"--target={process.name}", "--mount", "--net", "--uts", "--pid", *command)
        raise LabError(f"no real node {name!r}: see `python -m lab status`")

    def stop(self) -> bool:
        """Stops the lab, removes its files, and prints what it removed. Returns whether a lab existed."""
        with lock(self._lock):
            site = load(self.directory)
            outline = self._outline(site) if site else ""
            started = time.monotonic()
            with reminding("taking it down"):
                found = self._clear()
            if found:
                say(f"took down {outline}, in {time.monotonic() - started:.0f} s")
            self._lock.unlink()
        return found

    def _clear(self) -> bool:
        """Ends the lab's processes and removes its files. Returns whether a lab existed."""
        site = load(self.directory)
        if site is None:
            shutil.rmtree(self.directory, ignore_errors=True)
            return False
        # After a crash, a link of this name belongs to another lab.
        held_link = site.running
        site.stop()
        deadline = time.monotonic() + STOP_SECONDS
        while site.running or (held_link and Path(f"/sys/class/net/{site.link}").exists()):
            if time.monotonic() > deadline:
                raise LabError(f"process {site.pid} or link {site.link} of the lab does not go away")
            time.sleep(0.05)
        if not any(other.subnet == site.subnet for other in running_labs()):
            remove_cgroups(site)
        shutil.rmtree(self.directory)
        return True


def every_lab() -> list[Path]:
    """Returns the directories of all labs of this user, in any checkout, including labs with only a lock left."""
    directories = {path for path in LABS.glob("*") if path.is_dir()}
    locks = {
        path.with_name(path.name.removesuffix(".lock")) for path in LABS.glob("*.lock") if path.name != NETWORK_LOCK
    }
    return sorted(directories | locks)


def running_labs() -> list[Site]:
    """Returns all running labs of this user. One of them may now use the network of a killed lab."""
    return [site for directory in every_lab() if (site := load(directory)) and site.running]
