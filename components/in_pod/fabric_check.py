"""Checks, before an engine starts, that NCCL would really use InfiniBand, RoCE or EFA; exit status 0 means: it can.

This one file, standard library only, runs alone in an init container of the engine's own image (`python
fabric_check.py`), so that device, user and limits are the engine's. It takes a moment, and prints every problem with
what to fix; without it NCCL falls back on sockets, or fails twenty minutes into a load. `--root DIR` reads recorded
`/sys`, `/dev` and `/proc` trees instead of the machine's. Speed, and whether GPU and card exchange data directly, it
does not measure.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ACTIVE = "4: ACTIVE"
TITLES = {"infiniband": "InfiniBand", "roce": "RoCE", "efa": "EFA"}
LINK_LAYERS = {"infiniband": "InfiniBand", "roce": "Ethernet"}
DRIVERS = {"infiniband": "mlx5_ib", "roce": "mlx5_ib", "efa": "efa"}
ROCE_V2 = "RoCE v2"
NO_ADDRESS = "0000:0000:0000:0000:0000:0000:0000:0000"
IPC_LOCK = 14
"""Number of CAP_IPC_LOCK (linux/capability.h)."""
LOCKED_MEMORY_BYTES = 2**34
"""Less than this counts as too small: NCCL pins buffers for each GPU and peer, and who sets a limit on purpose sets
none. The usual default is 64 KiB or 8 MiB."""
LIBRARY_DIRECTORIES = (
    "/usr/local/lib",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/opt/amazon/ofi-nccl/lib",
    "/opt/amazon/ofi-nccl/lib64",
    "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu",
)
"""Where the loader looks, and where the EFA installer puts NCCL's plugin."""
LIMIT_HELP = (
    "set LimitMEMLOCK=infinity in the node's containerd.service and restart it; a pod cannot, and the capability "
    "IPC_LOCK counts only for a process that runs as root"
)


