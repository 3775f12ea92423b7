"""Downloads the distribution's packages with their dependencies, and unpacks them without installing.

Works on Debian and Ubuntu, with the host's apt sources and keys and an empty package database. Leaves the host's
package database, lists and services unread and unchanged.
"""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.build.cache import Piece, Progress
from lab.errors import LabError
from lab.processes import run

# Directories of a merged /usr. Some packages contain files under the old names.
MERGED = ("bin", "sbin", "lib", "lib64")


def release() -> str:
    """Returns the distribution and release, e.g. `debian 12`."""
    text = Path("/etc/os-release").read_text()
    fields = dict(re.findall(r'^(ID|VERSION_ID)="?([^"\n]*)"?$', text, re.M))
    return f"{fields.get('ID', 'unknown')} {fields.get('VERSION_ID', '')}".strip()


def _apt(workspace: Path, *arguments: str) -> None:
    state, cache = workspace / "apt/state", workspace / "apt/cache"
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (cache / "archives/partial").mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    options = {
        "Dir::State": state,
        "Dir::State::status": state / "status",
        "Dir::Cache": cache,
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "root",
        "Debug::NoLocking": "true",
        # Hooks in the host's configuration call services of the host.
        "APT::Update::Post-Invoke::": "",
    }
    settings = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    run("apt-get", "-qq", "-y", *settings, *arguments)


def unpack(packages: Sequence[str], root: Path, workspace: Path, progress: Progress) -> None:
    """Downloads `packages` and their dependencies, and unpacks them into `root` without running their scripts.

    Raises LabError if apt is missing or a package is unknown.
    """
    progress.say("(package lists)")
    _apt(workspace, "update")
    progress.say("(packages)")
    _apt(workspace, "install", "--download-only", *packages)
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    archives = sorted((workspace / "apt/cache/archives").glob("*.deb"))
    for index, archive in enumerate(archives, 1):
        progress.say(f"(unpacking {index} of {len(archives)})")
        extract = ["tar", "--extract", "--keep-directory-symlink", "--directory", str(root)]
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as content:
            unpacked = subprocess.run(extract, stdin=content.stdout, check=False)
        if content.returncode or unpacked.returncode:
            raise LabError(f"{archive.name} cannot be unpacked")


TOOLS = ("containerd", "runc", "containernetworking-plugins", "iptables", "iproute2", "conntrack", "mount", "socat")


def _build_tools(workspace: Path, progress: Progress) -> None:
    root = workspace / "root"
    unpack(TOOLS, root, workspace, progress)
    for name in ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"):
        (root / "usr/sbin" / name).symlink_to("xtables-nft-multi")
    shutil.rmtree(workspace / "apt")


TOOLS_PIECE = Piece("tools", (release(), *TOOLS), _build_tools, "about 1 min")
