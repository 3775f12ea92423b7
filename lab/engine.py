"""The Pulumi engine: the one on PATH, or the one built here, with a state and a passphrase of its own."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.build.cache import ensure
from lab.build.images import ENGINE_IMAGE, PYTHON_IMAGE
from lab.build.pieces import PROVIDER_PIECE, PROVIDER_VERSION, PULUMI_PIECE, YAML_LANGUAGE_HOST_PIECE
from lab.cluster.control_plane import kubectl
from lab.cluster.servers import S3_ACCESS_KEY, S3_REGION, S3_SECRET_KEY
from lab.processes import run
from lab.site import CHECKOUT, Site


def own_pulumi() -> Path | None:
    """A usable `pulumi` on PATH: one that answers and has its Python language host beside it."""
    found = shutil.which("pulumi")
    if not found or not (Path(found).resolve().parent / "pulumi-language-python").exists():
        return None
    answer = subprocess.run([found, "version"], capture_output=True, check=False)
    return Path(found) if answer.returncode == 0 else None


@dataclass(frozen=True)
class Engine:
    """An engine that keeps everything below one directory: programs, plugins and state."""

    directory: Path

    @property
    def programs(self) -> Path:
        """The directory to be put first on PATH."""
        return self.directory / "bin"

    @property
    def settings(self) -> dict[str, str]:
        """The environment for `pulumi`."""
        return {
            "PATH": f"{self.programs}:{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "PULUMI_HOME": str(self.directory / "pulumi-home"),
            "PULUMI_BACKEND_URL": f"file://{self.directory}/pulumi-state",
            "PULUMI_CONFIG_PASSPHRASE": "lab",
            "PULUMI_SKIP_UPDATE_CHECK": "true",
        }

    def install(self) -> None:
        """Fills the directory; programs are built first if need be, and a state that is there is kept.

        The programs are laid out anew each time: an earlier checkout, to which they led, may be gone.
        """
        shutil.rmtree(self.programs, ignore_errors=True)
        self.programs.mkdir(parents=True)
        (self.directory / "pulumi-state").mkdir(exist_ok=True)
        (self.programs / "kubectl").symlink_to(kubectl())
        if own_pulumi():
            return
        for piece in (PULUMI_PIECE, YAML_LANGUAGE_HOST_PIECE):
            for program in ensure(piece).iterdir():
                # A hard link, as the engine looks for its bundled language hosts beside its own file.
                (self.programs / program.name).hardlink_to(program)
        host = self.programs / "pulumi-language-python"
        host.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{CHECKOUT}/lab/language_host.py" "$@"\n')
        host.chmod(0o755)
        provider = ensure(PROVIDER_PIECE) / "pulumi-resource-kubernetes"
        plugin = (self.programs / "pulumi", "plugin", "install", "resource", "kubernetes", f"v{PROVIDER_VERSION}")
        run(*plugin, "--file", provider, environment=self.settings)


def settings(site: Site) -> dict[str, str]:
    """The environment for `pulumi` and for heavylift in a lab: its engine, cluster, images, hub and S3 server."""
    return {
        **Engine(site.directory).settings,
        "KUBECONFIG": str(site.kubeconfig),
        "HEAVYLIFT_KUBECONFIG": str(site.kubeconfig),
        "HEAVYLIFT_KUBE_CONTEXT": "lab",
        "HEAVYLIFT_STAGE_IMAGE": PYTHON_IMAGE,
        "HEAVYLIFT_ENGINE_IMAGE": ENGINE_IMAGE,
        "HF_ENDPOINT": site.url("hub"),
        "AWS_ENDPOINT_URL_S3": site.url("s3"),
        "AWS_ACCESS_KEY_ID": S3_ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": S3_SECRET_KEY,
        "AWS_REGION": S3_REGION,
    }
