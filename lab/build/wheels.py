"""Installs or downloads wheels that a requirements file locks by hash."""

import sys
from pathlib import Path

from lab.processes import run


def _pip(action: str, requirements: Path, *options: str | Path) -> None:
    run(sys.executable, "-m", "pip", action, "--quiet", "--require-hashes", "-r", requirements, *options)


def install(requirements: Path, target: Path, *options: str) -> None:
    """Installs the locked requirements into `target`."""
    _pip("install", requirements, "--target", target, *options)


def download(requirements: Path, target: Path, *options: str) -> None:
    """Downloads the wheels of the locked requirements into `target`."""
    _pip("download", requirements, "--dest", target, *options)
