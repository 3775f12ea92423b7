"""A node that runs containers: containerd, runc, CNI, kubelet and kube-proxy in their own namespaces.

Run as `python -m lab.cluster.real_node DIRECTORY INDEX` within the lab's namespaces. The node has its own network, host
name and mounts: the unpacked tools lie over /usr, and what is written to /etc, /var and /mnt goes to
the node's directory.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import yaml

from lab.build.cache import ensure
from lab.build.debian import TOOLS_PIECE
from lab.build.images import IMAGES
from lab.build.pieces import KUBERNETES_PIECE
from lab.cluster.certificates import Certificates
from lab.cluster.inside import BRIDGE, wait_for_link
from lab.processes import Program, run
from lab.site import Site, load

PRIVATE = ("etc", "var", "mnt")
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "heavylift.lab/pause:1"
CGROUPS = Path("/sys/fs/cgroup")


class RealNode:
    """One real node of a lab."""

    def __init__(self, site: Site, index: int) -> None:
        self.site = site
        self.index = index
        self.name = f"real-{index}"
        self.directory = site.directory / "nodes" / self.name
        self.address = site.node_address(index)
        self.cgroup = f"heavylift-{site.subnet}-{self.name}"

    def attach(self, pid: int) -> None:
        """Runs in the lab's network: links the process `pid` to the bridge, and routes to its pods."""
        link = f"node{self.index}"
        run("ip", "link", "add", link, "master", BRIDGE, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        run("ip", "link", "set", link, "up")
        run("ip", "route", "add", self.site.pod_network(self.index), "via", self.address)
        if self.index == 0:
            run("ip", "route", "add", self.site.service_network, "via", self.address)

    def join_network(self) -> None:
        """Runs in the node's network: sets its address, and routes everything else through the lab."""
        wait_for_link("eth0")
        run("ip", "link", "set", "lo", "up")
        run("ip", "address", "add", f"{self.address}/24", "dev", "eth0")
        run("ip", "link", "set", "eth0", "up")
        run("ip", "route", "add", "default", "via", self.site.address)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
        if bridged.exists():
            bridged.write_text("1")

    def make_private(self) -> None:
        """Mounts the tools over /usr, and the node's own directories over those that a node writes to."""
        run("mount", "--make-rprivate", "/")
        # The kubelet propagates mounts to containers.
        run("mount", "--make-rshared", "/")
        tools = ensure(TOOLS_PIECE) / "root/usr"
        run("mount", "-t", "overlay", "-o", f"lowerdir={tools}:/usr", "tools", "/usr")
        for name in PRIVATE:
            upper, work = self.directory / name, self.directory / f".{name}"
            upper.mkdir(parents=True, exist_ok=True)
            work.mkdir(exist_ok=True)
            run("mount", "-t", "overlay", "-o", f"lowerdir=/{name},upperdir={upper},workdir={work}", name, f"/{name}")
        run("mount", "-t", "tmpfs", "run", "/run")
        run("hostname", self.name)

    def make_cgroup(self) -> None:
        """Creates one cgroup for the node's pods, in each hierarchy of cgroup v1 or in the one of v2."""
        unified = (CGROUPS / "cgroup.controllers").exists()
        for hierarchy in [CGROUPS] if unified else [path for path in CGROUPS.iterdir() if path.is_dir()]:
            group = hierarchy / self.cgroup
            group.mkdir(exist_ok=True)
            if unified:
                for controller in (CGROUPS / "cgroup.controllers").read_text().split():
                    (group / "cgroup.subtree_control").write_text(f"+{controller}")
            if hierarchy.name.startswith("cpuset"):
                for setting in ("cpuset.cpus", "cpuset.mems"):
                    (group / setting).write_text((hierarchy / setting).read_text())

    def containerd(self) -> Program:
        """The container runtime, with its own state. Images are imported, never pulled."""
        configuration = f"""
version = 2
root = "{self.directory}/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  # Without CAP_SYS_RESOURCE no process may lower its own score, and every sandbox would fail.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/etc/cni/net.d"
"""
        Path("/etc/containerd").mkdir(exist_ok=True)
        Path("/etc/containerd/config.toml").write_text(configuration)
        return Program(f"{self.name}-containerd", ["containerd"])

    def write_pod_network(self) -> None:
        """Writes the CNI configuration: one bridge per node, with addresses from the node's range."""
        plugin = {
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": self.site.pod_network(self.index)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }
        Path("/etc/cni/net.d").mkdir(parents=True, exist_ok=True)
        Path("/etc/cni/net.d/10-lab.conflist").write_text(
            json.dumps(
                {
                    "cniVersion": "1.0.0",
                    "name": "lab",
                    "plugins": [plugin, {"type": "portmap", "capabilities": {"portMappings": True}}],
                }
            )
        )

    def kubelet(self) -> Program:
        """The kubelet, which registers the node with its address."""
        resolver = Path("/run/resolv.conf")
        resolver.write_text(f"nameserver {self.site.address}\n")
        configuration = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": False},
                "x509": {"clientCAFile": str(Certificates(self.site).authority)},
            },
            "authorization": {"mode": "AlwaysAllow"},
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self.cgroup}",
            "clusterDNS": [self.site.address],
            "clusterDomain": "cluster.local",
            "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
            "failSwapOn": False,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1Gi", "imagefs.available": "1Gi"},
            "resolvConf": str(resolver),
            "imageGCHighThresholdPercent": 100,
            "nodeStatusUpdateFrequency": "4s",
            "shutdownGracePeriod": "0s",
        }
        path = Path("/run/kubelet.yaml")
        path.write_text(yaml.safe_dump(configuration))
        flags = {
            "config": path,
            "kubeconfig": self.site.directory / f"{self.name}.kubeconfig",
            "hostname-override": self.name,
            "node-ip": self.address,
        }
        words = [f"--{flag}={value}" for flag, value in flags.items()]
        return Program(f"{self.name}-kubelet", [ensure(KUBERNETES_PIECE) / "kubelet", *words])

    def kube_proxy(self) -> Program:
        """kube-proxy, with iptables in the node's network."""
        flags = {
            "kubeconfig": self.site.kubeconfig,
            "hostname-override": self.name,
            "proxy-mode": "iptables",
            "detect-local-mode": "BridgeInterface",
            "pod-bridge-interface": "cni0",
            # These sysctls are global to the host.
            "conntrack-max-per-core": 0,
            "conntrack-tcp-timeout-established": "0",
            "conntrack-tcp-timeout-close-wait": "0",
        }
        words = [f"--{flag}={value}" for flag, value in flags.items()]
        return Program(f"{self.name}-kube-proxy", [ensure(KUBERNETES_PIECE) / "kube-proxy", *words])

    def import_images(self) -> None:
        """Waits for containerd and imports the lab's images."""
        while subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode:
            time.sleep(0.1)
        for piece in IMAGES:
            run("ctr", "--namespace", "k8s.io", "images", "import", ensure(piece) / "image.tar")

    def run(self) -> None:
        """Starts the node and waits for its processes."""
        self.join_network()
        self.make_private()
        self.make_cgroup()
        self.write_pod_network()
        logs = self.site.logs
        self.containerd().start(logs)
        self.import_images()
        self.kubelet().start(logs)
        self.kube_proxy().start(logs)
        while True:
            pid, status = os.wait()
            sys.stderr.write(f"{self.name}: process {pid} ended with {os.waitstatus_to_exitcode(status)}\n")


def main() -> None:
    """The first call creates the namespaces and attaches them. The second call, inside them, becomes the node."""
    directory, index, *within = sys.argv[1:]
    site = load(Path(directory))
    if site is None:
        raise SystemExit(f"{directory} holds no lab")
    node = RealNode(site, int(index))
    if within:
        node.run()
        return
    node.directory.mkdir(parents=True, exist_ok=True)
    command = [
        "unshare",
        "--net",
        "--mount",
        "--uts",
        sys.executable,
        "-m",
        "lab.cluster.real_node",
        directory,
        index,
        "within",
    ]
    with (site.logs / f"{node.name}.log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    # `unshare` creates the namespaces before it executes Python in them.
    while Path(f"/proc/{process.pid}/ns/net").readlink() == Path("/proc/self/ns/net").readlink():
        time.sleep(0.01)
    node.attach(process.pid)


if __name__ == "__main__":
    main()
