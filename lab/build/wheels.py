"""Wheels, by hash: installed into a directory, or kept as files for the lab's own package index."""

import sys
from pathlib import Path

from lab.processes import run


def _pip(action: str, requirements: Path, *options: str | Path) -> None:
    run(sys.executable, "-m", "pip", action, "--quiet", "--require-hashes", "-r", requirements, *options)


def install(requirements: Path, target: Path, *options: str) -> None:
    """Installs what the requirements lock below `target`."""
    _pip("install", requirements, "--target", target, *options)


def download(requirements: Path, target: Path, *options: str) -> None:
    """Puts the wheels that the requirements lock into `target`."""
    _pip("download", requirements, "--dest", target, *options)
