"""The servers outside the cluster: a model hub with a wheel index, an S3 server, and AWS' APIs."""

import sys
from pathlib import Path

from lab.build.cache import ensure
from lab.build.pieces import VERSITYGW_PIECE
from lab.processes import Program
from lab.site import CHECKOUT, Site

S3_ACCESS_KEY = "heavylift"
S3_SECRET_KEY = "heavylift-lab-secret"  # noqa: S105 - of a server that only this machine reaches
S3_REGION = "us-east-1"


def hub(site: Site) -> Program:
    """The model hub and wheel index."""
    flags = {
        "host": site.address,
        "port": site.ports["hub"],
        "storage-port": site.ports["hub-storage"],
        "repositories": site.directory / "repositories.yaml",
        "wheels": site.directory / "wheels",
        "state-dir": site.directory / "hub",
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    return Program("hub", [sys.executable, "-m", "lab.hub", *words], {"PYTHONPATH": str(CHECKOUT)})


def s3(site: Site) -> Program:
    """An S3 server that serves a directory of the lab."""
    buckets = site.directory / "buckets"
    buckets.mkdir(exist_ok=True)
    environment = {"ROOT_ACCESS_KEY": S3_ACCESS_KEY, "ROOT_SECRET_KEY": S3_SECRET_KEY, "VGW_REGION": S3_REGION}
    address = f"{site.address}:{site.ports['s3']}"
    return Program("s3", [ensure(VERSITYGW_PIECE) / "versitygw", "--port", address, "posix", buckets], environment)


def aws(site: Site) -> Program:
    """AWS' APIs, which answer with this lab's cluster."""
    flags = {"host": site.address, "port": site.ports["aws"], "kubeconfig": site.kubeconfig}
    words = [f"--{name}={value}" for name, value in flags.items()]
    return Program("aws", [sys.executable, "-m", "lab.aws.server", *words], {"PYTHONPATH": str(CHECKOUT)})


def all_servers(site: Site) -> list[Program]:
    """Returns all servers."""
    return [hub(site), s3(site), aws(site)]


def wheels_directory(site: Site) -> Path:
    """Returns the directory of the wheel index."""
    return site.directory / "wheels"
