"""Runs in a pod: prints its processes, its listening sockets, and whether its root can be written to, as JSON."""

import json
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp."""
RIGHTS = ("Name", "Uid", "Gid", "CapEff", "CapBnd", "NoNewPrivs", "Seccomp")


def processes() -> Iterator[dict[str, str]]:
    """Yields what the kernel says of the rights of each process but this one."""
    for status in Path("/proc").glob("[0-9]*/status"):
        if status.parent.name == str(os.getpid()):
            continue
        fields = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
        yield {name: fields[name] for name in RIGHTS}


def listening() -> Iterator[tuple[str, int]]:
    """Yields address and port of each listening TCP socket."""
    for table, family, words in (("tcp", socket.AF_INET, 1), ("tcp6", socket.AF_INET6, 4)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == LISTENS:
                address, _, port = local.partition(":")
                # Words of 32 bits, each in the order of this processor.
                packed = b"".join(struct.pack("=I", int(address[8 * word :][:8], 16)) for word in range(words))
                yield socket.inet_ntop(family, packed), int(port, 16)


def root_is_writable() -> bool:
    """Whether a file can be made in the image's root."""
    try:
        Path("/written").touch()
    except OSError:
        return False
    return True


def main() -> None:
    """Prints what it finds."""
    ephemeral = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    found = {
        "processes": list(processes()),
        "listening": list(listening()),
        "random_ports": [int(port) for port in ephemeral],
        "root_is_writable": root_is_writable(),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
