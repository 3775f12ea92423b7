"""Installs the provider double as a plugin of an engine."""

import sys
from pathlib import Path

from lab.aws.double.version import VERSION
from lab.site import CHECKOUT

PROGRAM = "pulumi-resource-aws"


def install(pulumi_home: Path) -> None:
    """Writes the plugin into the engine's directory. A provider that is there under this version is replaced."""
    directory = pulumi_home / "plugins" / f"resource-aws-v{VERSION}"
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / PROGRAM
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{CHECKOUT}" exec "{sys.executable}" -m lab.aws.double "$@"\n')
    program.chmod(0o755)