def problems(
    root: Path,
    *,
    kind: str = "infiniband",
    devices: Sequence[str] = (),
    resource: str = "",
    count: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> list[str]:
    """Every reason why NCCL would not use the fabric, one line each; empty: it would.

    `kind`: `infiniband`, `roce` or `efa`. `devices` are those to use; none: all that the container was given. `count`:
    how many it must have been given; None: any number.
    """
    settings = os.environ if environment is None else environment
    return [
        *_setting_problems(root, settings),
        *_device_problems(root, kind, devices, resource),
        *_count_problems(root, kind, count, resource),
        *(_efa_problems(root, settings) if kind == "efa" else ()),
        *_memory_problems(root),
    ]


def _setting_problems(root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    if environment.get("NCCL_IB_DISABLE", "0") != "0":
        yield f"NCCL_IB_DISABLE is {environment['NCCL_IB_DISABLE']}: take it out of heavylift:engine.environment"
    interfaces = _names(root / "sys/class/net")
    for variable in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        wanted = environment.get(variable)
        if wanted and wanted not in interfaces:
            found = ", ".join(interfaces) or "none"
            yield f"{variable} is {wanted}, and the interfaces are {found}: correct heavylift:nodes.fabric.interface"


def _device_problems(root: Path, kind: str, wanted: Sequence[str], resource: str) -> Iterator[str]:
    present = _names(root / "sys/class/infiniband")
    if not present:
        yield (
            f"the node has no {TITLES[kind]} device (/sys/class/infiniband is empty): load its driver "
            f"({DRIVERS[kind]}), or serve on nodes that have one"
        )
        return
    yield from (
        f"{device}: no such device, the node has {', '.join(present)}: correct heavylift:nodes.fabric.devices"
        for device in wanted
        if device not in present
    )
    files = _device_files(root)
    given = [device for device in present if device in files]
    if not given:
        yield (
            f"the container was given none of the node's {len(present)} {TITLES[kind]} devices (no "
            f"/dev/infiniband/uverbs*): check that the RDMA device plugin runs on the node and that "
            f"{resource or 'its resource'} is its own"
        )
    used = [device for device in present if device in wanted] or given
    faults = {device: _fault(root, kind, device, files.get(device)) for device in used}
    yield from (f"{device}: {fault}" for device, fault in faults.items() if fault)


def _device_files(root: Path) -> dict[str, Path]:
    """The file by which a process reaches each InfiniBand device, as far as this container has them."""
    found = {}
    for entry in _names(root / "sys/class/infiniband_verbs"):
        file = root / "dev/infiniband" / entry
        if entry.startswith("uverbs") and file.exists():
            found[_text(root / "sys/class/infiniband_verbs" / entry / "ibdev")] = file
    return found


def _fault(root: Path, kind: str, device: str, file: Path | None) -> str | None:
    if file is None:
        return "the container was not given this device: ask for more of the RDMA plugin's resource, or leave it out"
    try:
        os.close(os.open(file, os.O_RDWR))
    except OSError as refusal:
        return f"/dev/infiniband/{file.name} cannot be opened ({refusal.strerror}): let the RDMA plugin hand it out"
    if kind == "efa":
        return None  # its ports have no state of a link
    directory = root / "sys/class/infiniband" / device / "ports"
    ports = [directory / name for name in _names(directory)]
    linked = [port for port in ports if _text(port / "link_layer") == LINK_LAYERS[kind]]
    if not linked:
        layers = ", ".join(sorted({_text(port / "link_layer") for port in ports})) or "unknown"
        wanted = LINK_LAYERS[kind]
        return f"its link layer is {layers}, not {wanted}: name the right ones in heavylift:nodes.fabric.devices"
    active = [port for port in linked if _text(port / "state") == ACTIVE]
    if active:
        return None if kind == "infiniband" else _address_fault(root, active)
    states = "; ".join(f"port {port.name} is {_text(port / 'state')}, {_text(port / 'phys_state')}" for port in linked)
    manager = ", and that a subnet manager runs" if kind == "infiniband" else ""
    return f"{states}: check cable and switch{manager}; or leave it out of the devices"


def _address_fault(root: Path, ports: Sequence[Path]) -> str | None:
    """A fault if no port has a RoCE v2 address on an interface of this pod.

    The kernel shows the addresses of other network namespaces as zeros, and answers with an error for their types
    (github.com/NVIDIA/nccl/issues/1573; Documentation/ABI/stable/sysfs-class-infiniband).
    """
    interfaces = _names(root / "sys/class/net")
    for port in ports:
        for index in _names(port / "gids"):
            is_own = _text(port / "gid_attrs/ndevs" / index) in interfaces
            if (
                is_own
                and _text(port / "gids" / index) != NO_ADDRESS
                and _text(port / "gid_attrs/types" / index) == ROCE_V2
            ):
                return None
    return (
        f"no {ROCE_V2} address on an interface of this pod ({', '.join(interfaces) or 'none'}): attach the pod to the "
        "device's network with heavylift:nodes.fabric.attachments, or use fabric.network: host"
    )


def _count_problems(root: Path, kind: str, count: int | None, resource: str) -> Iterator[str]:
    given = len(_device_files(root))
    if count is not None and given and given != count:
        yield (
            f"the container was given {given} {TITLES[kind]} devices, and asked for {count} of {resource}: check the "
            "version of the device plugin"
        )


def _efa_problems(root: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """What NCCL needs for EFA beside the devices: the plugin that its loader finds, and huge pages."""
    directories = [*environment.get("LD_LIBRARY_PATH", "").split(":"), *_configured(root), *LIBRARY_DIRECTORIES]
    folders = [root / directory.lstrip("/") for directory in directories if directory]
    if not any(file for folder in folders for file in folder.glob("libnccl-net*.so*")):
        yield (
            "the image has no libnccl-net.so (aws-ofi-nccl) where the loader looks, so that NCCL would use TCP: set "
            "heavylift:engine.image to an image with EFA"
        )
    if not re.search(r"^HugePages_Total:\s+[1-9]", _text(root / "proc/meminfo"), re.MULTILINE):
        yield "the node has no huge pages: use an image of EKS with the EFA driver, which reserves them"


def _configured(root: Path) -> list[str]:
    """The directories that the loader is configured to look in."""
    folder = root / "etc/ld.so.conf.d"
    files = [folder / name for name in _names(folder) if name.endswith(".conf")]
    return [line.strip() for file in files for line in _text(file).splitlines() if line.startswith("/")]


def _memory_problems(root: Path) -> Iterator[str]:
    soft = _locked_memory_limit(root)
    if soft is None or soft >= LOCKED_MEMORY_BYTES or _may_lock(root):
        return
    yield f"locked memory is limited to {soft} bytes: {LIMIT_HELP}"


def _locked_memory_limit(root: Path) -> int | None:
    """Bytes that this process may lock; None: any number."""
    for line in (root / "proc/self/limits").read_text().splitlines():
        if line.startswith("Max locked memory"):
            soft = line.removeprefix("Max locked memory").split()[0]
            return None if soft == "unlimited" else int(soft)
    return None


def _may_lock(root: Path) -> bool:
    """Whether CAP_IPC_LOCK is in force: it may be granted to a container and count for root alone."""
    for line in (root / "proc/self/status").read_text().splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> IPC_LOCK & 1)
    return False


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir()) if directory.is_dir() else []


def _text(file: Path) -> str:
    """What a file of `/sys` says; not every driver has every file, and one that fails answers with an error."""
    try:
        return file.read_text().strip()
    except OSError:
        return "unknown"


def command_line() -> argparse.ArgumentParser:
    """What may be said on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("/"), help="read the trees below this directory")
    parser.add_argument("--device", action="append", default=[], dest="devices", help="device to use; unset: all given")
    parser.add_argument("--resource", default="", help="the device plugin's resource, for the messages")
    parser.add_argument("--kind", choices=tuple(TITLES), default="infiniband", help="the fabric")
    parser.add_argument("--count", type=int, help="devices that the container must have; unset: any number")
    parser.add_argument("--library", default="NCCL", help="the collective library, for the messages")
    return parser


def main() -> int:
    """Exit status 0, or 1 with every problem on standard error."""
    arguments = command_line().parse_args()
    found = problems(
        arguments.root,
        kind=arguments.kind,
        devices=arguments.devices,
        resource=arguments.resource,
        count=arguments.count,
    )
    title = TITLES[arguments.kind]
    if not found:
        print(f"{title} is there: {arguments.library} will use it")
        return 0
    heading = f"{arguments.library} would not use {title} here, although the stack asks for it:"
    print(heading, *found, sep="\n  ", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
