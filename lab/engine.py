"""The Pulumi engine: from PATH or built here, with its own state and passphrase."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.aws.client import LabAWS
from lab.aws.double.plugin import install as install_double
from lab.build.cache import ensure
from lab.build.images import ENGINE_IMAGE, PYTHON_IMAGE
from lab.build.pieces import PROVIDER_PIECE, PROVIDER_VERSION, PULUMI_PIECE, YAML_LANGUAGE_HOST_PIECE
from lab.cluster.control_plane import kubectl
from lab.cluster.servers import S3_ACCESS_KEY, S3_REGION, S3_SECRET_KEY
from lab.processes import run
from lab.site import CHECKOUT, Site


def own_pulumi() -> Path | None:
    """Returns a usable `pulumi` on PATH: one that runs and has the Python language host in its folder."""
    found = shutil.which("pulumi")
    if not found or not (Path(found).resolve().parent / "pulumi-language-python").exists():
        return None
    answer = subprocess.run([found, "version"], capture_output=True, check=False)
    return Path(found) if answer.returncode == 0 else None


@dataclass(frozen=True)
class Engine:
    """An engine whose programs, plugins and state are below one directory."""

    directory: Path

    @property
    def programs(self) -> Path:
        """The directory to put first on PATH."""
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
        """Installs the engine. Builds its programs if the cache has none, and keeps an existing state.

        Links the programs again each time, because the checkout of an earlier link may no longer exist.
        """
        shutil.rmtree(self.programs, ignore_errors=True)
        self.programs.mkdir(parents=True)
        (self.directory / "pulumi-state").mkdir(exist_ok=True)
        (self.programs / "kubectl").symlink_to(kubectl())
        # Pulumi wants the plugin of every package in the environment, and would try to download that of pulumi-aws.
        install_double(Path(self.settings["PULUMI_HOME"]))
        if own_pulumi():
            return
        for piece in (PULUMI_PIECE, YAML_LANGUAGE_HOST_PIECE):
            for program in ensure(piece).iterdir():
                # A hard link: the engine looks for bundled language hosts in the folder of its own file.
                (self.programs / program.name).hardlink_to(program)
        host = self.programs / "pulumi-language-python"
        host.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{CHECKOUT}/lab/language_host.py" "$@"\n')
        host.chmod(0o755)
        provider = ensure(PROVIDER_PIECE) / "pulumi-resource-kubernetes"
        plugin = (self.programs / "pulumi", "plugin", "install", "resource", "kubernetes", f"v{PROVIDER_VERSION}")
        run(*plugin, "--file", provider, environment=self.settings)


def settings(site: Site) -> dict[str, str]:
    """Returns the environment of `pulumi` and heavylift in a lab: engine, cluster, images, hub and S3 server."""
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


def aws_settings(site: Site) -> dict[str, str]:
    """Returns the environment of a lab with its AWS, S3 too, for stacks on AWS: pulumi-aws is the provider double.

    Such a stack names its cluster itself, and its nodes are simulated, so that no image of the lab is needed.
    """
    lab = {name: value for name, value in settings(site).items() if not name.startswith(("AWS_", "HEAVYLIFT_"))}
    return {**lab, **LabAWS(site.url("aws")).settings}
